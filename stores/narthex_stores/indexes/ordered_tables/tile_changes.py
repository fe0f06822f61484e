# mypy: disable-error-code="explicit-any"
"""The changes of a batch to tiles of one length: the rows that they gain, and where they change."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from narthex._aggregates import State
from narthex_stores.facts.columns import FactColumns
from narthex_stores.indexes.key_layout import RawRow

Tile: TypeAlias = tuple[bytes, int]
"""(group, tile number) on some level."""

Columns: TypeAlias = list[list[State]]
"""The states of tiles, one list for each partial."""


@attrs.define(kw_only=True)
class TileChanges:
    """The changes of a batch to the tiles of one length.

    Attributes:
        length_us: The length of the tiles.
        tiles: The tiles with new rows, numbered in the order of first use.
        rows: The new rows; `places` has the tile of each.
        removed: For each tile that lost or changed rows, the event times of these.
    """

    length_us: int
    tiles: dict[Tile, int] = attrs.field(factory=dict)
    rows: list[RawRow] = attrs.field(factory=list)
    places: list[int] = attrs.field(factory=list)
    removed: dict[Tile, list[int]] = attrs.field(factory=dict)

    def add(self, group: bytes, row: RawRow) -> None:
        """Add a new row."""
        tiles = self.tiles
        self.places.append(tiles.setdefault((group, row[0] // self.length_us), len(tiles)))
        self.rows.append(row)

    def add_all(self, group: bytes, rows: Iterable[RawRow]) -> None:
        """Add new rows of a group."""
        for row in rows:
            self.add(group, row)

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
        """Note that a row was removed or changed."""
        tile = group, event_time // self.length_us
        self.removed.setdefault(tile, []).append(event_time)

    def settled(self) -> tuple["TileChanges", dict[Tile, list[int]]]:
        """Divide the changes into those of tiles that only gained rows, and those of others.

        The latter are the event times at which the rows of each tile changed.
        """
        if not self.removed:
            return self, {}
        kept = TileChanges(length_us=self.length_us)
        changed = {tile: list(instants) for tile, instants in self.removed.items()}
        tiles = list(self.tiles)
        for row, place in zip(self.rows, self.places, strict=True):
            tile = tiles[place]
            if tile in changed:
                changed[tile].append(row[0])
            else:
                kept.add(tile[0], row)
        return kept, changed
