"""Steps that process each row alone; a keyed row that does not pass becomes an absence."""

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

import attrs
import pyarrow as pa

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
from narthex._ir.schema import Column
from narthex._ir.types import Bool, Optional
from narthex._runtime.enforcement import ReportBroken
from narthex._runtime.steps.computing import computed, passing, table_of
from narthex._runtime.steps.failed_rows import SetApart, failed_rows
from narthex._runtime.steps.rows import Absence, Cells, RowBatch
from narthex._runtime.workers import CodeCalls

RowStep: TypeAlias = Filter | Assign | AssignCode | Transform | Select | Drop | Rename | DropNull


@attrs.frozen(kw_only=True)
class StepContext:
    """The needs of steps besides rows.

    Attributes:
        calls: Calls author code.
        title: The pipeline, for messages.
        set_apart: Receives the rows on which a step fails, which then do not pass. Without it, as
            in unit tests, the error of the first failing batch is raised.
        report_broken: Receives the rows that break enforced expectations.
    """

    calls: CodeCalls
    title: str
    set_apart: SetApart | None = None
    report_broken: ReportBroken | None = None


def row_step(step: RowStep, rows: RowBatch, schema: NodeSchema, context: StepContext) -> RowBatch:
    """Apply a step to rows; `schema` is the schema of the result."""
    match step:
        case Filter():
            made = _filtered(step, rows, context)
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


def _filtered(step: Filter, rows: RowBatch, context: StepContext) -> RowBatch:
    if not isinstance(step.predicate, UserCode):
        return kept(rows, passing(computed(step.predicate, rows)))
    if not len(rows):
        return rows
    call = _StepCode(step.predicate, "filter", _KEEP, f"`filter` of {context.title}")
    found, table = _called(call, rows, context)
    return kept(found, passing(table.column(0).to_pylist()))


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
    column, cells = step.column, list[Cell]()
    if len(rows):
        title = f"`assign` of `{column.name}` in {context.title}"
        rows, table = _called(_StepCode(step.code, "assign", (column,), title), rows, context)
        cells = cells_of_array(table.column(0), column.type)
    return attrs.evolve(rows, cells={**rows.cells, column.name: cells})


def _transformed(step: Transform, rows: RowBatch, context: StepContext) -> RowBatch:
    made: dict[str, Cells] = {column.name: [] for column in step.columns}
    if len(rows):
        title = f"`transform` of {context.title}"
        rows, table = _called(_StepCode(step.code, "transform", step.columns, title), rows, context)
        made = {
            column.name: cells_of_array(table.column(at), column.type)
            for at, column in enumerate(step.columns)
        }
    keys = {column.name: rows.cells[column.name] for column in rows.schema.keys}
    return attrs.evolve(rows, cells={**keys, **made})


_KEEP: Final = (Column("keep", Optional(Bool())),)


@attrs.frozen
class _StepCode:
    """Author code of a step: its kind, its declared outputs, and its title for messages."""

    code: UserCode
    kind: str
    outputs: Sequence[Column]
    title: str


def _called(call: _StepCode, rows: RowBatch, context: StepContext) -> tuple[RowBatch, pa.Table]:
    """Call author code; return the rows on which it did not fail, and its result for them."""
    code, kind, outputs, title = call.code, call.kind, call.outputs, call.title
    if context.set_apart is None:
        return rows, context.calls.call(code, kind, table_of(rows), outputs, title=title)
    found = context.calls.isolated(code, kind, table_of(rows), outputs, title=title)
    for failed in found.failed:
        context.set_apart(
            failed_rows(rows, failed.places, failed.error, step=title, together=len(failed.places))
        )
    return kept(rows, found.places), found.table
