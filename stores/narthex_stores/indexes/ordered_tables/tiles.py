# mypy: disable-error-code="explicit-any"
"""Keep tiles up to date: merge new rows in, and rebuild tiles that lost a row."""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from narthex._aggregates import Folding, State
from narthex_stores.facts.columns import FactColumns
from narthex_stores.indexes.key_layout import (
    IndexLayout,
    RawRow,
    pack,
    tile_key,
    tile_keys,
    unpack,
)
from narthex_stores.indexes.ordered_tables.raw_rows import rows_between
from narthex_stores.indexes.ordered_tables.tables import Tables, Transaction

Tile: TypeAlias = tuple[bytes, int]
"""(group, tile number) on some level."""


@attrs.define(kw_only=True)
class TileChanges:
    """The changes of a batch to the finest tiles.

    Attributes:
        length_us: The length of the finest tiles.
        tiles: The tiles with new rows, numbered in the order of first use.
        rows: The new rows; `places` has the tile of each.
        rebuilt: Tiles that lost or changed a row; their new rows are ignored.
    """

    length_us: int
    tiles: dict[Tile, int] = attrs.field(factory=dict)
    rows: list[RawRow] = attrs.field(factory=list)
    places: list[int] = attrs.field(factory=list)
    rebuilt: set[Tile] = attrs.field(factory=set)

    def add(self, group: bytes, row: RawRow) -> None:
        """Add a new row."""
        tiles = self.tiles
        self.places.append(tiles.setdefault((group, row[0] // self.length_us), len(tiles)))
        self.rows.append(row)

    def add_columns(
        self, groups: Sequence[bytes], facts: FactColumns, fresh: Sequence[int]
    ) -> None:
        """Add many new rows, at these places and in this order; tombstones are ignored."""
        alive = facts.alive
        chosen = fresh if all(alive) else [place for place in fresh if alive[place]]
        length, tiles, event_times = self.length_us, self.tiles, facts.event_times
        found = [(groups[place], event_times[place] // length) for place in chosen]
        self.places += [tiles.setdefault(tile, len(tiles)) for tile in found]
        cells = list(zip(*facts.values, strict=True)) if facts.values else [()] * len(facts)
        row_ids = facts.row_ids
        self.rows += [(event_times[place], row_ids[place], cells[place]) for place in chosen]

    def remove(self, group: bytes, event_time: int) -> None:
        """Mark the tile of a row that was removed or changed."""
        self.rebuilt.add((group, event_time // self.length_us))

    def added(self) -> "TileChanges":
        """Return the new rows of tiles that only gained rows."""
        if not self.rebuilt:
            return self
        kept = TileChanges(length_us=self.length_us)
        tiles = list(self.tiles)
        for row, place in zip(self.rows, self.places, strict=True):
            if tiles[place] not in self.rebuilt:
                kept.add(tiles[place][0], row)
        return kept


@attrs.frozen(kw_only=True)
class TileWriter:
    """Applies a batch's changes to the tiles of all levels; each is read and written once.

    States are processed as columns, one per partial, so that no call is made per tile.
    """

    layout: IndexLayout
    folding: Folding
    tables: Tables
    transaction: Transaction

    def apply(self, changes: TileChanges) -> None:
        """Update all tiles; the rows must be written before."""
        ladder = self.layout.spec.ladder_us
        added, rebuilt = changes.added(), changes.rebuilt
        tiles = list(added.tiles)
        columns = self.folding.scatter(added.rows, added.places)
        for level, length in enumerate(ladder):
            self._write(level, tiles, columns)
            for group, number in rebuilt:
                self._rebuild(level, group, number)
            if level + 1 < len(ladder):
                ratio = ladder[level + 1] // length
                rebuilt = {(group, number // ratio) for group, number in rebuilt}
                tiles, columns = self._coarser(tiles, columns, rebuilt, ratio)

    def _coarser(
        self, tiles: list[Tile], columns: list[list[State]], rebuilt: set[Tile], ratio: int
    ) -> tuple[list[Tile], list[list[State]]]:
        parents = [(group, number // ratio) for group, number in tiles]
        if rebuilt:
            kept = [place for place, tile in enumerate(parents) if tile not in rebuilt]
            parents = [parents[place] for place in kept]
            columns = [[states[place] for place in kept] for states in columns]
        numbered: dict[Tile, int] = {}
        places = [numbered.setdefault(tile, len(numbered)) for tile in parents]
        if len(numbered) < len(parents):
            columns = self.folding.coarsen(columns, places)
        return list(numbered), columns

    def _write(self, level: int, tiles: list[Tile], columns: list[list[State]]) -> None:
        keys = tile_keys(tiles, level)
        packed = list(map(pack, zip(*columns, strict=True)))
        with self.transaction.cursor(db=self.tables.tiles) as cursor:
            known = dict(cursor.getmulti(keys))
            if known:
                self._merge_known(keys, columns, known, packed)
            cursor.putmulti(zip(keys, packed, strict=True))

    def _merge_known(
        self,
        keys: list[bytes],
        columns: list[list[State]],
        known: dict[bytes, bytes],
        packed: list[bytes],
    ) -> None:
        places = [place for place, key in enumerate(keys) if key in known]
        stored = list(zip(*[unpack(known[keys[place]]) for place in places], strict=True))
        fresh = [[states[place] for place in places] for states in columns]
        merged = self.folding.merge_pairs(stored, fresh)
        for place, value in zip(places, map(pack, zip(*merged, strict=True)), strict=True):
            packed[place] = value

    def _rebuild(self, level: int, group: bytes, number: int) -> None:
        parts = self._rows(group, number) if level == 0 else self._finer(level, group, number)
        key = tile_key(group, level, number)
        if parts:
            states = self.folding.merge_all(parts)
            self.transaction.put(key, pack(states), db=self.tables.tiles)
        else:
            self.transaction.delete(key, db=self.tables.tiles)

    def _rows(self, group: bytes, number: int) -> Sequence[list[State]]:
        length = self.layout.spec.ladder_us[0]
        first, last = number * length, (number + 1) * length - 1
        with self.transaction.cursor(db=self.tables.facts) as cursor:
            rows = rows_between(self.layout, cursor, group, first, last)
        return [self.folding.gather(rows)] if rows else []

    def _finer(self, level: int, group: bytes, number: int) -> Sequence[list[State]]:
        ladder = self.layout.spec.ladder_us
        ratio = ladder[level] // ladder[level - 1]
        first = tile_key(group, level - 1, number * ratio)
        end = tile_key(group, level - 1, (number + 1) * ratio)
        states: list[list[State]] = []
        with self.transaction.cursor(db=self.tables.tiles) as cursor:
            if cursor.set_range(first):
                for key, value in cursor:
                    if key >= end:
                        break
                    states.append(unpack(value))
        return states
