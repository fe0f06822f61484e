"""Cursors of tables: the column that grows with each change, as a place in the source.

A row's position is (cursor, its key), as bytes that sort as they do. A cursor is read again from
a little before where it stood, because a row may become visible after one with a greater cursor.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, TypeAlias

import attrs

from narthex._base import Json, to_micros
from narthex._formats import EPOCH_ORDINAL
from narthex_spark_apps.platform.json_values import plain

Cursor: TypeAlias = int | str | dt.datetime | dt.date

_BIAS: Final = 2**63
_HEAD_BYTES: Final = 8
_DIGEST_BYTES: Final = 16


class NoCursorError(ValueError):
    """A row's cursor orders nothing."""


def cursor_of(value: object) -> Cursor:
    """Read the cursor of a row.

    Raises:
        NoCursorError: It is null, or of a type without one order everywhere.
    """
    match value:
        case bool():
            pass
        case int() if -_BIAS <= value < _BIAS:
            return int(value)  # a driver may have an integer of its own
        case str() | dt.datetime() | dt.date():
            return value
        case Decimal() if value.is_finite() and value == int(value):
            return cursor_of(int(value))
        case _:
            pass
    raise NoCursorError(
        f"the cursor found `{value!r}`; it wants an integer of 64 bits, an instant, a day or a text"
    )


def place_of(cursor: Cursor, identity: Sequence[object]) -> tuple[int, bytes]:
    """Return the offset of a row in its table, and what tells rows of the same cursor apart.

    Args:
        cursor: Where the row stands.
        identity: The values of its primary key, or all of its values.
    """
    named = json.dumps([plain(value) for value in identity], ensure_ascii=True).encode()
    digest = hashlib.blake2b(named, digest_size=_DIGEST_BYTES).digest()
    match cursor:
        case str():
            text = cursor.encode()
            head = text[:_HEAD_BYTES].ljust(_HEAD_BYTES, b"\x00")
            return int.from_bytes(head, "big"), text + b"\x00" + digest
        case _:
            return _number(cursor) + _BIAS, digest


def _number(cursor: int | dt.datetime | dt.date) -> int:
    match cursor:
        case dt.datetime():
            return to_micros(cursor)
        case dt.date():
            return cursor.toordinal() - EPOCH_ORDINAL
        case _:
            return cursor


def described(cursor: Cursor) -> Json:
    """Return a cursor as a checkpoint keeps it."""
    match cursor:
        case dt.datetime():
            return {"instant": cursor.isoformat()}
        case dt.date():
            return {"day": cursor.isoformat()}
        case _:
            return cursor


def parse_cursor(kept: Json) -> Cursor:
    """Read a cursor that a checkpoint kept.

    Raises:
        NoCursorError: It is none.
    """
    match kept:
        case {"instant": str(text)}:
            return dt.datetime.fromisoformat(text)
        case {"day": str(text)}:
            return dt.date.fromisoformat(text)
        case _:
            return cursor_of(kept)


@attrs.frozen(kw_only=True)
class TablePosition:
    """How far a table was read.

    Attributes:
        highs: Pairs of an instant (microseconds) and the greatest cursor that was read by then,
            the newest one last.
    """

    highs: tuple[tuple[int, Cursor], ...] = ()

    def start(self, *, now_us: int, disorder_us: int) -> Cursor | None:
        """Return the cursor to read from next; None is the beginning.

        An instant goes back by `disorder`. Of other cursors it is where they stood that long ago,
        or after the first reading.
        """
        if not self.highs:
            return None
        newest = self.highs[-1][1]
        match newest:
            case dt.datetime():
                return newest - dt.timedelta(microseconds=disorder_us)
            case dt.date():
                return newest - dt.timedelta(days=-(-disorder_us // 86_400_000_000))
            case _:
                old = [high for at, high in self.highs if at <= now_us - disorder_us]
                return old[-1] if old else self.highs[0][1]

    def after(self, high: Cursor | None, *, now_us: int, disorder_us: int) -> "TablePosition":
        """Return the position after a scan whose greatest cursor was `high`."""
        if high is None or (self.highs and self.highs[-1][1] == high):
            return self
        new = [at <= now_us - disorder_us for at, _ in self.highs]
        # Of what stood `disorder` ago only the newest is of use.
        first = max(sum(new) - 1, 0)
        return TablePosition(highs=(*self.highs[first:], (now_us, high)))

    def plain(self) -> Json:
        """Render it for a checkpoint."""
        return [[at, described(high)] for at, high in self.highs]

    @classmethod
    def parse(cls, kept: Json) -> "TablePosition":
        """Read what a checkpoint kept."""
        found = []
        for one in kept if isinstance(kept, list) else []:
            match one:
                case [int(at), high]:
                    found.append((at, parse_cursor(high)))
                case _:
                    raise NoCursorError(f"found `{one!r}` among the cursors that were kept")
        return cls(highs=tuple(found))
