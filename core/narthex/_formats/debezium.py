"""Debezium envelopes: a change of a table's row, with the row before and after it.

An envelope has `op` (`c` created, `r` read by a snapshot, `u` updated, `d` deleted), `before`,
`after` and `ts_ms`; it may be inside a `payload`. Pushed rows have the four as columns.
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
    """A row that is not an envelope; the message has the reason."""


@attrs.frozen(kw_only=True)
class Envelope:
    """A change of a row.

    Attributes:
        after: The row after the change, with the envelope's other columns (the row's own win);
            None if the row is deleted.
        before: The row before the change, likewise; None if the row is new, or the table does not
            record it.
        at_us: When the change was written, microseconds; None if the envelope does not have it.
        is_update: Whether the row existed before.
    """

    after: Raw | None
    before: Raw | None
    at_us: int | None
    is_update: bool


def open_envelope(raw: Raw) -> Envelope | None:
    """Read an envelope; None if it does not describe a row.

    Raises:
        NoEnvelopeError: It is not an envelope.
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
            raise NoEnvelopeError(f"`{name}` found text that is not JSON") from None
    if row is None:
        return None
    if not isinstance(row, dict):
        raise NoEnvelopeError(f"`{name}` found `{row!r}`; expected the row")
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
