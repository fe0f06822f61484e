# mypy: disable-error-code="explicit-any"
"""Folding one group as of an instant from its newest rows and its tiles."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from narthex.aggregates import Algebra, Folding, Span, State
from narthex.facts import Cell
from narthex.tiles import Cover, TileRange, cover_span
from narthex.window_spans import lookback_of
from narthex_stores.index.environment import Transaction, step_before
from narthex_stores.index.layout import (
    Layout,
    Plain,
    RawRow,
    event_time_of,
    instant_of,
    level_prefix,
    tile_key,
    unpack,
)
from narthex_stores.index.protocol import Found
from narthex_stores.index.raw_rows import rows_between

NEWEST_ROWS = 32
"""So many of a group's newest rows are read first: most groups and short windows need no tile."""

_BEGINNING = -(1 << 63)

_Parts: TypeAlias = tuple[Sequence[RawRow], Sequence[Plain]]
"""The raw rows and the tiles that make up a span."""


@attrs.frozen(kw_only=True)
class PlannedSlot:
    """One aggregate at one instant: the span that it counts and how tiles cover that.

    Attributes:
        tile: The place of its state in a tile; None if no tile has one.
        cover: Rows only, if no tile has a state of it.
    """

    partial: int
    tile: int | None
    column: int | None
    algebra: Algebra
    span: Span
    cover: Cover
    as_of: int


@attrs.frozen(kw_only=True)
class SlotPlan:
    """All aggregates at one instant; `seen_until` is the last instant that any of them knows."""

    slots: tuple[PlannedSlot, ...]
    seen_until: int


def plan_slots(folding: Folding, as_of: int, ladder_us: tuple[int, ...]) -> SlotPlan:
    """Plan a fold at an instant, for any number of groups."""
    spans = folding.spans(as_of)
    kept = folding.of_small_states().partials
    places = {partial: place for place, partial in enumerate(kept)}
    tiles = [places.get(folding.partials[slot.partial]) for slot in folding.slots]
    covers = {
        (span, tile is None): cover_span(span, () if tile is None else ladder_us)
        for span, tile in dict.fromkeys(zip(spans, tiles, strict=True))
    }
    return SlotPlan(
        slots=tuple(
            PlannedSlot(
                partial=slot.partial,
                tile=tile,
                column=folding.columns[slot.partial],
                algebra=slot.algebra,
                span=span,
                cover=covers[span, tile is None],
                as_of=as_of - lookback_of(slot.window),
            )
            for slot, span, tile in zip(folding.slots, spans, tiles, strict=True)
        ),
        seen_until=max((last for _, last in spans), default=as_of),
    )


@attrs.frozen(kw_only=True)
class GroupFolds:
    """Folds groups of one snapshot, with one cursor on its facts and one on its tiles."""

    layout: Layout
    folding: Folding
    newest_rows: int
    facts: Transaction
    tiles: Transaction

    def find(self, group: bytes, plan: SlotPlan) -> Found | None:
        """Give the aggregates of a group; None if nothing of it was known by then."""
        start = group + instant_of(plan.seen_until + 1)
        if not (step_before(self.facts, start) and self.facts.key().startswith(group)):
            return None
        fold = _GroupFold(folds=self, group=group)
        fold.read_newest()
        newest = fold.newest_at
        if newest is None:
            newest = self._newest_alive(group, start)
            if newest is None:
                return None
        return Found(values=tuple([fold.value(slot) for slot in plan.slots]), event_time=newest)

    def _newest_alive(self, group: bytes, start: bytes) -> int | None:
        """Give the instant of the newest row before a place; of one retracted nothing is known."""
        if step_before(self.facts, start):
            for key, value in self.facts.iterprev():
                if not key.startswith(group):
                    break
                if unpack(value)[1]:
                    return event_time_of(key, group)
        return None


@attrs.define(kw_only=True)
class _GroupFold:
    folds: GroupFolds
    group: bytes
    newest_at: int | None = None
    _newest: list[RawRow] = attrs.field(factory=list)
    _known_from: int = _BEGINNING
    _rows: dict[Span, Sequence[RawRow]] = attrs.field(factory=dict)
    _tiles: dict[TileRange, list[Plain]] = attrs.field(factory=dict)
    _parts: dict[tuple[Span, bool], _Parts] = attrs.field(factory=dict)
    _states: dict[tuple[int, Span], State] = attrs.field(factory=dict)

    def read_newest(self) -> None:
        """Read rows from where the cursor stands, newest first."""
        group, layout = self.group, self.folds.layout
        newest = self._newest
        left = self.folds.newest_rows
        for key, value in self.folds.facts.iterprev():
            if not key.startswith(group):
                return
            if not left:
                # The instant may have more rows than were read.
                self._known_from = event_time_of(key, group) + 1
                while newest and newest[-1][0] < self._known_from:
                    newest.pop()
                return
            left -= 1
            plain = unpack(value)
            if plain[1]:
                newest.append(layout.raw_row(key, plain, group))
                if self.newest_at is None:
                    self.newest_at = newest[0][0]

    def value(self, slot: PlannedSlot) -> Cell:
        """Give the value of one aggregate."""
        memo = (slot.partial, slot.span)
        state = self._states.get(memo)
        if state is None:
            state = self._states[memo] = self._state(slot)
        return slot.algebra.finish(state, slot.as_of)

    def _state(self, slot: PlannedSlot) -> State:
        memo = (slot.span, slot.tile is None)
        parts = self._parts.get(memo)
        if parts is None:
            parts = self._parts[memo] = self._read(slot)
        rows, tiles = parts
        column = slot.column
        cells: Any = rows if column is None else [row[2][column] for row in rows]
        orders: Any = rows
        state = slot.algebra.gather(cells, orders)
        if slot.tile is None or not tiles:
            return state
        place = slot.tile
        states = [tile[place] for tile in tiles]
        states.append(state)
        return slot.algebra.merge_all(states)

    def _read(self, slot: PlannedSlot) -> _Parts:
        first, _ = slot.span
        if (_BEGINNING if first is None else first) >= self._known_from:
            return self._read_rows(slot.span), ()
        rows = [row for span in slot.cover.raw_spans for row in self._read_rows(span)]
        tiles = [tile for run in slot.cover.tile_ranges for tile in self._read_tiles(run)]
        return rows, tiles

    def _read_rows(self, span: Span) -> Sequence[RawRow]:
        found = self._rows.get(span)
        if found is None:
            first = _BEGINNING if span[0] is None else span[0]
            last = span[1]
            if first >= self._known_from:
                found = [row for row in self._newest if first <= row[0] <= last]
            else:
                found = self._scan_rows(first, last)
            self._rows[span] = found
        return found

    def _scan_rows(self, first: int, last: int) -> list[RawRow]:
        folds = self.folds
        return rows_between(folds.layout, folds.facts, self.group, first, last)

    def _read_tiles(self, tiles: TileRange) -> list[Plain]:
        found = self._tiles.get(tiles)
        if found is None:
            found = self._scan_tiles(tiles)
            self._tiles[tiles] = found
        return found

    def _scan_tiles(self, tiles: TileRange) -> list[Plain]:
        level, first, last = tiles
        start = (
            level_prefix(self.group, level) if first is None else tile_key(self.group, level, first)
        )
        end = tile_key(self.group, level, last + 1)
        found: list[Plain] = []
        cursor = self.folds.tiles
        if cursor.set_range(start):
            for key, value in cursor:
                if key >= end:
                    break
                found.append(unpack(value))
        return found
