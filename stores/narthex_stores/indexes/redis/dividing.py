"""Choose the parts of divided tiles that applying a batch visits, once their tiles were read.

Quiet groups have none, and need no further call. A tile that has parts gains rows in those that
contain a new fact; one that the batch may divide is read as a whole, with few rows.
"""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from narthex._aggregates import Folding
from narthex_stores.indexes.key_layout import IndexLayout, tile_key, unpack
from narthex_stores.indexes.redis.planning import BatchNeeds
from narthex_stores.indexes.redis.staged_tables import StagedTables

Place: TypeAlias = tuple[bytes, int]
"""(group, event time) of a new fact."""


@attrs.frozen(kw_only=True)
class DividingNeeds:
    """The needs of new facts in tiles with many rows.

    Attributes:
        rows_at: The position of the number of rows in a tile.
        tables: What was read before.
    """

    layout: IndexLayout
    folding: Folding
    rows_at: int
    tables: StagedTables

    @classmethod
    def of(
        cls, layout: IndexLayout, folding: Folding | None, tables: StagedTables
    ) -> "DividingNeeds | None":
        """Return the needs of an index whose tiles are divided; None for others."""
        if folding is None or not layout.spec.parts_us:
            return None
        rows_at = folding.of_tiles(counting_rows=True).rows_at
        if rows_at is None:
            return None
        return cls(layout=layout, folding=folding, rows_at=rows_at, tables=tables)

    def of_tiles(self, places: Sequence[Place]) -> BatchNeeds:
        """Return what new facts need of their finest tiles, which were read."""
        needs = BatchNeeds.of(self.layout, self.folding)
        for (group, number), inside in self._by_tile(0, places).items():
            before = self._rows(0, group, number)
            if before > self._most:
                for event_time in dict.fromkeys(inside):
                    needs.add_parts(group, event_time)
            elif before + len(inside) > self._most:
                needs.add_inside(group, 0, number)
        return needs

    def of_parts(self, places: Sequence[Place]) -> BatchNeeds:
        """Return what new facts need of the parts, which were read, of tiles that have them."""
        needs = BatchNeeds.of(self.layout, self.folding)
        depth = 0
        while places and depth < len(self.layout.spec.parts_us):
            deeper: list[Place] = []
            for (group, number), inside in self._by_tile(depth, places).items():
                before = self._rows(depth, group, number)
                if before > self._most:
                    deeper += [(group, event_time) for event_time in inside]
                elif depth and before + len(inside) > self._most:
                    needs.add_inside(group, depth, number)
            depth, places = depth + 1, deeper
        return needs

    @property
    def _most(self) -> int:
        return self.layout.spec.divided_above

    def _by_tile(self, depth: int, places: Sequence[Place]) -> dict[Place, list[int]]:
        spec = self.layout.spec
        length = spec.tile_lengths_us[spec.level_of_parts(depth)]
        found: dict[Place, list[int]] = {}
        for group, event_time in places:
            found.setdefault((group, event_time // length), []).append(event_time)
        return found

    def _rows(self, depth: int, group: bytes, number: int) -> int:
        level = self.layout.spec.level_of_parts(depth)
        value = self.tables.tiles.entries.get(tile_key(group, level, number))
        return 0 if value is None else int(unpack(value)[self.rows_at])
