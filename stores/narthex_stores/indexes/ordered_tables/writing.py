# mypy: disable-error-code="explicit-any"
"""Apply a batch of facts to the tables of an index, inside one transaction."""

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from narthex._aggregates import Folding
from narthex._ir import TOMBSTONE_TIME, Cell, Fact, Version
from narthex_stores.facts.columns import FactColumns
from narthex_stores.indexes.key_layout import (
    IndexLayout,
    event_time_of,
    instant_of,
    pack,
    places_of,
    row_of,
    unpack,
)
from narthex_stores.indexes.ordered_tables.tables import Tables, Transaction
from narthex_stores.indexes.ordered_tables.tile_changes import TileChanges
from narthex_stores.indexes.ordered_tables.tile_table import TileTable
from narthex_stores.indexes.ordered_tables.tiles import TileWriter
from narthex_stores.indexes.protocol import AppliedBatch, Invalidation, NotCorrectableError

Located: TypeAlias = tuple[bytes, bytes, Fact]
"""(key in `facts`, group, fact)."""

Span: TypeAlias = tuple[bytes, int, tuple[Cell, ...]]
"""(group, event time, key cells): where the lookups of a key may have changed."""


@attrs.frozen(kw_only=True)
class LocatedColumns:
    """Contributions as columns, with their groups and their keys in `facts`."""

    facts: FactColumns
    groups: Sequence[bytes]
    keys: Sequence[bytes]


def locate_all(layout: IndexLayout, facts: Sequence[Fact]) -> list[Located]:
    """Locate facts, in the order of their keys: ordered writes touch each page once."""
    located = [(*layout.locate(fact), fact) for fact in facts]
    located.sort(key=_first)
    return located


def locate_columns(layout: IndexLayout, facts: FactColumns) -> LocatedColumns:
    """Locate contributions, in their order."""
    groups = layout.groups(facts.keys)
    keys = places_of(groups, facts.event_times, facts.row_ids)
    return LocatedColumns(facts=facts, groups=groups, keys=keys)


@attrs.define(kw_only=True)
class BatchWriter:
    """Applies one batch; each batch needs a new writer.

    Attributes:
        folding: The aggregates of contributions; None for other shapes.
        undone: The rows that were removed before: (group, event time, key) of each.
    """

    layout: IndexLayout
    folding: Folding | None
    tables: Tables
    transaction: Transaction
    undone: Sequence[Span] = ()
    _fresh: int = 0
    _tiles: TileChanges | None = None
    _spans: list[Span] = attrs.field(factory=list)

    def apply_located(self, facts: Sequence[Located]) -> AppliedBatch:
        """Apply facts in the order of their keys, and update the tiles."""
        kept = self._begin_tiles()
        for removed in self.undone:
            self._removed(*removed)
        if self.layout.spec.correctable:
            for key, group, fact in facts:
                self._take_correctable(key, group, fact)
        else:
            self._take_all(facts)
        self._write_tiles(kept)
        invalidations = self._invalidations() if self._spans else ()
        return AppliedBatch(
            fresh=self._fresh, duplicates=len(facts) - self._fresh, invalidations=invalidations
        )

    def apply_located_columns(self, located: "LocatedColumns") -> AppliedBatch:
        """Apply contributions as columns, and update the tiles.

        The index must not be correctable or have `by` columns, and its log must not have validity
        intervals.
        """
        facts = located.facts
        kept = self._begin_tiles()
        self._take_columns(located)
        self._write_tiles(kept)
        return AppliedBatch(
            fresh=self._fresh, duplicates=len(facts) - self._fresh, invalidations=()
        )

    def _begin_tiles(self) -> Folding | None:
        """Return the folding that tiles store; None without tiles."""
        spec = self.layout.spec
        kept = self.folding and self.folding.of_tiles(counting_rows=bool(spec.parts_us))
        if kept is None or not kept.partials or not spec.ladder_us:
            return None
        self._tiles = TileChanges(length_us=spec.ladder_us[0])
        return kept

    def _write_tiles(self, kept: Folding | None) -> None:
        if self._tiles is not None and kept is not None:
            table = TileTable(
                layout=self.layout,
                folding=kept,
                tables=self.tables,
                transaction=self.transaction,
            )
            TileWriter(table=table).apply(self._tiles)

    def _take_columns(self, located: "LocatedColumns") -> None:
        facts, groups, keys = located.facts, located.groups, located.keys
        values = self.layout.values(facts)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        fresh: list[int] = []
        repeated: list[int] = []
        last = b""
        with self.transaction.cursor(db=self.tables.facts) as cursor:
            known = {key for key, _ in cursor.getmulti([keys[place] for place in order])}
            for place in order:
                key = keys[place]
                if key == last or key in known:
                    repeated.append(place)
                else:
                    last = key
                    fresh.append(place)
            cursor.putmulti([(keys[place], values[place]) for place in fresh])
        self._fresh += len(fresh)
        if self._tiles is not None:
            self._tiles.add_columns(groups, facts, fresh)
        for place in repeated:
            self._take_repeated(keys[place], groups[place], facts.fact(place))

    def _take_all(self, located: Sequence[Located]) -> None:
        repeated: list[Located] = []
        items: list[tuple[bytes, bytes]] = []
        render, added = self.layout.fact_value, self._added
        last = b""
        with self.transaction.cursor(db=self.tables.facts) as cursor:
            known = {key for key, _ in cursor.getmulti([key for key, _, _ in located])}
            for place in located:
                key, group, fact = place
                if key == last or key in known:
                    repeated.append(place)
                    continue
                if fact.event_time == TOMBSTONE_TIME:
                    raise NotCorrectableError(f"{fact!r} comes to an index that is not correctable")
                last = key
                items.append((key, render(fact)))
                added(group, fact)
            cursor.putmulti(items)
        for key, group, fact in repeated:
            self._take_repeated(key, group, fact)

    def _take_repeated(self, key: bytes, group: bytes, fact: Fact) -> None:
        facts = self.tables.facts
        stored = unpack(self.transaction.get(key, db=facts))
        if stored[0] < fact.version:
            self.transaction.put(key, self.layout.fact_value(fact), db=facts)
            self._removed(group, fact.event_time, fact.key)
            self._added(group, fact)

    def _take_correctable(self, key: bytes, group: bytes, fact: Fact) -> None:
        rows = self.tables.rows
        row = row_of(fact.row_id)
        known = self.transaction.get(row, db=rows)
        if known is not None:
            version, old_key, group_length, *ended = unpack(known)
            if version >= fact.version:
                return
            if old_key is not None and ended:
                self.transaction.delete(old_key, db=self.tables.tiles)
            elif old_key is not None:
                self._leave(old_key, group_length, fact)
        has_place = self.layout.has_place(fact)
        place = self._put(key, group, fact) if has_place else (None, len(group))
        self.transaction.put(row, pack((fact.version, *place)), db=rows)
        if has_place:
            self._added(group, fact)
        else:
            self._fresh += 1

    def _put(self, key: bytes, group: bytes, fact: Fact) -> tuple[bytes | int, ...]:
        """Write a fact under its key; return the position to store for it."""
        ended = self.layout.ended_key(fact, group)
        if ended is None:
            value = self.layout.fact_value(fact)
            self.transaction.put(key, value, db=self.tables.facts)
            return key, len(group)
        self.transaction.put(ended, self.layout.ended_value(fact), db=self.tables.tiles)
        return ended, len(group), True

    def _leave(self, old_key: bytes, group_length: int, fact: Fact) -> None:
        group = old_key[:group_length]
        facts = self.tables.facts
        stored = self.transaction.get(old_key, db=facts)
        self.transaction.delete(old_key, db=facts)
        key = self.layout.key_cells(unpack(stored), fact.key)
        self._removed(group, event_time_of(old_key, group), key)

    def _added(self, group: bytes, fact: Fact) -> None:
        self._fresh += 1
        if self._tiles is not None:
            if fact.alive:  # tombstones keep their places where the index is not correctable
                self._tiles.add(group, (fact.event_time, fact.row_id, fact.values))
        elif self.layout.keyed:
            self._spans.append((group, fact.event_time, fact.key))

    def _removed(self, group: bytes, event_time: int, key: tuple[Cell, ...]) -> None:
        if self._tiles is not None:
            self._tiles.remove(group, event_time)
        elif self.layout.keyed:
            self._spans.append((group, event_time, key))

    def _invalidations(self) -> tuple[Invalidation, ...]:
        instants = dict.fromkeys((group, event_time) for group, event_time, _ in self._spans)
        cells = {(group, event_time): key for group, event_time, key in self._spans}
        return tuple(
            Invalidation(
                key=cells[span],
                from_us=span[1],
                to_us=next_version(self.tables, self.transaction, *span),
            )
            for span in instants
        )


def next_version(
    tables: Tables, transaction: Transaction, group: bytes, event_time: int
) -> int | None:
    """Return the instant of a key's next version after an instant; None without one."""
    with transaction.cursor(db=tables.facts) as cursor:
        if cursor.set_range(group + instant_of(event_time + 1)):
            key: bytes = cursor.key()
            if key.startswith(group):
                return event_time_of(key, group)
    return None


KeyInstant: TypeAlias = tuple[bytes, int]
"""(group, event time): the beginning of a version of a key."""


def changed_places(
    layout: IndexLayout, tables: Tables, transaction: Transaction, fact: Fact
) -> dict[KeyInstant, tuple[Cell, ...]]:
    """Return the instants at which a fact would change a keyed log, each with its key.

    The result is empty if the fact is outdated.
    """
    key, group = layout.locate(fact)
    here = {(group, fact.event_time): fact.key} if layout.has_place(fact) else {}
    if not layout.spec.correctable:
        known = transaction.get(key, db=tables.facts)
        return here if known is None or Version(unpack(known)[0]) < fact.version else {}
    known = transaction.get(row_of(fact.row_id), db=tables.rows)
    if known is None:
        return here
    version, old_key, group_length = unpack(known)
    if Version(version) >= fact.version:
        return {}
    if old_key is not None:
        left = old_key[:group_length]
        stored = unpack(transaction.get(old_key, db=tables.facts))
        here[left, event_time_of(old_key, left)] = layout.key_cells(stored, fact.key)
    return here


def _first(located: Located) -> bytes:
    return located[0]
