"""Steps that process each row alone; a keyed row that does not pass becomes an absence."""

from collections.abc import Sequence
from typing import TypeAlias, assert_never

import attrs

from narthex._formats.arrow import cells_of as cells_of_array
from narthex._ir.code import UserCode
from narthex._ir.facts import Cell
from narthex._ir.node_schema import NodeSchema
from narthex._ir.operators import (
    Assign,
    AssignCode,
    Drop,
    DropNull,
    Filter,
    Rename,
    Select,
    Transform,
)
from narthex._ir.types import Optional
from narthex._runtime.steps.computing import computed, passing, table_of
from narthex._runtime.steps.rows import Absence, Cells, RowBatch
from narthex._runtime.workers import CodeCalls

RowStep: TypeAlias = Filter | Assign | AssignCode | Transform | Select | Drop | Rename | DropNull


@attrs.frozen(kw_only=True)
class StepContext:
    """The needs of steps besides rows.

    Attributes:
        calls: Calls author code.
        title: The pipeline, for messages.
    """

    calls: CodeCalls
    title: str


def row_step(step: RowStep, rows: RowBatch, schema: NodeSchema, context: StepContext) -> RowBatch:
    """Apply a step to rows; `schema` is the schema of the result."""
    match step:
        case Filter():
            made = kept(rows, _filtered(step, rows, context))
        case DropNull():
            made = kept(rows, _without_null(rows, step.columns))
        case Assign():
            made = _assigned(step, rows)
        case AssignCode():
            made = _assigned_by_code(step, rows, context)
        case Transform():
            made = _transformed(step, rows, context)
        case Rename():
            names = dict(step.names)
            cells = {names.get(name, name): column for name, column in rows.cells.items()}
            made = attrs.evolve(rows, cells=cells)
        case Select() | Drop():
            made = rows
        case _:
            assert_never(step)
    columns = (*schema.keys, *schema.values)
    return attrs.evolve(
        made, schema=schema, cells={column.name: made.cells[column.name] for column in columns}
    )


def kept(rows: RowBatch, places: Sequence[int]) -> RowBatch:
    """Return the rows at some places; each other keyed row becomes an absence."""
    if len(places) == len(rows):
        return rows
    found = rows.take(places)
    if not rows.schema.keys:
        return found
    staying = set(places)
    gone = tuple(
        Absence(id=rows.ids[at], time=rows.times[at], cells=rows.key_cells(at))
        for at in range(len(rows))
        if at not in staying
    )
    return attrs.evolve(found, gone=(*rows.gone, *gone))


def _filtered(step: Filter, rows: RowBatch, context: StepContext) -> Sequence[int]:
    if not isinstance(step.predicate, UserCode):
        return passing(computed(step.predicate, rows))
    if not len(rows):
        return []
    title = f"`filter` of {context.title}"
    return passing(context.calls.filter(step.predicate, table_of(rows), title=title).to_pylist())


def _without_null(rows: RowBatch, names: Sequence[str]) -> Sequence[int]:
    columns = [rows.column(name) for name in names]
    return [at for at in range(len(rows)) if all(column[at] is not None for column in columns)]


def _assigned(step: Assign, rows: RowBatch) -> RowBatch:
    fresh: dict[str, Cells] = {
        one.column: computed(one.expression, rows, target=one.type) for one in step.assignments
    }
    made = attrs.evolve(rows, cells={**rows.cells, **fresh})
    # A row with a null in a required column does not pass.
    required = [one.column for one in step.assignments if not isinstance(one.type, Optional)]
    if any(None in fresh[name] for name in required):
        return kept(made, _without_null(made, required))
    return made


def _assigned_by_code(step: AssignCode, rows: RowBatch, context: StepContext) -> RowBatch:
    name, cells = step.column.name, list[Cell]()
    if len(rows):
        title = f"`assign` of `{name}` in {context.title}"
        array = context.calls.assign(step.code, table_of(rows), step.column, title=title)
        cells = cells_of_array(array, step.column.type)
    return attrs.evolve(rows, cells={**rows.cells, name: cells})


def _transformed(step: Transform, rows: RowBatch, context: StepContext) -> RowBatch:
    made: dict[str, Cells] = {column.name: [] for column in step.columns}
    if len(rows):
        title = f"`transform` of {context.title}"
        table = context.calls.transform(step.code, table_of(rows), step.columns, title=title)
        made = {
            column.name: cells_of_array(table.column(at), column.type)
            for at, column in enumerate(step.columns)
        }
    keys = {column.name: rows.cells[column.name] for column in rows.schema.keys}
    return attrs.evolve(rows, cells={**keys, **made})
