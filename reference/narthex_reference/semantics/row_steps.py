"""Steps that process each row alone.

A keyed row that does not pass becomes an absence: the key has no value from that instant on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._expr import fit
from narthex._expr.python import prepare
from narthex._ir import (
    Assign,
    AssignCode,
    Cell,
    Drop,
    DropNull,
    Filter,
    NodeSchema,
    Optional,
    Rename,
    Select,
    Transform,
    UserCode,
)
from narthex_reference.semantics.author_code import RowFrame, UserCodeRunner
from narthex_reference.semantics.content import Content, ContentRow, content

RowStep: TypeAlias = Filter | Assign | AssignCode | Transform | Select | Drop | Rename | DropNull
CellsByName: TypeAlias = Mapping[str, Cell]


def row_step(step: RowStep, given: Content, schema: NodeSchema, call: UserCodeRunner) -> Content:
    """Apply a step to rows; `schema` is the schema of the result."""
    living = [row for row in given.rows if row.alive]
    made = dict(zip((row.row_id for row in living), _made(step, living, given, call), strict=True))
    renamed = dict(step.names) if isinstance(step, Rename) else {}
    kept = {column.name for column in (*schema.keys, *schema.values)} | {schema.timestamp}
    return content([_next(row, made.get(row.row_id), renamed, kept) for row in given.rows], schema)


def _next(
    row: ContentRow, cells: CellsByName | None, renamed: Mapping[str, str], kept: set[str]
) -> ContentRow:
    """Return a row with its new cells; with none, as an absence."""
    found = row.cells if cells is None else cells
    named = {renamed.get(name, name): cell for name, cell in found.items()}
    return attrs.evolve(
        row,
        cells={name: cell for name, cell in named.items() if name in kept},
        alive=cells is not None,
    )


def _made(
    step: RowStep, rows: Sequence[ContentRow], given: Content, call: UserCodeRunner
) -> Sequence[CellsByName | None]:
    """Return the cells that each row has afterwards, under the old names; None does not pass."""
    match step:
        case Filter():
            passes = _filter(step, rows, given, call)
            return [row.cells if ok else None for row, ok in zip(rows, passes, strict=True)]
        case Assign():
            assignments = _assignments(step, given)
            return [_assigned(row, assignments) for row in rows]
        case AssignCode():
            cells = call.assign(step.code, _frame(rows, given), step.column) if rows else []
            name = step.column.name
            return [{**row.cells, name: cell} for row, cell in zip(rows, cells, strict=True)]
        case Transform():
            return _transform(step, rows, given, call)
        case DropNull():
            return [_without_null(row, step.columns) for row in rows]
        case Select() | Drop() | Rename():
            return [row.cells for row in rows]


def _without_null(row: ContentRow, columns: Sequence[str]) -> CellsByName | None:
    return None if any(row.cells[name] is None for name in columns) else row.cells


def _filter(
    step: Filter, rows: Sequence[ContentRow], given: Content, call: UserCodeRunner
) -> Sequence[bool]:
    if isinstance(step.predicate, UserCode):
        return call.filter(step.predicate, _frame(rows, given)) if rows else []
    holds = prepare(step.predicate, given.schema.columns)
    return [holds(row.cells, row.event_time) is True for row in rows]


_Assigned: TypeAlias = tuple[str, bool, Callable[[CellsByName, int | None], Cell]]


def _assignments(step: Assign, given: Content) -> Sequence[_Assigned]:
    """Return name, nullability and function of each assigned column."""
    types = given.schema.columns
    return [
        (
            one.column,
            isinstance(one.type, Optional),
            prepare(fit(one.expression, types, target=one.type), types),
        )
        for one in step.assignments
    ]


def _assigned(row: ContentRow, assignments: Sequence[_Assigned]) -> CellsByName | None:
    """Return the cells; without a value where there must be one, the row does not pass."""
    fresh = {name: compute(row.cells, row.event_time) for name, _, compute in assignments}
    if any(fresh[name] is None and not nullable for name, nullable, _ in assignments):
        return None
    return {**row.cells, **fresh}


def _transform(
    step: Transform, rows: Sequence[ContentRow], given: Content, call: UserCodeRunner
) -> Sequence[CellsByName]:
    if not rows:
        return []
    names = [column.name for column in step.columns]
    fixed = [column.name for column in given.schema.keys] + [given.schema.timestamp]
    return [
        {**{name: row.cells[name] for name in fixed}, **dict(zip(names, cells, strict=True))}
        for row, cells in zip(
            rows, call.transform(step.code, _frame(rows, given), step.columns), strict=True
        )
    ]


def _frame(rows: Sequence[ContentRow], given: Content) -> RowFrame:
    columns = given.columns
    return RowFrame(columns, tuple(tuple(row.cells[one.name] for one in columns) for row in rows))
