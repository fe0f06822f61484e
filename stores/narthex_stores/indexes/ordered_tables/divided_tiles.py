# mypy: disable-error-code="explicit-any"
"""Divide finest tiles with many rows into parts, which are tiles of their own levels.

A finest tile, or a part, has parts exactly if it has more rows than `IndexSpec.divided_above`. So
where many rows fall together a read needs only few rows and parts, and elsewhere there are none.
"""

from collections.abc import Sequence

import attrs

from narthex._aggregates import State
from narthex_stores.indexes.key_layout import RawRow, tile_key
from narthex_stores.indexes.ordered_tables.tile_changes import Columns, TileChanges
from narthex_stores.indexes.ordered_tables.tile_table import TileTable


@attrs.frozen(kw_only=True)
class DividedTiles:
    """Keeps finest tiles and their parts; depth 0 are the finest tiles, depth 1 their parts."""

    table: TileTable

    def grow(self, changes: TileChanges, columns: Columns, counts: Sequence[int]) -> None:
        """Update the parts of finest tiles that gained rows.

        Args:
            changes: The new rows.
            columns: The states of the new rows of each tile.
            counts: How many rows each tile has now.
        """
        self._grow(0, changes, columns, counts)

    def _grow(
        self, depth: int, changes: TileChanges, columns: Columns, counts: Sequence[int]
    ) -> None:
        table, spec = self.table, self.table.layout.spec
        rows_at = table.rows_at
        while rows_at is not None and depth < len(spec.parts_us):
            if max(counts, default=0) <= spec.divided_above:
                return
            finer = TileChanges(length_us=spec.parts_us[depth])
            self._add_divided(finer, depth, changes, columns[rows_at], counts)
            depth, changes = depth + 1, finer
            columns = table.folding.scatter(changes.rows, changes.places)
            counts = table.write(self._level(depth), list(changes.tiles), columns)

    def _add_divided(
        self,
        finer: TileChanges,
        depth: int,
        changes: TileChanges,
        fresh: Sequence[int],
        counts: Sequence[int],
    ) -> None:
        """Add the rows that parts gain: the new ones of a tile, or all if it has no parts yet."""
        most = self.table.layout.spec.divided_above
        of_new = set[int]()
        for place, (group, number) in enumerate(changes.tiles):
            before = counts[place] - fresh[place]
            if counts[place] <= most:
                continue
            if before <= most:
                self._remove_parts(depth, group, number)
            if 0 < before <= most:
                first, length = number * changes.length_us, changes.length_us
                finer.add_all(group, self.table.rows(group, first, first + length - 1))
            else:
                of_new.add(place)
        tiles = list(changes.tiles)
        for row, place in zip(changes.rows, changes.places, strict=True):
            if place in of_new:
                finer.add(tiles[place][0], row)

    def rebuild(self, group: bytes, number: int, instants: Sequence[int]) -> None:
        """Compute a finest tile anew whose rows changed at these instants, with its parts."""
        self._rebuild(0, group, number, instants)

    def _rebuild(self, depth: int, group: bytes, number: int, instants: Sequence[int]) -> None:
        key = tile_key(group, self._level(depth), number)
        if self._is_divided(depth, self.table.get(key)):
            states = self._from_parts(depth, group, number, instants)
        else:
            states = self._from_rows(depth, group, number)
        self.table.put(key, states)

    def _is_divided(self, depth: int, states: Sequence[State] | None) -> bool:
        spec, rows_at = self.table.layout.spec, self.table.rows_at
        return (
            states is not None
            and rows_at is not None
            and depth < len(spec.parts_us)
            and states[rows_at] > spec.divided_above
        )

    def _from_parts(
        self, depth: int, group: bytes, number: int, instants: Sequence[int]
    ) -> list[State] | None:
        length = self.table.layout.spec.parts_us[depth]
        changed: dict[int, list[int]] = {}
        for instant in instants:
            changed.setdefault(instant // length, []).append(instant)
        for part, those in changed.items():
            self._rebuild(depth + 1, group, part, those)
        ratio = self._length(depth) // length
        level = self._level(depth + 1)
        states = self.table.merged(
            self.table.between(group, level, number * ratio, (number + 1) * ratio)
        )
        if not self._is_divided(depth, states):
            self._remove_parts(depth, group, number)
        return states

    def _from_rows(self, depth: int, group: bytes, number: int) -> list[State] | None:
        length = self._length(depth)
        rows: list[RawRow] = self.table.rows(group, number * length, (number + 1) * length - 1)
        if not rows:
            return None
        states = self.table.folding.gather(rows)
        if self._is_divided(depth, states):
            changes = TileChanges(length_us=length)
            changes.add_all(group, rows)
            # All rows are new to the parts.
            self._grow(depth, changes, [[state] for state in states], [len(rows)])
        return states

    def _remove_parts(self, depth: int, group: bytes, number: int) -> None:
        length = self._length(depth)
        for finer, part in enumerate(self.table.layout.spec.parts_us[depth:], depth + 1):
            ratio = length // part
            self.table.remove_between(
                group, self._level(finer), number * ratio, (number + 1) * ratio
            )

    def _level(self, depth: int) -> int:
        return self.table.layout.spec.level_of_parts(depth)

    def _length(self, depth: int) -> int:
        return self.table.layout.spec.tile_lengths_us[self._level(depth)]
