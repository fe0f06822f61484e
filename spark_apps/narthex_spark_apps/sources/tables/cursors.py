"""Cursors of tables: the column that grows with each change, as a position in the source.

A row's position is (cursor, its key), as bytes in the same order. Each scan starts a little before
the previous cursor, because a row may become visible after a row with a greater cursor.
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
    """The cursor of a row has no order."""


def cursor_of(value: object) -> Cursor:
    """Read the cursor of a row.

    Raises:
        NoCursorError: It is null, or its type does not have the same order everywhere.
    """
    match value:
        case bool():
            pass
        case int() if -_BIAS <= value < _BIAS:
            return int(value)  # drivers may return a subclass of int
        case str() | dt.datetime() | dt.date():
            return value
        case Decimal() if value.is_finite() and value == int(value):
            return cursor_of(int(value))
        case _:
            pass
    raise NoCursorError(
        f"the cursor got `{value!r}`; expected a 64-bit integer, an instant, a day or text"
    )


def place_of(cursor: Cursor, identity: Sequence[object]) -> tuple[int, bytes]:
    """Return the offset of a row in its table, and bytes that separate rows with the same cursor.

    Args:
        cursor: The cursor of the row.
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
    """Return a cursor in the form that a checkpoint stores."""
    match cursor:
        case dt.datetime():
            return {"instant": cursor.isoformat()}
        case dt.date():
            return {"day": cursor.isoformat()}
        case _:
            return cursor


def parse_cursor(plain: Json) -> Cursor:
    """Parse a cursor that a checkpoint stored.

    Raises:
        NoCursorError: The value is not a cursor.
    """
    match plain:
        case {"instant": str(text)}:
            return dt.datetime.fromisoformat(text)
        case {"day": str(text)}:
            return dt.date.fromisoformat(text)
        case _:
            return cursor_of(plain)


@attrs.frozen(kw_only=True)
class TablePosition:
    """The read position in a table.

    Attributes:
        highs: Pairs of an instant (microseconds) and the greatest cursor read by then, the newest
            pair last.
    """

    highs: tuple[tuple[int, Cursor], ...] = ()

    def start(self, *, now_us: int, disorder_us: int) -> Cursor | None:
        """Return the cursor to read from next; None is the beginning.

        A time cursor moves back by `disorder`. Any other cursor is the one that had been reached
        that long ago, or the one after the first scan.
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
        # Of the cursors reached before `disorder` ago only the newest is needed.
        first = max(sum(new) - 1, 0)
        return TablePosition(highs=(*self.highs[first:], (now_us, high)))

    def plain(self) -> Json:
        """Return the JSON form for a checkpoint."""
        return [[at, described(high)] for at, high in self.highs]

    @classmethod
    def parse(cls, plain: Json) -> "TablePosition":
        """Parse the position in a checkpoint."""
        found = []
        for one in plain if isinstance(plain, list) else []:
            match one:
                case [int(at), high]:
                    found.append((at, parse_cursor(high)))
                case _:
                    raise NoCursorError(f"found `{one!r}` in the stored cursors")
        return cls(highs=tuple(found))
