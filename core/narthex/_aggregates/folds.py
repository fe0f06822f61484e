# mypy: disable-error-code="explicit-any"
"""Many aggregates over the rows of a group: their shared states, and their values by definition."""

import functools
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from narthex._aggregates.algebra import Algebra, Sharing, State
from narthex._aggregates.catalog import algebra, parameters
from narthex._aggregates.counts import RowCount
from narthex._aggregates.window_ranges import Span, span, without_older
from narthex._ir.aggregate_specs import TypedAggregate
from narthex._ir.facts import Cell
from narthex._ir.window_spans import BEGINNING, lookback_of
from narthex._ir.windows import Window

FoldRow: TypeAlias = tuple[int, bytes, Sequence[Cell]]
"""(event_time, row_id, cells of the input columns) of one contribution."""


@attrs.frozen(kw_only=True)
class Partial:
    """The shared state of aggregates that differ only in window, default and name.

    Attributes:
        kind: The name of the spec.
        of: The column; None for a bare count.
        parameters: All other parameters that change the state.
        algebra: Makes and merges the states; the algebra of one of the aggregates.
    """

    kind: str
    of: str | None
    parameters: tuple[bool | int, ...]
    algebra: Algebra = attrs.field(eq=False, repr=False)


_ROWS_TO_GATHER = 4
"""With so many rows a place, gathering them by place is faster than making a state of each row."""

_ROWS = Partial(
    kind="Count",
    of=None,
    parameters=(False, False, False),
    algebra=RowCount(dropnull=False),
)
"""The number of rows, as the aggregate `Count` without a column has it."""


@attrs.frozen(kw_only=True)
class AggregateSlot:
    """One aggregate of a fold: the state that it reads, its window, and its algebra."""

    partial: int
    window: Window
    algebra: Algebra = attrs.field(eq=False, repr=False)


@attrs.frozen(kw_only=True)
class Folding:
    """Aggregates prepared for rows with cells in the order of given columns.

    Attributes:
        partials: The distinct states, in the order of first use.
        columns: For each partial, the position of its cell in a row; None for a bare count.
        slots: The aggregates, in order.
    """

    partials: tuple[Partial, ...]
    columns: tuple[int | None, ...]
    slots: tuple[AggregateSlot, ...]

    def of_small_states(self) -> "Folding":
        """Return the partials with small states, without aggregates, to keep for parts of the past.

        The order of the partials is the same, without those whose states grow with the rows.
        """
        kept = [
            number
            for number, partial in enumerate(self.partials)
            if partial.algebra.has_small_states
        ]
        return Folding(
            partials=tuple(self.partials[number] for number in kept),
            columns=tuple(self.columns[number] for number in kept),
            slots=(),
        )

    def of_tiles(self, *, counting_rows: bool) -> "Folding":
        """Return the partials that tiles store, without aggregates: those with small states.

        Args:
            counting_rows: Whether a tile also has the number of its rows, which `rows_at` finds.
        """
        kept = self.of_small_states()
        if not (counting_rows and kept.partials) or _ROWS in kept.partials:
            return kept
        return Folding(
            partials=(*kept.partials, _ROWS), columns=(*kept.columns, None), slots=kept.slots
        )

    @property
    def rows_at(self) -> int | None:
        """The position of the number of rows among the partials; None without it."""
        return self.partials.index(_ROWS) if _ROWS in self.partials else None

    def gather(self, rows: Sequence[FoldRow]) -> list[State]:
        """Return the states of rows, one per partial."""
        # A row begins with its order, the only part that an algebra reads.
        orders: Sequence[tuple[int, bytes]] = rows  # type: ignore[assignment]
        return [
            partial.algebra.gather(
                rows if column is None else [row[2][column] for row in rows],  # type: ignore[arg-type]
                orders,
            )
            for partial, column in zip(self.partials, self.columns, strict=True)
        ]

    def scatter(self, rows: Sequence[FoldRow], places: Sequence[int]) -> list[list[State]]:
        """Return the states of rows grouped by place, one column per partial.

        Places count up from 0 in order of first use.
        """
        if places and len(rows) >= _ROWS_TO_GATHER * (max(places) + 1):
            return self._gather_each(rows, places)
        orders: Sequence[tuple[int, bytes]] = rows  # type: ignore[assignment]
        columns: list[list[State]] = []
        for partial, column in zip(self.partials, self.columns, strict=True):
            cells = rows if column is None else [row[2][column] for row in rows]
            columns.append(partial.algebra.each(cells, orders))  # type: ignore[arg-type]
        return self.coarsen(columns, places)

    def _gather_each(self, rows: Sequence[FoldRow], places: Sequence[int]) -> list[list[State]]:
        sharing: list[list[FoldRow]] = [[] for _ in range(max(places) + 1)]
        for row, place in zip(rows, places, strict=True):
            sharing[place].append(row)
        return [list(states) for states in zip(*map(self.gather, sharing), strict=True)]

    def coarsen(
        self, columns: Sequence[Sequence[State]], places: Sequence[int]
    ) -> list[list[State]]:
        """Merge the states of each column that share a place; places count up from 0."""
        sharing = Sharing.of(places)
        return [
            partial.algebra.scatter(states, sharing)
            for partial, states in zip(self.partials, columns, strict=True)
        ]

    def merge_pairs(
        self, left: Sequence[Sequence[State]], right: Sequence[Sequence[State]]
    ) -> list[list[State]]:
        """Merge two sets of columns, side by side."""
        return [
            partial.algebra.merge_pairs(a, b)
            for partial, a, b in zip(self.partials, left, right, strict=True)
        ]

    def merge_all(self, states: Sequence[Sequence[State]]) -> list[State]:
        """Return the states of all rows, one per partial."""
        if len(states) == 1:
            return list(states[0])
        return [
            partial.algebra.merge_all([state[index] for state in states])
            for index, partial in enumerate(self.partials)
        ]

    def spans(self, as_of: int, oldest: int = BEGINNING) -> list[Span]:
        """Return the instants that each aggregate counts in a query at an instant.

        Args:
            as_of: The query's instant.
            oldest: The event time before which the query sees no row.
        """
        return [without_older(span(slot.window, as_of), oldest) for slot in self.slots]


def partials(aggregates: Sequence[TypedAggregate]) -> tuple[Partial, ...]:
    """Return the distinct states that aggregates need, in the order of first use."""
    return tuple(dict.fromkeys(_partial(aggregate) for aggregate in aggregates))


@functools.lru_cache(maxsize=1024)
def folding(aggregates: tuple[TypedAggregate, ...], columns: tuple[str, ...]) -> Folding:
    """Prepare aggregates for rows with these input columns.

    Raises:
        KeyError: An aggregate is of a column that is missing.
    """
    distinct = partials(aggregates)
    places = {name: index for index, name in enumerate(columns)}
    return Folding(
        partials=distinct,
        columns=tuple(None if p.of is None else places[p.of] for p in distinct),
        slots=tuple(
            AggregateSlot(
                partial=distinct.index(_partial(aggregate)),
                window=aggregate.spec.window,
                algebra=algebra(aggregate),
            )
            for aggregate in aggregates
        ),
    )


def fold(
    aggregates: tuple[TypedAggregate, ...],
    columns: tuple[str, ...],
    rows: Iterable[FoldRow],
    as_of: int,
) -> tuple[Cell, ...]:
    """Compute the values of aggregates at an instant from all rows of a group, by definition.

    Every engine returns these values; this function reads every row for every aggregate. The
    caller decides whether the group was seen by then (`narthex._aggregates.seen_until`).
    """
    known = tuple(rows)
    ready = folding(aggregates, columns)
    values: list[Cell] = []
    for slot, (first, last) in zip(ready.slots, ready.spans(as_of), strict=True):
        counted = [row for row in known if row[0] <= last and (first is None or first <= row[0])]
        column = ready.columns[slot.partial]
        cells: Sequence[Cell] = [None if column is None else row[2][column] for row in counted]
        state = slot.algebra.gather(cells, [(row[0], row[1]) for row in counted])
        values.append(slot.algebra.finish(state, as_of - lookback_of(slot.window)))
    return tuple(values)


def seen_until(aggregates: Sequence[TypedAggregate], as_of: int) -> int:
    """Return the last instant whose rows any of the aggregates can count in a query at an instant.

    A group without a row until then was never seen: for continuous windows it is the query's own
    instant, for discrete windows the last instant before the newest end.
    """
    return max(span(aggregate.spec.window, as_of)[1] for aggregate in aggregates)


def _partial(aggregate: TypedAggregate) -> Partial:
    spec = aggregate.spec
    return Partial(
        kind=type(spec).__name__,
        of=spec.of,
        parameters=parameters(spec),
        algebra=algebra(aggregate),
    )
