"""Steps that reshape rows: explode, union, dedup, changelog, first, latest."""

from collections.abc import Iterable, Sequence

import attrs

from narthex._formats.keys import keyed_row_id
from narthex._ir.facts import Cell, RowId
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import Change, Changelog, Dedup, Explode, First, Latest
from narthex._ir.schema import Column
from narthex._ir.windows import Session, Tumbling
from narthex._runtime.steps.failed_rows import failed_rows
from narthex._runtime.steps.row_steps import StepContext
from narthex._runtime.steps.rows import Cells, RowBatch, keyed_ids
from narthex._runtime.steps.timelines import Timelines
from narthex.errors import UserCodeError


def explode(
    step: Explode, rows: RowBatch, schema: NodeSchema, context: StepContext | None = None
) -> RowBatch:
    """Return a row for each element; for an empty or null list, one row with null.

    A row whose lists differ in length fails, as `StepContext.set_apart` defines.

    Raises:
        UserCodeError: A row's lists differ in length, and failed rows are not set apart.
    """
    rows = _with_equal_lists(step, rows, context)
    lists = {name: [_elements(cell) for cell in rows.cells[name]] for name in step.columns}
    lengths = [len(found) for found in next(iter(lists.values()))]
    places = [at for at, length in enumerate(lengths) for _ in range(length)]
    numbers = [number for length in lengths for number in range(length)]
    made = rows.take(places)
    exploded: dict[str, Cells] = {
        name: [cell for cells in found for cell in cells] for name, found in lists.items()
    }
    return attrs.evolve(
        made,
        schema=schema,
        ids=[
            RowId(row_id + number.to_bytes(4, "big"))
            for row_id, number in zip(made.ids, numbers, strict=True)
        ],
        cells={**made.cells, **exploded},
    )


def _with_equal_lists(step: Explode, rows: RowBatch, context: StepContext | None) -> RowBatch:
    """Return the rows whose lists have one length."""
    columns = [rows.cells[name] for name in step.columns]
    lengths = [{len(_elements(cell)) for cell in cells} for cells in zip(*columns, strict=True)]
    unequal = [at for at, found in enumerate(lengths) if len(found) > 1]
    if not unequal:
        return rows
    error = UserCodeError(
        f"lists of different lengths cannot explode together: {', '.join(step.columns)}",
        origin=step.origin,
    )
    if context is None or context.set_apart is None:
        raise error
    title = f"`explode` of {context.title}"
    context.set_apart(failed_rows(rows, unequal, error, step=title))
    return rows.take([at for at, found in enumerate(lengths) if len(found) == 1])


def _elements(cell: Cell) -> tuple[Cell, ...]:
    return cell if isinstance(cell, tuple) and cell else (None,)


def side_id(row_id: RowId, side: int) -> RowId:
    """Return the identity in a union of a row of its left side, 0, or of its right side, 1."""
    return RowId(row_id + bytes([side]))


def union(left: RowBatch, right: RowBatch, schema: NodeSchema) -> RowBatch:
    """Return the rows of both sides, with duplicates."""
    names = [column.name for column in schema.values]
    return RowBatch(
        schema=schema,
        ids=[
            side_id(row_id, side) for side, rows in enumerate((left, right)) for row_id in rows.ids
        ],
        times=[*left.times, *right.times],
        cells={name: [*left.cells[name], *right.cells[name]] for name in names},
    )


def dedup(step: Dedup, rows: RowBatch, schema: NodeSchema) -> RowBatch:
    """Return the last of each group of equal rows."""
    ordered = rows.take(rows.order())
    by = [Column(name, of) for name, of in rows.schema.columns.items() if name in step.by]
    last: dict[RowId, int] = {}
    for key, places in _grouped(ordered.keys(by)).items():
        for instant, place in _last_of_same(step, places, ordered.times):
            last[keyed_row_id(key, instant)] = place
    made = ordered.take(list(last.values()))
    return attrs.evolve(made, schema=schema, ids=list(last))


def _grouped(keys: Iterable[bytes]) -> dict[bytes, list[int]]:
    groups: dict[bytes, list[int]] = {}
    for at, key in enumerate(keys):
        groups.setdefault(key, []).append(at)
    return groups


def _last_of_same(
    step: Dedup, places: Sequence[int], times: Sequence[int]
) -> list[tuple[int, int]]:
    """Return (instant of its identity, place) of the last row of each group of equal rows."""
    match step.window:
        case Session(gap=gap):
            return [
                (times[place], place)
                for place, following in zip(places, [*places[1:], None], strict=True)
                if following is None or times[following] - times[place] > gap
            ]
        case Tumbling(duration=duration):
            return list({times[at] // duration * duration: at for at in places}.items())
        case None:
            return list({times[at]: at for at in places}.items())


def changelog(step: Changelog, rows: RowBatch, schema: NodeSchema) -> RowBatch:
    """Return a row for each start and each end of a keyed row; an end has the old values."""
    ids: list[RowId] = []
    times: list[int] = []
    places: list[int] = []
    flags: list[Cell] = []

    def tell(key: bytes, instant: int, place: int, *, inserts: bool) -> None:
        ids.append(RowId(keyed_row_id(key, instant) + bytes([inserts])))
        times.append(instant)
        places.append(place)
        flags.append(inserts is (step.change is Change.INSERT))

    for key, timeline in Timelines(rows).by_key.items():
        for begin, place, end in timeline.lives():
            tell(key, begin, place, inserts=True)
            if end is not None:
                tell(key, end, place, inserts=False)
    made = rows.take(places)
    return RowBatch(schema=schema, ids=ids, times=times, cells={**made.cells, step.column: flags})


def first(step: First, rows: RowBatch, schema: NodeSchema) -> RowBatch:
    """Return the oldest row of each group; of several at one instant, the first one seen."""
    ordered = rows.take(rows.order())
    keys = ordered.keys(_columns(rows, step.by))
    oldest: dict[bytes, int] = {}
    for at, key in enumerate(keys):
        oldest.setdefault(key, at)
    return _keyed(ordered, list(oldest.values()), keys, schema)


def latest(step: Latest, rows: RowBatch, schema: NodeSchema) -> RowBatch:
    """Return the newest row of each group at every instant; of several, the last one seen."""
    ordered = rows.take(rows.order())
    keys = ordered.keys(_columns(rows, step.by))
    newest = {(key, ordered.times[at]): at for at, key in enumerate(keys)}
    return _keyed(ordered, list(newest.values()), keys, schema)


def _columns(rows: RowBatch, names: Sequence[str]) -> list[Column]:
    types = rows.schema.columns
    return [Column(name, types[name]) for name in names]


def _keyed(
    rows: RowBatch, places: Sequence[int], keys: Sequence[bytes], schema: NodeSchema
) -> RowBatch:
    made = rows.take(places)
    return attrs.evolve(made, schema=schema, ids=keyed_ids([keys[at] for at in places], made.times))
