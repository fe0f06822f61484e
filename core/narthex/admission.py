"""What becomes of one raw row at a source: admitted as cells, left out, or refused with reasons.

The order is the one that authors know: preproc, then `where`, then the type check. Pushed rows
pass here before they are accepted; every engine's rendering of a source must agree with it.
"""

import functools
from collections.abc import Mapping
from typing import TypeAlias

import attrs
from typing_extensions import override

from narthex.coerce import MistypedError, coerce
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
    problems: list[Problem] = []
    columns = _Columns(raw=dict(raw), cells={})
    _preprocess(source, schema, columns, now_us=now_us, problems=problems)
    if problems:
        return Refused(problems=tuple(problems))
    if source.where is not None:
        seen = columns.typed(source.where.schema, problems)
        if problems:
            return Refused(problems=tuple(problems))
        if _prepared(source.where.expression, source.where.schema)(seen, now_us) is not True:
            return LeftOut()
    fields = tuple(Column(f.name, f.type) for f in schema.fields)
    cells = columns.typed(fields, problems)
    if problems:
        return Refused(problems=tuple(problems))
    event_time = cells[schema.timestamp]
    return Admitted(cells=cells) if _wanted(source, event_time) else LeftOut()


@attrs.define
class _Columns:
    """The row so far: what arrived, and what preproc has made cells of already."""

    raw: dict[str, Json]
    cells: dict[str, Cell]

    def typed(self, wanted: tuple[Column, ...], problems: list[Problem]) -> dict[str, Cell]:
        """Give columns as cells of their types; a cell of preproc's is one already."""
        found: dict[str, Cell] = {}
        for column in wanted:
            if column.name in self.cells:
                found[column.name] = self.cells[column.name]
                if found[column.name] is None and not isinstance(column.type, Optional):
                    problems.append(Problem(field=column.name, reason="its preproc gives null"))
                continue
            try:
                found[column.name] = coerce(self.raw.get(column.name), column.type)
            except MistypedError as error:
                problems.append(Problem(field=column.name, reason=str(error)))
        return found


def _preprocess(
    source: Source, schema: Schema, columns: _Columns, *, now_us: int, problems: list[Problem]
) -> None:
    arrived = dict(columns.raw)
    for name, preproc in source.preproc:
        match preproc:
            case Constant(value=value):
                columns.cells[name] = literal_cell(value)
            case ColumnRef(column=column):
                columns.raw[name] = arrived.get(column)
            case Computed(expression=expression, schema=given):
                inputs = columns.typed(given, problems)
                if not problems:
                    wanted = schema.columns.get(name)
                    columns.cells[name] = _prepared(expression, given, wanted)(inputs, now_us)


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
