"""Joins with a keyed dataset: a row as of its instant, a key interval by interval."""

from collections.abc import Iterator, Sequence

from narthex._formats.avro.fact_codec import keyed_row_id
from narthex._ir.facts import Cell, RowId
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Join, JoinHow
from narthex._runtime.steps.rows import Absence, Cells, RowBatch
from narthex._runtime.steps.timelines import ABSENT, Timeline, Timelines


def join(step: Join, left: RowBatch, right: Timelines, schema: NodeSchema) -> RowBatch:
    """Return the left rows with the columns of their right rows."""
    if left.schema.keys:
        return _keys_joined(step, left, right, schema)
    return _rows_joined(step, left, right, schema)


def _named(step: Join, left: RowBatch, right: Timelines) -> list[Timeline | None]:
    """Return, for each left row, the timeline of the right key that it names."""
    left_of = {right_name: left_name for left_name, right_name in step.on}
    columns = [left.column(left_of[column.name]) for column in right.rows.schema.keys]
    return [right.of(cells) for cells in zip(*columns, strict=True)]


def _taken(step: Join, right: RowBatch, places: Sequence[int]) -> dict[str, Cells]:
    """Return the right columns at places; null where there is none."""
    found: dict[str, Cells] = {}
    for name in step.fields:
        column = right.column(name)
        found[name] = [None if at == ABSENT else column[at] for at in places]
    return found


def _rows_joined(step: Join, left: RowBatch, right: Timelines, schema: NodeSchema) -> RowBatch:
    low, high = step.within_low_us, step.within_high_us
    matches: list[int] = []
    for time, timeline in zip(left.times, _named(step, left, right), strict=True):
        found = None if timeline is None else timeline.floor(time + high)
        near = found is not None and (low is None or time - low <= found[0])
        matches.append(found[1] if found is not None and near else ABSENT)
    if step.how is JoinHow.INNER:
        places = [at for at, match in enumerate(matches) if match != ABSENT]
        left, matches = left.take(places), [matches[at] for at in places]
    return RowBatch(
        schema=schema,
        ids=left.ids,
        times=left.times,
        cells={**left.cells, **_taken(step, right.rows, matches)},
    )


def _keys_joined(step: Join, left: RowBatch, right: Timelines, schema: NodeSchema) -> RowBatch:
    """Join keyed rows: each change of the right row while the left one is valid makes a row."""
    named = _named(step, left, right)
    ids: list[RowId] = []
    times: list[int] = []
    places: list[int] = []
    matches: list[int] = []
    gone = list(left.gone)
    for key, timeline in Timelines(left).by_key.items():
        for begin, place, end in timeline.lives():
            for instant, match in _changes(named[place], begin, end):
                row_id = keyed_row_id(key, instant)
                if match == ABSENT and step.how is JoinHow.INNER:
                    gone.append(Absence(id=row_id, time=instant, cells=left.key_cells(place)))
                    continue
                ids.append(row_id)
                times.append(instant)
                places.append(place)
                matches.append(match)
    cells: dict[str, list[Cell]] = {
        name: [column[at] for at in places] for name, column in left.cells.items()
    }
    return RowBatch(
        schema=schema,
        ids=ids,
        times=times,
        cells={**cells, **_taken(step, right.rows, matches)},
        gone=tuple(gone),
    )


def _changes(right: Timeline | None, begin: int, end: int | None) -> Iterator[tuple[int, int]]:
    """Yield (instant, place) of each right row that is current while the left row is valid."""
    found = None if right is None else right.floor(begin)
    yield begin, ABSENT if found is None else found[1]
    if right is None:
        return
    for time, place in zip(right.times, right.places, strict=True):
        if begin < time and (end is None or time < end):
            yield time, place
