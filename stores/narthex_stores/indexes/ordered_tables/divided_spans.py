# mypy: disable-error-code="explicit-any"
"""Read the ends of windows: the rows or, where many fall together, the parts of a finest tile."""

import itertools
from collections.abc import Sequence

import attrs

from narthex._aggregates import Span
from narthex._ir import BEGINNING, IndexSpec
from narthex_stores.indexes.key_layout import (
    IndexLayout,
    PackedTile,
    RawRow,
    instant_of,
    tile_key,
    unpack,
    unpack_tile,
)
from narthex_stores.indexes.ordered_tables.raw_rows import rows_between
from narthex_stores.indexes.ordered_tables.tables import Transaction, entries_between


@attrs.frozen(kw_only=True)
class WindowEnd:
    """A span inside one finest tile, both ends inclusive.

    Attributes:
        may_divide: Whether the tile's parts are surely there if its rows are many.
    """

    first: int
    last: int
    may_divide: bool


@attrs.frozen(kw_only=True)
class SpanParts:
    """Rows and tiles that make up spans."""

    rows: list[RawRow] = attrs.field(factory=list)
    tiles: list[PackedTile] = attrs.field(factory=list)


def ends_of(spans: Sequence[Span], spec: IndexSpec, oldest: int) -> tuple[WindowEnd, ...]:
    """Divide spans that no finest tile fits into by the finest tiles; empty without parts.

    Rows before `oldest` may expire, and with them a tile around it: then its parts may remain
    while later rows are missing in them.
    """
    if not spec.parts_us:
        return ()
    length = spec.ladder_us[0]
    return tuple(
        WindowEnd(
            first=max(first, number * length),
            last=min(last, (number + 1) * length - 1),
            may_divide=not spec.expires or oldest <= number * length,
        )
        for begin, last in spans
        for first in (BEGINNING if begin is None else begin,)
        for number in range(first // length, last // length + 1)
    )


@attrs.frozen(kw_only=True)
class PartReader:
    """Reads spans of one group by rows and parts of divided tiles.

    Attributes:
        rows_at: The position of the number of rows in a tile; None if tiles are not divided.
        facts: A cursor on the facts.
        tiles: A cursor on the tiles.
    """

    layout: IndexLayout
    group: bytes
    rows_at: int | None
    facts: Transaction
    tiles: Transaction

    def read(self, end: WindowEnd) -> SpanParts:
        """Return the rows of a span or, if they are many, parts and few rows."""
        if not end.may_divide:
            return SpanParts(rows=self._rows(end.first, end.last))
        few = self._few_rows(end.first, end.last, self.layout.spec.divided_above)
        if few is not None:
            return SpanParts(rows=few)
        found = SpanParts()
        self._read_inside(0, end.first, end.last, found)
        return found

    def _rows(self, first: int, last: int) -> list[RawRow]:
        return rows_between(self.layout, self.facts, self.group, first, last)

    def _few_rows(self, first: int, last: int, most: int) -> list[RawRow] | None:
        """Return the rows of a span; None if they are more."""
        group, facts = self.group, self.facts
        items = entries_between(facts, group + instant_of(first), group + instant_of(last + 1))
        found = list(itertools.islice(items, most + 1))
        return None if len(found) > most else self.layout.raw_rows(found, group)

    def _read_inside(self, depth: int, first: int, last: int, into: SpanParts) -> None:
        """Add a span inside a finest tile (depth 0) or inside a part."""
        spec = self.layout.spec
        level = spec.level_of_parts(depth)
        number = first // spec.tile_lengths_us[level]
        if depth == len(spec.parts_us) or not self._is_divided(level, number):
            into.rows.extend(self._rows(first, last))
            return
        level, length = spec.level_of_parts(depth + 1), spec.parts_us[depth]
        begin, end = -(-first // length), (last + 1) // length
        if begin >= end:
            for number in range(first // length, last // length + 1):
                inside = max(first, number * length), min(last, (number + 1) * length - 1)
                self._read_inside(depth + 1, *inside, into)
            return
        if first < begin * length:
            self._read_inside(depth + 1, first, begin * length - 1, into)
        into.tiles.extend(self._tiles(level, begin, end))
        if end * length <= last:
            self._read_inside(depth + 1, end * length, last, into)

    def _is_divided(self, level: int, number: int) -> bool:
        key = tile_key(self.group, level, number)
        if self.rows_at is None or not self.tiles.set_range(key) or self.tiles.key() != key:
            return False
        rows: int = unpack(unpack_tile(self.tiles.value())[self.rows_at])
        return rows > self.layout.spec.divided_above

    def _tiles(self, level: int, first: int, end: int) -> list[PackedTile]:
        keys = tile_key(self.group, level, first), tile_key(self.group, level, end)
        return [unpack_tile(value) for _, value in entries_between(self.tiles, *keys)]
