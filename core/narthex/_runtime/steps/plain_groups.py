"""Groups whose aggregates have their own windows: one value at each instant of a lookup."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import attrs

from narthex._aggregates import Folding, Span, State, folding
from narthex._formats.cells import cell_bytes
from narthex._formats.keys import key_encoder, keyed_row_id
from narthex._ir.aggregate_specs import TypedAggregate
from narthex._ir.facts import Cell, RowId
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Aggregate
from narthex._ir.window_spans import BEGINNING, counted_during, lookback_of
from narthex._ir.windows import Session
from narthex._runtime.steps.contributions import Contributions, contributions
from narthex._runtime.steps.rows import Cells, RowBatch, ValidityInterval


class SessionSpanError(TypeError):
    """A session is a window of a group, never of one aggregate."""


@attrs.define
class _RunState:
    """The state of a run of rows, so that a longer run only adds the rows after it."""

    begin: int = 0
    end: int = 0
    state: State | None = None


class PlainGroups:
    """The groups of an aggregate, by key."""

    def __init__(self, step: Aggregate, rows: RowBatch, schema: NodeSchema) -> None:
        """Group rows.

        Args:
            step: The aggregate.
            rows: The rows that it aggregates.
            schema: The schema of the result.
        """
        self.schema = schema
        self._aggregates: tuple[TypedAggregate, ...] = schema.aggregates
        wanted = dict.fromkeys(one.spec.of for one in self._aggregates if one.spec.of is not None)
        self._folding: Folding = folding(self._aggregates, tuple(wanted))
        self._along = step.along is not None
        self._lookback = max(lookback_of(one.spec.window) for one in self._aggregates)
        self._groups = contributions(step, rows, self._folding, list(wanted), schema.keys)
        self._encode = key_encoder(schema.keys)

    @property
    def newest(self) -> int | None:
        """The place on the time axis of the newest row of all groups; None without rows."""
        return max((group.instants[-1] for group in self._groups.values()), default=None)

    def answer(
        self, key: tuple[Cell, ...], asked_at: int, *, oldest: int = BEGINNING
    ) -> tuple[tuple[Cell, ...], int] | None:
        """Return (values, instant of their change) of a group as of an instant; None if unseen.

        Rows before `oldest` are not visible.
        """
        if None in key:
            return None
        group = self._groups.get(self._encode(key))
        if group is None:
            return None
        runs = [_RunState() for _ in self._folding.slots]
        return self._answer(group, asked_at, runs, oldest=oldest)

    def _answer(
        self,
        group: Contributions,
        asked_at: int,
        known: Sequence[_RunState],
        *,
        oldest: int = BEGINNING,
    ) -> tuple[tuple[Cell, ...], int] | None:
        spans = self._folding.spans(asked_at, oldest)
        known_until = max(last for _, last in spans)
        changed_at = self._changed_at(group, oldest, known_until, asked_at)
        if changed_at is None:
            return None
        values: list[Cell] = []
        for slot, wanted, run in zip(self._folding.slots, spans, known, strict=True):
            state = self._state(group, slot.partial, wanted, asked_at, run)
            values.append(slot.algebra.finish(state, asked_at - lookback_of(slot.window)))
        return tuple(values), changed_at

    def _as_of(self, last: int, asked_at: int) -> int:
        """Return the instant whose rows count; with `along`, a row may come after its window."""
        return asked_at - self._lookback if self._along else last

    def _changed_at(
        self, group: Contributions, oldest: int, known_until: int, asked_at: int
    ) -> int | None:
        """Return the newest change among the rows up to the windows' ends; None without one."""
        first = bisect_left(group.instants, oldest)
        seen = bisect_right(group.instants, known_until)
        if group.lives is None:
            return group.instants[seen - 1] if first < seen else None
        as_of = self._as_of(known_until, asked_at)
        return max(
            (
                since if until is None or until > as_of else until
                for since, until in group.lives[first:seen]
                if since <= as_of
            ),
            default=None,
        )

    def _state(
        self, group: Contributions, partial: int, wanted: Span, asked_at: int, known: _RunState
    ) -> State:
        first, last = wanted
        begin = 0 if first is None else bisect_left(group.instants, first)
        end = max(begin, bisect_right(group.instants, last))
        algebra = self._folding.partials[partial].algebra
        column = group.columns[partial]
        if group.lives is not None:
            as_of = self._as_of(last, asked_at)
            there = [at for at in range(begin, end) if _is_there(group.lives[at], as_of)]
            orders = [group.orders[at] for at in there]
            return algebra.gather([column[at] for at in there], orders)
        if known.state is None or known.begin != begin or known.end > end:
            known.state = algebra.gather(column[begin:end], group.orders[begin:end])
        elif known.end < end:
            fresh = algebra.gather(column[known.end : end], group.orders[known.end : end])
            known.state = algebra.merge(known.state, fresh)
        known.begin, known.end = begin, end
        return known.state

    def versions(self) -> RowBatch:
        """Return the groups as keyed rows, one for each instant at which the values change."""
        ids: list[RowId] = []
        times: list[int] = []
        keys: list[tuple[Cell, ...]] = []
        made: list[tuple[Cell, ...]] = []
        for key, group in self._groups.items():
            for instant, values in self._versions(group):
                ids.append(keyed_row_id(key, instant))
                times.append(instant)
                keys.append(group.key)
                made.append(values)
        columns = [*self.schema.keys, *self.schema.values]
        cells: dict[str, Cells] = {
            column.name: [(*key, *values)[at] for key, values in zip(keys, made, strict=True)]
            for at, column in enumerate(columns)
        }
        return RowBatch(schema=self.schema, ids=ids, times=times, cells=cells)

    def _versions(self, group: Contributions) -> Iterator[tuple[int, tuple[Cell, ...]]]:
        render = [cell_bytes(column.type) for column in self.schema.values]
        known = [_RunState() for _ in self._folding.slots]
        before: list[bytes] | None = None
        for instant in sorted(set(self._changes(group))):
            found = self._answer(group, instant, known)
            if found is None:
                continue
            shown = [to_bytes(cell) for to_bytes, cell in zip(render, found[0], strict=True)]
            if shown != before:
                yield instant, found[0]
            before = shown

    def _changes(self, group: Contributions) -> Iterator[int]:
        """Yield the instants at which a row enters a window, leaves it, or is replaced."""
        windows = {one.spec.window for one in self._aggregates}
        for window in windows:
            if isinstance(window, Session):
                raise SessionSpanError
            for instant in group.instants:
                entered_at, left_at = counted_during(window, instant)
                yield entered_at
                if left_at is not None:
                    yield left_at
            for since, until in group.lives or ():
                bounds = (since,) if until is None else (since, until)
                yield from (counted_during(window, bound)[0] for bound in bounds)
                if self._along:
                    yield from (bound + self._lookback for bound in bounds)


def _is_there(validity: ValidityInterval, as_of: int) -> bool:
    since, until = validity
    return since <= as_of and (until is None or as_of < until)
