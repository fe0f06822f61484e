# mypy: disable-error-code="explicit-any"
"""Compute the results of a group's windows as of an instant, from its newest rows and tiles."""

import bisect
from collections.abc import Sequence
from typing import Any

import attrs

from narthex._aggregates import Algebra, Cover, Folding, Span, State, TileRange, cover_span
from narthex._ir import BEGINNING, IndexSpec, lookback_of
from narthex_stores.indexes.key_layout import (
    IndexLayout,
    PackedTile,
    RawRow,
    event_time_of,
    instant_of,
    level_prefix,
    tile_key,
    unpack,
    unpack_tile,
)
from narthex_stores.indexes.ordered_tables.divided_spans import (
    PartReader,
    SpanParts,
    WindowEnd,
    ends_of,
)
from narthex_stores.indexes.ordered_tables.raw_rows import rows_between
from narthex_stores.indexes.ordered_tables.tables import Transaction, entries_between, step_before
from narthex_stores.indexes.protocol import LookupResult

NEWEST_ROWS = 32
"""How many of a group's newest rows are read first; most groups and short windows need no tile."""


@attrs.frozen(kw_only=True)
class PlannedState:
    """One aggregate state over a span.

    Attributes:
        tile: Its position in a tile; None if tiles do not store it.
        column: The position of its cell in a row; None for a bare count.
    """

    partial: int
    tile: int | None
    column: int | None
    algebra: Algebra


@attrs.frozen(kw_only=True)
class PlannedSpan:
    """A span that some aggregates cover, and the tiles and rows that make it up.

    Attributes:
        first: The first instant of the span.
        last: The last instant of the span.
        cover: The tiles and rows of the span; rows only, if tiles do not store these states.
        ends: The rows of the cover, inside one finest tile each, where tiles store these states and
            are divided; else empty.
    """

    first: int
    last: int
    cover: Cover
    ends: tuple[WindowEnd, ...]
    states: tuple[PlannedState, ...]


@attrs.frozen(kw_only=True)
class FoldPlan:
    """All aggregates at one instant.

    Attributes:
        spans: The spans that they cover.
        slots: For each aggregate, the position of its state among those of all spans, the algebra
            that finishes it, and the instant to finish it for.
        seen_until: The last instant that any of them covers.
        oldest: The event time before which the lookup sees no row.
        rows_at: The position of the number of rows in a tile; None if tiles are not divided.
    """

    spans: tuple[PlannedSpan, ...]
    slots: tuple[tuple[int, Algebra, int], ...]
    seen_until: int
    oldest: int
    rows_at: int | None


def plan_fold(folding: Folding, as_of: int, spec: IndexSpec, *, oldest: int) -> FoldPlan:
    """Plan a fold at an instant, for any number of groups, of rows that are not before `oldest`."""
    spans = folding.spans(as_of, oldest)
    stored = folding.of_tiles(counting_rows=bool(spec.parts_us))
    kept = {one: at for at, one in enumerate(stored.partials)}
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
                first=BEGINNING if span[0] is None else span[0],
                last=span[1],
                cover=(cover := cover_span(span, () if is_raw else spec.ladder_us)),
                ends=() if is_raw else ends_of(cover.raw_spans, spec, oldest),
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
        oldest=oldest,
        rows_at=stored.rows_at if spec.parts_us else None,
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
        """Return the aggregates of a group; None if it had no contribution by then."""
        start = group + instant_of(plan.seen_until + 1)
        if not (step_before(self.facts, start) and self.facts.key().startswith(group)):
            return None
        fold = _GroupFold(folds=self, group=group, plan=plan)
        fold.read_newest()
        newest = fold.newest_at
        if newest is None:
            newest = self._newest_alive(group, start)
        if newest is None or newest < plan.oldest:
            return None
        states = fold.states()
        values = [algebra.finish(states[at], as_of) for at, algebra, as_of in plan.slots]
        return LookupResult(values=tuple(values), event_time=newest)

    def _newest_alive(self, group: bytes, start: bytes) -> int | None:
        """Return the instant of the newest row before a place, ignoring retracted rows."""
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
    plan: FoldPlan
    newest_at: int | None = None
    _newest: list[RawRow] = attrs.field(factory=list)
    _known_from: int = BEGINNING
    _rows: dict[Span, Sequence[RawRow]] = attrs.field(factory=dict)
    _tiles: dict[TileRange, list[PackedTile]] = attrs.field(factory=dict)
    _ends: dict[WindowEnd, SpanParts] = attrs.field(factory=dict)

    def read_newest(self) -> None:
        """Read rows from the cursor's position, newest first."""
        group, limit = self.group, self.folds.newest_rows
        items: list[tuple[bytes, bytes]] = []
        for item in self.folds.facts.iterprev():
            if not item[0].startswith(group):
                break
            if len(items) == limit:
                # The instant may have further rows that were not read.
                self._known_from = event_time_of(item[0], group) + 1
                break
            items.append(item)
        newest = self.folds.layout.raw_rows(items, group)
        if newest:
            self.newest_at = newest[0][0]
        while newest and newest[-1][0] < self._known_from:
            newest.pop()
        self._newest = newest

    def states(self) -> list[State]:
        """Return the states of all spans, one after the other."""
        found: list[State] = []
        known: dict[tuple[int, int, int], State] = {}
        instants = [-row[0] for row in self._newest]
        for span in self.plan.spans:
            if span.first < self._known_from:
                found += self._from_parts(span)
                continue
            # Spans with the same rows share their states.
            begin = bisect.bisect_left(instants, -span.last)
            end = max(begin, bisect.bisect_right(instants, -span.first))
            for state in span.states:
                place = (state.partial, begin, end)
                if place not in known:
                    known[place] = _gathered(state, self._newest[begin:end])
                found.append(known[place])
        return found

    def _from_parts(self, span: PlannedSpan) -> list[State]:
        tiles = [tile for run in span.cover.tile_ranges for tile in self._read_tiles(run)]
        rows: list[RawRow] = []
        for end in span.ends:
            found = self._read_end(end)
            rows += found.rows
            tiles += found.tiles
        if not span.ends:
            rows = [row for part in span.cover.raw_spans for row in self._read_rows(part)]
        states: list[State] = []
        for state in span.states:
            gathered = _gathered(state, rows)
            if tiles and state.tile is not None:
                parts = [unpack(tile[state.tile]) for tile in tiles]
                gathered = state.algebra.merge_all([*parts, gathered])
            states.append(gathered)
        return states

    def _read_rows(self, span: Span) -> Sequence[RawRow]:
        found = self._rows.get(span)
        if found is None:
            first = BEGINNING if span[0] is None else span[0]
            last = span[1]
            if first >= self._known_from:
                found = [row for row in self._newest if first <= row[0] <= last]
            else:
                found = self._scan_rows(first, last)
            self._rows[span] = found
        return found

    def _read_end(self, end: WindowEnd) -> SpanParts:
        found = self._ends.get(end)
        if found is None:
            if self._known_from <= end.first:
                found = SpanParts(
                    rows=[row for row in self._newest if end.first <= row[0] <= end.last]
                )
            else:
                found = self._parts().read(end)
            self._ends[end] = found
        return found

    def _parts(self) -> PartReader:
        folds = self.folds
        return PartReader(
            layout=folds.layout,
            group=self.group,
            rows_at=self.plan.rows_at,
            facts=folds.facts,
            tiles=folds.tiles,
        )

    def _scan_rows(self, first: int, last: int) -> list[RawRow]:
        folds = self.folds
        return rows_between(folds.layout, folds.facts, self.group, first, last)

    def _read_tiles(self, tiles: TileRange) -> list[PackedTile]:
        found = self._tiles.get(tiles)
        if found is None:
            found = self._scan_tiles(tiles)
            self._tiles[tiles] = found
        return found

    def _scan_tiles(self, tiles: TileRange) -> list[PackedTile]:
        level, first, last = tiles
        start = (
            level_prefix(self.group, level) if first is None else tile_key(self.group, level, first)
        )
        items = entries_between(self.folds.tiles, start, tile_key(self.group, level, last + 1))
        return [unpack_tile(value) for _, value in items]


def _gathered(state: PlannedState, rows: Sequence[RawRow]) -> State:
    column = state.column
    # A row begins with its order, the only part that an algebra reads.
    cells: Any = rows if column is None else [row[2][column] for row in rows]
    orders: Any = rows
    return state.algebra.gather(cells, orders)
