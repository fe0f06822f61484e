# mypy: disable-error-code="explicit-any"
"""The stored states of tiles: read, merge and write them."""

from collections.abc import Sequence

import attrs

from narthex._aggregates import Folding, State
from narthex_stores.indexes.key_layout import (
    IndexLayout,
    RawRow,
    pack,
    tile_key,
    tile_keys,
    unpack,
)
from narthex_stores.indexes.ordered_tables.raw_rows import rows_between
from narthex_stores.indexes.ordered_tables.tables import Tables, Transaction, entries_between
from narthex_stores.indexes.ordered_tables.tile_changes import Columns, Tile


@attrs.frozen(kw_only=True)
class TileTable:
    """The tiles of an index inside one transaction.

    Attributes:
        folding: The partials that a tile stores, in order.
        rows_at: The position of the number of rows among them; None without it.
    """

    layout: IndexLayout
    folding: Folding
    tables: Tables
    transaction: Transaction
    rows_at: int | None = attrs.field(init=False)

    @rows_at.default
    def _find_rows(self) -> int | None:
        return self.folding.rows_at if self.layout.spec.parts_us else None

    def write(self, level: int, tiles: Sequence[Tile], columns: Columns) -> Sequence[int]:
        """Merge states into the tiles of a level; return how many rows each has now.

        The result is empty if tiles do not count their rows.
        """
        keys = tile_keys(tiles, level)
        packed = list(map(pack, zip(*columns, strict=True)))
        counts = [] if self.rows_at is None else list(columns[self.rows_at])
        with self.transaction.cursor(db=self.tables.tiles) as cursor:
            known = dict(cursor.getmulti(keys))
            if known:
                places = [place for place, key in enumerate(keys) if key in known]
                merged = self._merged_known(
                    [known[keys[place]] for place in places], columns, places
                )
                for place, value in zip(places, map(pack, zip(*merged, strict=True)), strict=True):
                    packed[place] = value
                if self.rows_at is not None:
                    for place, count in zip(places, merged[self.rows_at], strict=True):
                        counts[place] = count
            cursor.putmulti(zip(keys, packed, strict=True))
        return counts

    def _merged_known(
        self, values: Sequence[bytes], columns: Columns, places: Sequence[int]
    ) -> Columns:
        stored = list(zip(*map(unpack, values), strict=True))
        fresh = [[states[place] for place in places] for states in columns]
        return self.folding.merge_pairs(stored, fresh)

    def rows(self, group: bytes, first: int, last: int) -> list[RawRow]:
        """Return the rows of a group in a span, both ends inclusive."""
        with self.transaction.cursor(db=self.tables.facts) as cursor:
            return rows_between(self.layout, cursor, group, first, last)

    def get(self, key: bytes) -> list[State] | None:
        """Return the states of a tile; None without one."""
        value = self.transaction.get(key, db=self.tables.tiles)
        return None if value is None else list(unpack(value))

    def put(self, key: bytes, states: Sequence[State] | None) -> None:
        """Write a tile; None removes it."""
        if states is None:
            self.transaction.delete(key, db=self.tables.tiles)
        else:
            self.transaction.put(key, pack(states), db=self.tables.tiles)

    def between(self, group: bytes, level: int, first: int, end: int) -> list[list[State]]:
        """Return the states of the tiles of a level, from one inclusive to one exclusive."""
        keys = tile_key(group, level, first), tile_key(group, level, end)
        with self.transaction.cursor(db=self.tables.tiles) as cursor:
            return [unpack(value) for _, value in entries_between(cursor, *keys)]

    def remove_between(self, group: bytes, level: int, first: int, end: int) -> None:
        """Remove the tiles of a level, from one inclusive to one exclusive."""
        keys = tile_key(group, level, first), tile_key(group, level, end)
        with self.transaction.cursor(db=self.tables.tiles) as cursor:
            found = [key for key, _ in entries_between(cursor, *keys)]
        for key in found:
            self.transaction.delete(key, db=self.tables.tiles)

    def merged(self, parts: Sequence[Sequence[State]]) -> list[State] | None:
        """Return the states of the rows of all parts; None without parts."""
        return self.folding.merge_all(parts) if parts else None
