# mypy: disable-error-code="explicit-any"
"""Keeping tiles true: new rows are merged in, and what lost a row is gathered again."""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from narthex.aggregates import Folding, State
from narthex_stores.index.environment import Environment, Transaction
from narthex_stores.index.layout import (
    Layout,
    RawRow,
    instant_of,
    pack,
    tile_key,
    unpack,
)

Tile: TypeAlias = tuple[bytes, int]
"""(group, tile number) on some level."""


@attrs.define(kw_only=True)
class TileChanges:
    """What a batch does to the finest tiles.

    Attributes:
        length_us: Of the finest tiles.
        added: New rows by tile.
        rebuilt: Tiles that lost or changed a row; their part of `added` counts for nothing.
    """

    length_us: int
    added: dict[Tile, list[RawRow]] = attrs.field(factory=dict)
    rebuilt: set[Tile] = attrs.field(factory=set)

    def add(self, group: bytes, row: RawRow) -> None:
        """Note a row that is new."""
        tile = (group, row[0] // self.length_us)
        found = self.added.get(tile)
        if found is None:
            self.added[tile] = [row]
        else:
            found.append(row)

    def remove(self, group: bytes, event_time: int) -> None:
        """Note that a row went away or changed."""
        self.rebuilt.add((group, event_time // self.length_us))


@attrs.frozen(kw_only=True)
class TileWriter:
    """Applies a batch's changes to the tiles of all levels, each read and written once."""

    layout: Layout
    folding: Folding
    environment: Environment
    transaction: Transaction

    def apply(self, changes: TileChanges) -> None:
        """Make all tiles true again; the rows were written before."""
        ladder = self.layout.spec.ladder_us
        rebuilt = changes.rebuilt
        gather = self.folding.gather
        added = {t: gather(rows) for t, rows in changes.added.items() if t not in rebuilt}
        for level, length in enumerate(ladder):
            self._write(level, added, rebuilt)
            if level + 1 < len(ladder):
                ratio = ladder[level + 1] // length
                rebuilt = {(group, number // ratio) for group, number in rebuilt}
                added = self._coarser(added, rebuilt, ratio)

    def _coarser(
        self, added: dict[Tile, list[State]], rebuilt: set[Tile], ratio: int
    ) -> dict[Tile, list[State]]:
        parts: dict[Tile, list[list[State]]] = {}
        for (group, number), states in added.items():
            tile = (group, number // ratio)
            if tile not in rebuilt:
                parts.setdefault(tile, []).append(states)
        merge_all = self.folding.merge_all
        return {tile: merge_all(states) for tile, states in parts.items()}

    def _write(self, level: int, added: dict[Tile, list[State]], rebuilt: set[Tile]) -> None:
        keys = {tile_key(group, level, number): (group, number) for group, number in added}
        merge = self.folding.merge
        ordered = sorted(keys)
        with self.transaction.cursor(db=self.environment.tiles) as cursor:
            known = dict(cursor.getmulti(ordered))
            items = []
            for key in ordered:
                states = added[keys[key]]
                stored = known.get(key)
                items.append((key, pack(merge(unpack(stored), states) if stored else states)))
            cursor.putmulti(items)
        for group, number in rebuilt:
            self._rebuild(level, group, number)

    def _rebuild(self, level: int, group: bytes, number: int) -> None:
        parts = self._rows(group, number) if level == 0 else self._finer(level, group, number)
        key = tile_key(group, level, number)
        if parts:
            states = self.folding.merge_all(parts)
            self.transaction.put(key, pack(states), db=self.environment.tiles)
        else:
            self.transaction.delete(key, db=self.environment.tiles)

    def _rows(self, group: bytes, number: int) -> Sequence[list[State]]:
        length = self.layout.spec.ladder_us[0]
        first, end = instant_of(number * length), instant_of((number + 1) * length)
        rows: list[RawRow] = []
        with self.transaction.cursor(db=self.environment.facts) as cursor:
            if cursor.set_range(group + first):
                for key, value in cursor:
                    if key >= group + end:
                        break
                    plain = unpack(value)
                    if plain[1]:
                        rows.append(self.layout.raw_row(key, plain, group))
        return [self.folding.gather(rows)] if rows else []

    def _finer(self, level: int, group: bytes, number: int) -> Sequence[list[State]]:
        ladder = self.layout.spec.ladder_us
        ratio = ladder[level] // ladder[level - 1]
        first = tile_key(group, level - 1, number * ratio)
        end = tile_key(group, level - 1, (number + 1) * ratio)
        states: list[list[State]] = []
        with self.transaction.cursor(db=self.environment.tiles) as cursor:
            if cursor.set_range(first):
                for key, value in cursor:
                    if key >= end:
                        break
                    states.append(unpack(value))
        return states
