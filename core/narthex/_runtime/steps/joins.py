"""Joins with a keyed dataset: a row as of its instant, a key interval by interval."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from narthex._formats.keys import keyed_row_id
from narthex._ir.assets import PipelineInput
from narthex._ir.facts import Cell, RowId
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Join, JoinHow
from narthex._ir.schema import Column
from narthex._runtime.steps.rows import Absence, Cells, RowBatch
from narthex._runtime.steps.timelines import ABSENT, Timeline, Timelines


class RightRow(Protocol):
    """The row that a lookup of a right key found."""

    @property
    def values(self) -> tuple[Cell, ...]:
        """The values of its log, in order."""

    @property
    def event_time(self) -> int:
        """When it became valid, microseconds."""


JoinLookup: TypeAlias = Callable[
    [str, Sequence[tuple[Cell, ...]], Sequence[int], Sequence[int | None]],
    Sequence[RightRow | None],
]
"""Right dataset, keys, instants and how far back to look; returns each key's newest row or None."""


def join(step: Join, left: RowBatch, right: Timelines, schema: NodeSchema) -> RowBatch:
    """Return the left rows with the columns of their right rows."""
    if left.schema.keys:
        return _keys_joined(step, left, right, schema)
    return _rows_joined(step, left, right, schema)


def look_up(
    step: Join, left: RowBatch, right: PipelineInput, lookup: JoinLookup, schema: NodeSchema
) -> RowBatch:
    """Return keyless left rows with the columns of their right rows, which `lookup` finds."""
    low, high = step.within_low_us, step.within_high_us
    keys = _right_keys(step, left, right.log.keys)
    asked = [at for at, cells in enumerate(keys) if None not in cells]
    answers = lookup(
        right.dataset,
        [keys[at] for at in asked],
        [left.times[at] + high for at in asked],
        [None if low is None else left.times[at] - low for at in asked],
    )
    rows: list[RightRow] = []
    matches = [ABSENT] * len(left)
    for at, row in zip(asked, answers, strict=True):
        if row is not None:
            matches[at] = len(rows)
            rows.append(row)
    places = {column.name: place for place, column in enumerate(right.log.values)}
    taken = {name: _right_column(rows, places.get(name)) for name in step.fields}
    return _matched(step, left, taken, matches, schema)


def _right_column(rows: Sequence[RightRow], place: int | None) -> Cells:
    """Return a column of right rows; the event time is not a value of their log."""
    return [row.event_time if place is None else row.values[place] for row in rows]


def _right_keys(step: Join, left: RowBatch, keys: Sequence[Column]) -> list[tuple[Cell, ...]]:
    """Return, for each left row, the right key that it names."""
    left_of = {right_name: left_name for left_name, right_name in step.on}
    return list(zip(*(left.column(left_of[column.name]) for column in keys), strict=True))


def _named(step: Join, left: RowBatch, right: Timelines) -> list[Timeline | None]:
    """Return, for each left row, the timeline of the right key that it names."""
    return [right.of(cells) for cells in _right_keys(step, left, right.rows.schema.keys)]


def _at(columns: Mapping[str, Cells], places: Sequence[int]) -> dict[str, Cells]:
    """Return the columns at places; null where there is none."""
    return {
        name: [None if at == ABSENT else column[at] for at in places]
        for name, column in columns.items()
    }


def _rows_joined(step: Join, left: RowBatch, right: Timelines, schema: NodeSchema) -> RowBatch:
    low, high = step.within_low_us, step.within_high_us
    matches: list[int] = []
    for time, timeline in zip(left.times, _named(step, left, right), strict=True):
        found = None if timeline is None else timeline.floor(time + high)
        near = found is not None and (low is None or time - low <= found[0])
        matches.append(found[1] if found is not None and near else ABSENT)
    return _matched(step, left, right.rows.columns(step.fields), matches, schema)


def _matched(
    step: Join,
    left: RowBatch,
    right: Mapping[str, Cells],
    matches: Sequence[int],
    schema: NodeSchema,
) -> RowBatch:
    """Return keyless left rows with the right columns at the places of their matches."""
    if step.how is JoinHow.INNER:
        places = [at for at, match in enumerate(matches) if match != ABSENT]
        left, matches = left.take(places), [matches[at] for at in places]
    return RowBatch(
        schema=schema,
        ids=left.ids,
        times=left.times,
        cells={**left.cells, **_at(right, matches)},
    )


def _keys_joined(step: Join, left: RowBatch, right: Timelines, schema: NodeSchema) -> RowBatch:
    """Join keyed rows: each change of the right row while the left one is valid makes a row."""
    named = _named(step, left, right)
    ids: list[RowId] = []
    times: list[int] = []
    places: list[int] = []
    matches: list[int] = []
    gone = list(left.gone)
    for key, begin, place, end in _lives(left):
        for instant, match in _changes(step, named[place], begin, end):
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
        cells={**cells, **_at(right.rows.columns(step.fields), matches)},
        gone=tuple(gone),
    )


def _lives(rows: RowBatch) -> Iterator[tuple[bytes, int, int, int | None]]:
    """Yield (key, start, place, end) of each keyed row; None without an end."""
    if rows.lives is not None:
        keys = rows.keys(rows.schema.keys)
        for place, (key, (begin, end)) in enumerate(zip(keys, rows.lives, strict=True)):
            yield key, begin, place, end
        return
    for key, timeline in Timelines(rows).by_key.items():
        for begin, place, end in timeline.lives():
            yield key, begin, place, end


def _changes(
    step: Join, right: Timeline | None, begin: int, end: int | None
) -> Iterator[tuple[int, int]]:
    """Yield (instant, place) of each right row that is current while the left row is valid.

    The bounds of `within` are counted from `begin`; a right row from after `begin` is not too old.
    """
    if right is None:
        yield begin, ABSENT
        return
    low, high = step.within_low_us, step.within_high_us
    following = bisect_right(right.times, begin + high)
    near = following and (low is None or begin - low <= right.times[following - 1])
    yield begin, right.places[following - 1] if near else ABSENT
    for at in range(following, len(right.times)):
        if end is not None and right.times[at] >= end:
            return
        yield right.times[at], right.places[at]
