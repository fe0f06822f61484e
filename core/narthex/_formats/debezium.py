"""Envelopes of Debezium: what became of a row of a table, with the row before and after it.

An envelope has `op` (`c` created, `r` read by a snapshot, `u` updated, `d` deleted), `before`,
`after` and `ts_ms`; it may stand in a `payload`. Rows that are pushed have the four as columns.
"""

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from narthex._base.records import Json

Raw: TypeAlias = Mapping[str, Json]

_WRITES: Final = frozenset({"c", "r", "u"})
_MILLI_US: Final = 1000


class NoEnvelopeError(ValueError):
    """A row that is no envelope; says why."""


@attrs.frozen(kw_only=True)
class Envelope:
    """What became of a row.

    Attributes:
        after: The row as it stands now, with the envelope's own columns behind its own; None if
            it is gone.
        before: The row as it stood, likewise; None if it is new, or the table does not tell.
        at_us: When it was written, microseconds; None if that is not said.
        is_update: Whether the row stood before.
    """

    after: Raw | None
    before: Raw | None
    at_us: int | None
    is_update: bool


def open_envelope(raw: Raw) -> Envelope | None:
    """Read an envelope; None if it says nothing of a row.

    Raises:
        NoEnvelopeError: It is none.
    """
    if "op" not in raw and isinstance(payload := raw.get("payload"), dict):
        raw = payload
    op = raw.get("op")
    if not raw or op == "m":
        return None
    after, before = _row(raw, "after"), _row(raw, "before")
    if op in _WRITES and after is None:
        raise NoEnvelopeError(f"found op `{op}` without `after`")
    if op == "d" and before is None:
        raise NoEnvelopeError("found op `d` without `before`")
    if op == "t":
        raise NoEnvelopeError("found op `t`: a truncate names no rows")
    if op not in _WRITES and op != "d":
        raise NoEnvelopeError(f"found op `{op}`; an envelope has c, r, u or d")
    return Envelope(
        after=after if op in _WRITES else None,
        before=before,
        at_us=_instant(raw.get("ts_ms")),
        is_update=op == "u",
    )


def _row(raw: Raw, name: str) -> Raw | None:
    row = raw.get(name)
    if isinstance(row, str):
        try:
            row = json.loads(row)
        except ValueError:
            raise NoEnvelopeError(f"`{name}` found text that is no JSON") from None
    if row is None:
        return None
    if not isinstance(row, dict):
        raise NoEnvelopeError(f"`{name}` found `{row!r}`; it wants the row")
    own = {key: value for key, value in raw.items() if key not in {"before", "after"}}
    return own | row


def _instant(milliseconds: Json) -> int | None:
    match milliseconds:
        case bool():
            return None
        case int() | float():
            return round(milliseconds * _MILLI_US)
        case str() if milliseconds.strip().isdecimal():
            return int(milliseconds) * _MILLI_US
        case _:
            return None
