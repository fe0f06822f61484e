"""Steps that process each row alone.

A keyed row that does not pass becomes an absence: the key has no value from that instant on. A row
on which author code fails alone does not pass.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

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
from narthex.errors import UserCodeError
from narthex_reference.semantics.author_code import RowFrame, UserCodeRunner
from narthex_reference.semantics.content import Content, ContentRow, content

RowStep: TypeAlias = Filter | Assign | AssignCode | Transform | Select | Drop | Rename | DropNull
CellsByName: TypeAlias = Mapping[str, Cell]
_T = TypeVar("_T")


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
            return _assign_code(step, rows, given, call)
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
    predicate = step.predicate
    if isinstance(predicate, UserCode):
        code = predicate
        made = _by_code(rows, lambda some: call.filter(code, _frame(some, given)))
        return [found == (True,) for found in made]
    holds = prepare(predicate, given.schema.columns)
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


def _assign_code(
    step: AssignCode, rows: Sequence[ContentRow], given: Content, call: UserCodeRunner
) -> Sequence[CellsByName | None]:
    name = step.column.name
    made = _by_code(rows, lambda some: call.assign(step.code, _frame(some, given), step.column))
    return [
        None if found is None else {**row.cells, name: found[0]}
        for row, found in zip(rows, made, strict=True)
    ]


def _transform(
    step: Transform, rows: Sequence[ContentRow], given: Content, call: UserCodeRunner
) -> Sequence[CellsByName | None]:
    names = [column.name for column in step.columns]
    fixed = [column.name for column in given.schema.keys] + [given.schema.timestamp]
    made = _by_code(rows, lambda some: call.transform(step.code, _frame(some, given), step.columns))
    return [
        None
        if found is None
        else {
            **{name: row.cells[name] for name in fixed},
            **dict(zip(names, found[0], strict=True)),
        }
        for row, found in zip(rows, made, strict=True)
    ]


def _by_code(
    rows: Sequence[ContentRow], run: Callable[[Sequence[ContentRow]], Sequence[_T]]
) -> list[tuple[_T] | None]:
    """Return what code gives for each row; None for a row on which it fails alone."""
    if not rows:
        return []
    try:
        return [(found,) for found in run(rows)]
    except UserCodeError:
        if len(rows) == 1:
            return [None]
    return [found for row in rows for found in _by_code([row], run)]


def _frame(rows: Sequence[ContentRow], given: Content) -> RowFrame:
    columns = given.columns
    return RowFrame(columns, tuple(tuple(row.cells[one.name] for one in columns) for row in rows))
