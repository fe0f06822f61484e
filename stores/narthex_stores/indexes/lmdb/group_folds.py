# mypy: disable-error-code="explicit-any"
"""Folding one group as of an instant from its newest rows and its tiles."""

import bisect
from collections.abc import Sequence
from typing import Any

import attrs

from narthex._aggregates import Algebra, Cover, Folding, Span, State, TileRange, cover_span
from narthex._ir import lookback_of
from narthex_stores.indexes.key_layout import (
    IndexLayout,
    Plain,
    RawRow,
    event_time_of,
    instant_of,
    level_prefix,
    tile_key,
    unpack,
)
from narthex_stores.indexes.lmdb.environment import Transaction, step_before
from narthex_stores.indexes.lmdb.raw_rows import rows_between
from narthex_stores.indexes.protocol import LookupResult

NEWEST_ROWS = 32
"""So many of a group's newest rows are read first: most groups and short windows need no tile."""

_BEGINNING = -(1 << 63)


@attrs.frozen(kw_only=True)
class PlannedState:
    """One state over a span.

    Attributes:
        tile: The place of it in a tile; None if no tile has one.
        column: The place of its cell in a row; None of a bare count.
    """

    partial: int
    tile: int | None
    column: int | None
    algebra: Algebra


@attrs.frozen(kw_only=True)
class PlannedSpan:
    """A span that some aggregates count, and how tiles cover it.

    Attributes:
        first: The first instant that counts.
        last: The last one.
        cover: Rows only, if no tile has these states.
    """

    first: int
    last: int
    cover: Cover
    states: tuple[PlannedState, ...]


@attrs.frozen(kw_only=True)
class FoldPlan:
    """All aggregates at one instant.

    Attributes:
        spans: What they count.
        slots: For each the place of its state among all of the spans', how it is finished, and
            for which instant.
        seen_until: The last instant that any of them knows.
    """

    spans: tuple[PlannedSpan, ...]
    slots: tuple[tuple[int, Algebra, int], ...]
    seen_until: int


def plan_fold(folding: Folding, as_of: int, ladder_us: tuple[int, ...]) -> FoldPlan:
    """Plan a fold at an instant, for any number of groups."""
    spans = folding.spans(as_of)
    kept = {one: at for at, one in enumerate(folding.of_small_states().partials)}
    tiles = [kept.get(partial) for partial in folding.partials]
    wanted: dict[tuple[Span, bool], dict[int, None]] = {}
    for slot, span in zip(folding.slots, spans, strict=True):
        wanted.setdefault((span, tiles[slot.partial] is None), {})[slot.partial] = None
    places = {
        (span, partial): place
        for place, (span, partial) in enumerate(
            (span, partial) for (span, _), partials in wanted.items() for partial in partials
        )
    }
    return FoldPlan(
        spans=tuple(
            PlannedSpan(
                first=_BEGINNING if span[0] is None else span[0],
                last=span[1],
                cover=cover_span(span, () if is_raw else ladder_us),
                states=tuple(
                    PlannedState(
                        partial=partial,
                        tile=tiles[partial],
                        column=folding.columns[partial],
                        algebra=folding.partials[partial].algebra,
                    )
                    for partial in partials
                ),
            )
            for (span, is_raw), partials in wanted.items()
        ),
        slots=tuple(
            (places[span, slot.partial], slot.algebra, as_of - lookback_of(slot.window))
            for slot, span in zip(folding.slots, spans, strict=True)
        ),
        seen_until=max((last for _, last in spans), default=as_of),
    )


@attrs.frozen(kw_only=True)
class GroupFolds:
    """Folds groups of one snapshot, with one cursor on its facts and one on its tiles."""

    layout: IndexLayout
    folding: Folding
    newest_rows: int
    facts: Transaction
    tiles: Transaction

    def find(self, group: bytes, plan: FoldPlan) -> LookupResult | None:
        """Return the aggregates of a group; None if nothing of it was known by then."""
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
        states = fold.states(plan.spans)
        values = [algebra.finish(states[at], as_of) for at, algebra, as_of in plan.slots]
        return LookupResult(values=tuple(values), event_time=newest)

    def _newest_alive(self, group: bytes, start: bytes) -> int | None:
        """Return the instant of the newest row before a place; of one retracted nothing is
        known.
        """
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

    def read_newest(self) -> None:
        """Read rows from where the cursor stands, newest first."""
        group, limit = self.group, self.folds.newest_rows
        items: list[tuple[bytes, bytes]] = []
        for item in self.folds.facts.iterprev():
            if not item[0].startswith(group):
                break
            if len(items) == limit:
                # The instant may have more rows than were read.
                self._known_from = event_time_of(item[0], group) + 1
                break
            items.append(item)
        newest = self.folds.layout.raw_rows(items, group)
        if newest:
            self.newest_at = newest[0][0]
        while newest and newest[-1][0] < self._known_from:
            newest.pop()
        self._newest = newest

    def states(self, spans: Sequence[PlannedSpan]) -> list[State]:
        """Return the states of all spans, one after the other."""
        found: list[State] = []
        known: dict[tuple[int, int, int], State] = {}
        instants = [-row[0] for row in self._newest]
        for span in spans:
            if span.first < self._known_from:
                found += self._from_parts(span)
                continue
            # Spans that have the same rows have the same states.
            begin = bisect.bisect_left(instants, -span.last)
            end = max(begin, bisect.bisect_right(instants, -span.first))
            for state in span.states:
                place = (state.partial, begin, end)
                if place not in known:
                    known[place] = _gathered(state, self._newest[begin:end])
                found.append(known[place])
        return found

    def _from_parts(self, span: PlannedSpan) -> list[State]:
        rows = [row for part in span.cover.raw_spans for row in self._read_rows(part)]
        tiles = [tile for run in span.cover.tile_ranges for tile in self._read_tiles(run)]
        found: list[State] = []
        for state in span.states:
            gathered = _gathered(state, rows)
            if tiles and state.tile is not None:
                parts = [tile[state.tile] for tile in tiles]
                gathered = state.algebra.merge_all([*parts, gathered])
            found.append(gathered)
        return found

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


def _gathered(state: PlannedState, rows: Sequence[RawRow]) -> State:
    column = state.column
    # A row begins with its order, which is all that an algebra looks at.
    cells: Any = rows if column is None else [row[2][column] for row in rows]
    orders: Any = rows
    return state.algebra.gather(cells, orders)
