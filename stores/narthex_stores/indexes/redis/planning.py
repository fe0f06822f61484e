"""Choose the entries of each group that applying a batch visits, before anything is read.

A new fact visits its own place, the tiles that contain it and, in a keyed log, the next version. A
removed one also visits all rows of its finest tile, and the finer tiles of each coarser one.
"""

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from narthex._aggregates import Folding
from narthex_stores.indexes.key_layout import IndexLayout, instant_of, tile_key
from narthex_stores.indexes.redis.members import AFTER, FACTS, TILES
from narthex_stores.indexes.redis.servers import Argument

ALL = -1

Range: TypeAlias = tuple[bytes, bytes, int]
"""(from, to, limit): members from inclusive, to exclusive; `ALL` means no limit."""


@attrs.frozen
class GroupNeeds:
    """The members of one group that a batch visits."""

    prefixes: dict[bytes, None] = attrs.field(factory=dict)
    ranges: dict[Range, None] = attrs.field(factory=dict)

    def arguments(self) -> list[Argument]:
        """Return the arguments of `STAGE_GROUP` after its token."""
        found: list[Argument] = [len(self.prefixes), *self.prefixes]
        for one in self.ranges:
            found += one
        return found


@attrs.frozen(kw_only=True)
class BatchNeeds:
    """The members of all groups that a batch visits.

    Attributes:
        ladder_us: The lengths of tiles that the index stores; empty without tiles.
        parts_us: The lengths of their parts.
    """

    keyed: bool
    ladder_us: tuple[int, ...]
    parts_us: tuple[int, ...]
    groups: dict[bytes, GroupNeeds] = attrs.field(factory=dict)

    @classmethod
    def of(cls, layout: IndexLayout, folding: Folding | None) -> "BatchNeeds":
        """Return the needs of an empty batch."""
        has_tiles = folding is not None and bool(folding.of_small_states().partials)
        spec = layout.spec
        return cls(
            keyed=layout.keyed,
            ladder_us=spec.ladder_us if has_tiles else (),
            parts_us=spec.parts_us if has_tiles else (),
        )

    def group(self, group: bytes) -> GroupNeeds:
        """Return the needs of a group, which the batch visits."""
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = GroupNeeds()
        return found

    def add_fact(self, group: bytes, key: bytes, event_time: int) -> None:
        """Add what a new fact visits."""
        needs = self.group(group)
        needs.prefixes[FACTS + key[len(group) :]] = None
        if self.keyed:
            after = FACTS + instant_of(event_time + 1)
            needs.ranges[after, AFTER[FACTS], 1] = None
        for level, number in self._tiles(event_time):
            needs.prefixes[TILES + tile_key(b"", level, number)] = None

    def add_facts(self, located: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Add what new facts visit: (group, key, event time) of each."""
        for one in located:
            self.add_fact(*one)

    def add_removal(self, group: bytes, event_time: int) -> None:
        """Add what the removal of a row visits beyond its own place and tiles."""
        if not self.ladder_us:
            return
        needs = self.group(group)
        finer = 0
        for level, number in self._tiles(event_time):
            length = self.ladder_us[level]
            if level == 0:
                self.add_inside(group, 0, number)
            else:
                ratio = length // self.ladder_us[finer]
                bounds = (
                    TILES + tile_key(b"", finer, number * ratio),
                    TILES + tile_key(b"", finer, (number + 1) * ratio),
                )
                needs.ranges[*bounds, ALL] = None
            finer = level

    def add_inside(self, group: bytes, depth: int, number: int) -> None:
        """Add all rows and parts inside a finest tile (depth 0) or inside a part."""
        needs = self.group(group)
        length = self.ladder_us[0] if depth == 0 else self.parts_us[depth - 1]
        begin, end = number * length, (number + 1) * length
        needs.ranges[FACTS + instant_of(begin), FACTS + instant_of(end), ALL] = None
        for level, part in enumerate(self.parts_us[depth:], len(self.ladder_us) + depth):
            bounds = (
                TILES + tile_key(b"", level, begin // part),
                TILES + tile_key(b"", level, end // part),
            )
            needs.ranges[*bounds, ALL] = None

    def add_parts(self, group: bytes, event_time: int) -> None:
        """Add the parts that contain a new fact."""
        needs = self.group(group)
        for level, length in enumerate(self.parts_us, len(self.ladder_us)):
            needs.prefixes[TILES + tile_key(b"", level, event_time // length)] = None

    def _tiles(self, event_time: int) -> Iterable[tuple[int, int]]:
        return ((level, event_time // length) for level, length in enumerate(self.ladder_us))
