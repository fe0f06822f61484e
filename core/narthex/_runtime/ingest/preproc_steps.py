"""The steps that convert raw rows to cells: rename, compute, filter, by expression or code."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, assert_never

import attrs
from typing_extensions import override

from narthex._base.records import Json
from narthex._expr.python import Prepared, prepare
from narthex._expr.typing import fit
from narthex._formats.coercion import MistypedError, coercion
from narthex._ir.code import UserCode
from narthex._ir.entities import ColumnRef, Computed, ComputedByCode, Constant, Preproc
from narthex._ir.expression_nodes import Node
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import DataType, Optional, optional
from narthex.errors import UserCodeError


@attrs.frozen(kw_only=True)
class Problem:
    """An error in one field of a row."""

    field: str
    reason: str

    @override
    def __str__(self) -> str:
        return f"`{self.field}`: {self.reason}"


class Runner(Protocol):
    """Runs author code on columns, such as `narthex._runtime.workers.WorkerPool`."""

    def compute_each(
        self,
        code: UserCode,
        *,
        inputs: Sequence[tuple[Column, Sequence[Cell]]],
        output: Column,
        title: str,
    ) -> "Sequence[Cell | UserCodeError]":
        """Call a function of a frame that returns one column; return each row's cell, or the error
        of a row on which it fails.
        """


@attrs.frozen
class RequiredColumn:
    """A column that a row must have, prepared for many rows."""

    name: str
    is_optional: bool
    to_cell: Callable[[Json], Cell]

    @classmethod
    def of(cls, column: Column) -> "RequiredColumn":
        """Prepare a column."""
        return cls(column.name, isinstance(column.type, Optional), coercion(column.type))


@attrs.frozen
class Expression:
    """An expression with the columns that it reads."""

    inputs: tuple[RequiredColumn, ...]
    value: Prepared

    @classmethod
    def of(
        cls, expression: Node, columns: tuple[Column, ...], target: DataType | None = None
    ) -> "Expression":
        """Prepare an expression whose result has exactly the type `target`."""
        return cls(
            tuple(RequiredColumn.of(column) for column in columns),
            _prepared(expression, columns, target),
        )


@attrs.frozen
class CodeCall:
    """A function of a frame, with the columns of the frame.

    Attributes:
        required: The columns that must be valid in a row.
        offered: The columns that are null if a row has no value that fits.
    """

    code: UserCode
    required: tuple[tuple[Column, RequiredColumn], ...]
    offered: tuple[tuple[Column, RequiredColumn], ...]

    @classmethod
    def of(
        cls, code: UserCode, required: tuple[Column, ...], offered: tuple[Column, ...]
    ) -> "CodeCall":
        """Prepare a call."""
        tolerated = [Column(one.name, optional(one.type)) for one in offered]
        return cls(
            code,
            tuple((one, RequiredColumn.of(one)) for one in required),
            tuple((one, RequiredColumn.of(one)) for one in tolerated),
        )


@functools.lru_cache(maxsize=4096)
def _prepared(
    expression: Node, columns: tuple[Column, ...], target: DataType | None = None
) -> Prepared:
    schema = {column.name: column.type for column in columns}
    fitted = expression if target is None else fit(expression, schema, target=target)
    return prepare(fitted, schema)


def prepare_preproc(
    preproc: Preproc, wanted: DataType | None
) -> Constant | ColumnRef | Expression | CodeCall:
    """Prepare a preproc entry for a field of the type `wanted` for many rows."""
    match preproc:
        case Constant() | ColumnRef():
            return preproc
        case Computed(expression=expression, schema=schema):
            return Expression.of(expression, schema, wanted)
        case ComputedByCode(code=code, required=required, offered=offered):
            return CodeCall.of(code, required, offered)
        case _:
            assert_never(preproc)


@attrs.define(eq=False)
class DraftRow:
    """A row in progress: its raw values, the cells that preproc has made, and its problems."""

    arrived: Mapping[str, Json]
    raw: Mapping[str, Json]
    now_us: int
    cells: dict[str, Cell] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)
    is_wanted: bool = True

    @classmethod
    def of(cls, raw: Mapping[str, Json], now_us: int) -> "DraftRow":
        """Create a draft of a raw row."""
        return cls(arrived=raw, raw=raw, now_us=now_us)

    def rename(self, name: str, column: str, path: tuple[str, ...]) -> None:
        """Set a field to another column, or a member of it; null if there is none."""
        value = self.arrived.get(column)
        for member in path:
            value = value.get(member) if isinstance(value, dict) else None
        self.raw = {**self.raw, name: value}

    def typed(self, wanted: Sequence[RequiredColumn], problems: list[Problem]) -> dict[str, Cell]:
        """Coerce columns to cells of their types; cells that preproc made are ready."""
        found: dict[str, Cell] = {}
        for column in wanted:
            name = column.name
            if name in self.cells:
                found[name] = self.cells[name]
                if found[name] is None and not column.is_optional:
                    problems.append(Problem(field=name, reason="its preproc gives null"))
                continue
            try:
                found[name] = column.to_cell(self.raw.get(name))
            except MistypedError as error:
                problems.append(Problem(field=name, reason=str(error)))
        return found


_Due: TypeAlias = tuple[DraftRow, dict[str, Cell]]
"""A row, and the cells that its code receives."""


def run_code(
    call: CodeCall, rows: Sequence[DraftRow], output: Column, runner: Runner, *, title: str
) -> list[tuple[DraftRow, Cell]]:
    """Compute a cell with code for each row without problems; return those rows with their cells.

    A row on which the code fails gets a problem.
    """
    due: list[_Due] = []
    for row in rows:
        if not row.problems:
            seen = row.typed([one for _, one in call.required], row.problems)
            if not row.problems:
                due.append((row, seen | _offered(call, row)))
    return _compute(call, due, output, runner, title=title)


def _offered(call: CodeCall, row: DraftRow) -> dict[str, Cell]:
    found: dict[str, Cell] = {}
    for _, column in call.offered:
        found[column.name] = row.typed([column], []).get(column.name)
    return found


def _compute(
    call: CodeCall, due: Sequence[_Due], output: Column, runner: Runner, *, title: str
) -> list[tuple[DraftRow, Cell]]:
    if not due:
        return []
    columns = [column for column, _ in call.required]
    columns += [Column(column.name, optional(column.type)) for column, _ in call.offered]
    inputs = [(column, [seen[column.name] for _, seen in due]) for column in columns]
    made = runner.compute_each(call.code, inputs=inputs, output=output, title=title)
    found: list[tuple[DraftRow, Cell]] = []
    for (row, _), cell in zip(due, made, strict=True):
        if isinstance(cell, UserCodeError):
            row.problems.append(Problem(field=output.name, reason=cell.message))
        else:
            found.append((row, cell))
    return found
