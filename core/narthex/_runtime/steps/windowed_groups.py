"""Groups with a window: each span is its own group, with the key column `window`."""

from collections.abc import Iterator, Sequence

import attrs

from narthex._aggregates import Folding, State, folding
from narthex._formats.keys import key_encoder, keyed_row_id
from narthex._ir.facts import Cell, RowId
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Aggregate, Emit
from narthex._ir.schema import Column
from narthex._ir.window_spans import WindowSpan, lookback_of, spans_of
from narthex._ir.windows import Hopping, Session, Tumbling
from narthex._runtime.steps.contributions import Contributions, contributions
from narthex._runtime.steps.rows import Absence, Cells, RowBatch

WINDOW = "window"


@attrs.frozen
class _Version:
    """The states of a span from an instant on; None if the span is absent."""

    instant: int
    span: WindowSpan
    states: list[State] | None


class WindowedGroups:
    """The spans of all groups as keyed rows.

    By default, each row makes another version of its spans, and a session that grows replaces the
    shorter one. With `emit="final"` a span is emitted once, when no row can enter it any more.

    Attributes:
        rows: The versions, each with its values at its own instant.
    """

    def __init__(self, step: Aggregate, rows: RowBatch, schema: NodeSchema) -> None:
        wanted = dict.fromkeys(one.spec.of for one in schema.aggregates if one.spec.of is not None)
        self._ready = folding(schema.aggregates, tuple(wanted))
        self._lookback = 0 if step.window is None else lookback_of(step.window)
        by = [column for column in schema.keys if column.name != WINDOW]
        groups = contributions(step, rows, self._ready, list(wanted), by)
        self._states: list[list[State]] = []
        self.rows = self._rows(
            [
                (group.key, version)
                for group in groups.values()
                for version in _versions(step, group, self._ready)
            ],
            by,
            schema,
        )

    def values(self, place: int, asked_at: int) -> tuple[Cell, ...]:
        """Return the values of a version as of an instant; some change without a new row."""
        states, at = self._states[place], asked_at - self._lookback
        return tuple(slot.algebra.finish(states[slot.partial], at) for slot in self._ready.slots)

    def _rows(
        self,
        versions: Sequence[tuple[tuple[Cell, ...], _Version]],
        by: Sequence[Column],
        schema: NodeSchema,
    ) -> RowBatch:
        ids: list[RowId] = []
        times: list[int] = []
        rows: list[tuple[Cell, ...]] = []
        gone: list[Absence] = []
        names = [column.name for column in by]
        places = [None if c.name == WINDOW else names.index(c.name) for c in schema.keys]
        encode = key_encoder(schema.keys)
        for group, version in versions:
            begin, end = version.span
            window: Cell = {"begin": begin, "end": end}
            key = tuple([window if at is None else group[at] for at in places])
            row_id = keyed_row_id(encode(key), version.instant)
            if version.states is None:
                gone.append(Absence(id=row_id, time=version.instant, cells=key))
                continue
            self._states.append(version.states)
            rows.append((*key, *self.values(len(ids), version.instant)))
            ids.append(row_id)
            times.append(version.instant)
        columns = (*schema.keys, *schema.values)
        cells: dict[str, Cells] = {
            column.name: [row[at] for row in rows] for at, column in enumerate(columns)
        }
        return RowBatch(schema=schema, ids=ids, times=times, cells=cells, gone=tuple(gone))


def _versions(step: Aggregate, group: Contributions, ready: Folding) -> Iterator[_Version]:
    match step.window:
        case Session(gap=gap):
            for places in _sessions(group, gap):
                yield from _session_versions(step, group, places, gap, ready)
        case Tumbling() | Hopping():
            lookback = lookback_of(step.window)
            for span, places in _spans(step.window, group).items():
                if step.emit is Emit.FINAL:
                    yield _Version(span[1] + lookback, span, _gathered(group, places, ready))
                    continue
                for instant, states in _running(group, places, ready):
                    yield _Version(instant + lookback, span, states)
        case None:
            return


def _spans(window: Tumbling | Hopping, group: Contributions) -> dict[WindowSpan, list[int]]:
    spans: dict[WindowSpan, list[int]] = {}
    for at, instant in enumerate(group.instants):
        for span in spans_of(window, instant):
            spans.setdefault(span, []).append(at)
    return spans


def _sessions(group: Contributions, gap: int) -> Iterator[list[int]]:
    places: list[int] = []
    for at, instant in enumerate(group.instants):
        if places and instant - group.instants[places[-1]] > gap:
            yield places
            places = []
        places.append(at)
    if places:
        yield places


def _session_versions(
    step: Aggregate, group: Contributions, places: Sequence[int], gap: int, ready: Folding
) -> Iterator[_Version]:
    begin = group.instants[places[0]]
    if step.emit is Emit.FINAL:
        end = group.instants[places[-1]] + 1
        yield _Version(end + gap, (begin, end), _gathered(group, places, ready))
        return
    before: WindowSpan | None = None
    for instant, states in _running(group, places, ready):
        if before is not None:
            yield _Version(instant, before, None)
        before = (begin, instant + 1)
        yield _Version(instant, before, states)


def _gathered(group: Contributions, places: Sequence[int], ready: Folding) -> list[State]:
    return ready.gather([group.rows[at] for at in places])


def _running(
    group: Contributions, places: Sequence[int], ready: Folding
) -> Iterator[tuple[int, list[State]]]:
    """Yield the state of the rows until each instant, oldest first."""
    at_once: dict[int, list[int]] = {}
    for at in places:
        at_once.setdefault(group.instants[at], []).append(at)
    state: list[State] | None = None
    for instant, fresh in at_once.items():
        gathered = _gathered(group, fresh, ready)
        state = gathered if state is None else ready.merge_all([state, gathered])
        yield instant, state
