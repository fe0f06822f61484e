# mypy: disable-error-code="explicit-any"
"""The positions of the rows of a correctable index, which outlive an interrupted batch.

A row may move to a group on another server. So its position is stored before the groups change, and
names every place where the row may still be: the new one, and those that it is about to leave. A
row whose entries disagree with its position was interrupted: its entries are removed first, and its
facts are applied as if they were new.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import attrs

from narthex_stores.indexes.key_layout import IndexLayout, event_time_of, pack, unpack
from narthex_stores.indexes.ordered_tables.writing import Located, Span
from narthex_stores.indexes.redis.staged_tables import StagedTable, StagedTables

Plain: TypeAlias = Any
"""A value unpacked from MessagePack."""


@attrs.frozen
class Place:
    """The place of a row.

    Attributes:
        key: Its key in `facts`, or among the ended contributions.
    """

    key: bytes
    group_length: int
    has_ended: bool = False

    @property
    def group(self) -> bytes:
        """The group of the row."""
        return self.key[: self.group_length]

    @property
    def instant(self) -> int:
        """The instant of the entry."""
        return event_time_of(self.key, self.group)

    def table(self, tables: StagedTables) -> StagedTable:
        """Return the table that has the entry."""
        return tables.tiles if self.has_ended else tables.facts

    def entry(self, tables: StagedTables) -> Plain:
        """Return the unpacked entry; None without one."""
        value = self.table(tables).entries.get(self.key)
        return None if value is None else unpack(value)


@attrs.frozen
class RowPosition:
    """The position of a row.

    Attributes:
        version: The newest version that was applied.
        place: Where that version is; None if it has no place.
        left: The places that the row left when it moved there.
    """

    version: bytes
    place: Place | None
    left: tuple[Place, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """All places where the row may be."""
        return self.left if self.place is None else (self.place, *self.left)

    def is_complete(self, tables: StagedTables) -> bool:
        """Whether the entries agree with this position."""
        if any(place.entry(tables) is not None for place in self.left):
            return False
        if self.place is None:
            return True
        entry = self.place.entry(tables)
        return entry is not None and entry[0] == self.version

    def packed(self) -> bytes:
        """Render it as the servers store it."""
        return pack((self.version, *_plain(self.place), [_plain(place) for place in self.left]))

    def packed_without_left(self) -> bytes:
        """Render it as the writer of `ordered_tables` reads it."""
        if self.place is None:
            return pack((self.version, None, 0))
        ended = (True,) if self.place.has_ended else ()
        return pack((self.version, self.place.key, self.place.group_length, *ended))


def _plain(place: Place | None) -> tuple[bytes | None, int, bool]:
    return (None, 0, False) if place is None else (place.key, place.group_length, place.has_ended)


def unpack_position(value: bytes) -> RowPosition:
    """Read a position as the servers store it."""
    version, key, group_length, has_ended, left = unpack(value)
    place = None if key is None else Place(key, group_length, has_ended)
    return RowPosition(version, place, tuple(Place(*one) for one in left))


def moved_position(value: bytes, stood: Iterable[Place]) -> RowPosition:
    """Read a position as the writer of `ordered_tables` writes it.

    Args:
        value: The position.
        stood: The places where the row was before.
    """
    version, key, group_length, *ended = unpack(value)
    place = None if key is None else Place(key, group_length, bool(ended))
    left = () if place is None else (place,)
    return RowPosition(version, place, tuple(one for one in stood if one not in left))


@attrs.frozen
class Settled:
    """The facts of a batch that remain to be applied, once interrupted rows were removed.

    Attributes:
        undone: Where rows were removed.
        stood: The places of each row before the batch.
    """

    located: list[Located]
    undone: list[Span]
    stood: dict[bytes, tuple[Place, ...]]


def settle(
    layout: IndexLayout,
    tables: StagedTables,
    positions: dict[bytes, RowPosition],
    facts: Sequence[tuple[bytes, Located]],
) -> Settled:
    """Compare the entries of rows with their positions, and remove the interrupted ones.

    Args:
        layout: The layout of the index.
        tables: The entries; the rows' positions are added.
        positions: The stored positions by row.
        facts: The row and the place of each fact.
    """
    newest: dict[bytes, bytes] = {}
    cells = {}
    for row, (_, _, fact) in facts:
        newest[row] = max(newest.get(row, b""), fact.version)
        cells[row] = fact.key
    settled = Settled([], [], {})
    interrupted: set[bytes] = set()
    for row, position in positions.items():
        standing = tuple(p for p in position.places if p.entry(tables) is not None)
        settled.stood[row] = standing
        if newest[row] < position.version or position.is_complete(tables):
            tables.rows.load(row, position.packed_without_left())
            continue
        interrupted.add(row)
        for place in standing:
            if not place.has_ended:
                key = layout.key_cells(place.entry(tables), cells[row])
                settled.undone.append((place.group, place.instant, key))
            place.table(tables).delete(place.key)
    settled.located.extend(
        located
        for row, located in facts
        if row not in interrupted or located[2].version >= positions[row].version
    )
    return settled
