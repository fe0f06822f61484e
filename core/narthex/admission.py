"""What becomes of one raw row at a source: admitted as cells, left out, or refused with reasons.

The order is the one that authors know: preproc, then `where`, then the type check. Pushed rows
pass here before they are accepted; every engine's rendering of a source must agree with it.
"""

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs
from typing_extensions import override

from narthex.coerce import MistypedError, coercion
from narthex.entities import ColumnRef, Computed, Constant, Source
from narthex.expr.nodes import Node
from narthex.expr.plain import Prepared, literal_cell, prepare
from narthex.expr.typing import fit
from narthex.facts import Cell
from narthex.records import Json
from narthex.schema import Column, Schema
from narthex.types import DataType, Optional


@attrs.frozen(kw_only=True)
class Admitted:
    """The row as cells, by field name."""

    cells: dict[str, Cell]


@attrs.frozen(kw_only=True)
class LeftOut:
    """The author's `where`, `since` or `until` does not want the row; it is counted."""


@attrs.frozen(kw_only=True)
class Problem:
    """What is wrong with one field of a row."""

    field: str
    reason: str

    @override
    def __str__(self) -> str:
        return f"`{self.field}`: {self.reason}"


@attrs.frozen(kw_only=True)
class Refused:
    """The row cannot be a row of the dataset; every reason at once."""

    problems: tuple[Problem, ...]


Admission: TypeAlias = Admitted | LeftOut | Refused


def admit(source: Source, schema: Schema, raw: Mapping[str, Json], *, now_us: int) -> Admission:
    """Decide what becomes of a raw row; columns that nobody asked for are ignored.

    Args:
        source: Where the row came from, with its preproc and `where`.
        schema: The fields that the row must become.
        raw: The row as it arrived.
        now_us: What the expression `now()` means, microseconds.
    """
    return Admitter.of(source, schema).admit(raw, now_us=now_us)


@attrs.frozen
class _Accepted:
    """A column that a row must have, made ready for many rows."""

    name: str
    is_optional: bool
    to_cell: Callable[[Json], Cell]

    @classmethod
    def of(cls, column: Column) -> "_Accepted":
        return cls(column.name, isinstance(column.type, Optional), coercion(column.type))


@attrs.frozen
class _Calculation:
    """An expression with the columns that it reads."""

    inputs: tuple[_Accepted, ...]
    value: Prepared

    @classmethod
    def of(
        cls, expression: Node, columns: tuple[Column, ...], target: DataType | None = None
    ) -> "_Calculation":
        return cls(
            tuple(_Accepted.of(column) for column in columns),
            _prepared(expression, columns, target),
        )


@attrs.frozen(kw_only=True)
class Admitter:
    """What a source asks of its rows, prepared once for many of them."""

    source: Source
    timestamp: str
    _fields: tuple[_Accepted, ...]
    _wanted: _Calculation | None
    _preprocs: tuple[tuple[str, Constant | ColumnRef | _Calculation], ...]

    @classmethod
    def of(cls, source: Source, schema: Schema) -> "Admitter":
        """Prepare the admission of a source's rows."""
        where = source.where
        return cls(
            source=source,
            timestamp=schema.timestamp,
            fields=tuple(_Accepted.of(Column(f.name, f.type)) for f in schema.fields),
            wanted=None if where is None else _Calculation.of(where.expression, where.schema),
            preprocs=tuple(
                (
                    name,
                    _Calculation.of(one.expression, one.schema, schema.columns.get(name))
                    if isinstance(one, Computed)
                    else one,
                )
                for name, one in source.preproc
            ),
        )

    def admit(self, raw: Mapping[str, Json], *, now_us: int) -> Admission:
        """Decide what becomes of a raw row."""
        problems: list[Problem] = []
        columns = _Columns(raw=raw, cells={})
        if self._preprocs:
            columns = self._preprocessed(raw, now_us=now_us, problems=problems)
            if problems:
                return Refused(problems=tuple(problems))
        if self._wanted is not None:
            seen = columns.typed(self._wanted.inputs, problems)
            if problems:
                return Refused(problems=tuple(problems))
            if self._wanted.value(seen, now_us) is not True:
                return LeftOut()
        cells = columns.typed(self._fields, problems)
        if problems:
            return Refused(problems=tuple(problems))
        event_time = cells[self.timestamp]
        return Admitted(cells=cells) if _wanted(self.source, event_time) else LeftOut()

    def _preprocessed(
        self, raw: Mapping[str, Json], *, now_us: int, problems: list[Problem]
    ) -> "_Columns":
        columns = _Columns(raw=dict(raw), cells={})
        for name, preproc in self._preprocs:
            match preproc:
                case Constant(value=value):
                    columns.cells[name] = literal_cell(value)
                case ColumnRef(column=column):
                    columns.raw = {**columns.raw, name: raw.get(column)}
                case _Calculation(inputs=inputs, value=calculate):
                    read = columns.typed(inputs, problems)
                    if not problems:
                        columns.cells[name] = calculate(read, now_us)
        return columns


@attrs.define
class _Columns:
    """The row so far: what arrived, and what preproc has made cells of already."""

    raw: Mapping[str, Json]
    cells: dict[str, Cell]

    def typed(self, wanted: tuple[_Accepted, ...], problems: list[Problem]) -> dict[str, Cell]:
        """Give columns as cells of their types; a cell of preproc's is one already."""
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


@functools.lru_cache(maxsize=4096)
def _prepared(
    expression: Node, columns: tuple[Column, ...], target: DataType | None = None
) -> Prepared:
    schema = {column.name: column.type for column in columns}
    fitted = expression if target is None else fit(expression, schema, target=target)
    return prepare(fitted, schema)


def _wanted(source: Source, event_time: Cell) -> bool:
    if not isinstance(event_time, int):
        return False
    after = source.since_us is None or event_time >= source.since_us
    return after and (source.until_us is None or event_time < source.until_us)
