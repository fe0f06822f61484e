"""Keep tiles up to date: merge new rows in, and rebuild tiles that lost a row."""

import attrs

from narthex_stores.indexes.key_layout import tile_key
from narthex_stores.indexes.ordered_tables.divided_tiles import DividedTiles
from narthex_stores.indexes.ordered_tables.tile_changes import Columns, Tile, TileChanges
from narthex_stores.indexes.ordered_tables.tile_table import TileTable


@attrs.frozen(kw_only=True)
class TileWriter:
    """Applies a batch's changes to the tiles of all levels; each is read and written once.

    States are processed as columns, one per partial, so that no call is made per tile.
    """

    table: TileTable

    def apply(self, changes: TileChanges) -> None:
        """Update all tiles; the rows must be written before."""
        table, ladder = self.table, self.table.layout.spec.ladder_us
        finest = DividedTiles(table=table)
        added, changed = changes.settled()
        tiles = list(added.tiles)
        columns = table.folding.scatter(added.rows, added.places)
        finest.grow(added, columns, table.write(0, tiles, columns))
        for (group, number), instants in changed.items():
            finest.rebuild(group, number, instants)
        rebuilt = set(changed)
        for level in range(1, len(ladder)):
            ratio = ladder[level] // ladder[level - 1]
            rebuilt = {(group, number // ratio) for group, number in rebuilt}
            tiles, columns = self._coarser(tiles, columns, rebuilt, ratio)
            table.write(level, tiles, columns)
            for group, number in rebuilt:
                parts = table.between(group, level - 1, number * ratio, (number + 1) * ratio)
                table.put(tile_key(group, level, number), table.merged(parts))

    def _coarser(
        self, tiles: list[Tile], columns: Columns, rebuilt: set[Tile], ratio: int
    ) -> tuple[list[Tile], Columns]:
        parents = [(group, number // ratio) for group, number in tiles]
        if rebuilt:
            kept = [place for place, tile in enumerate(parents) if tile not in rebuilt]
            parents = [parents[place] for place in kept]
            columns = [[states[place] for place in kept] for states in columns]
        numbered: dict[Tile, int] = {}
        places = [numbered.setdefault(tile, len(numbered)) for tile in parents]
        if len(numbered) < len(parents):
            columns = self.table.folding.coarsen(columns, places)
        return list(numbered), columns
