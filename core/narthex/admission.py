"""What becomes of one raw row at a source: admitted as cells, left out, or refused with reasons.

The order is the one that authors know: preproc, then `where`, then the type check. Pushed rows
pass here before they are accepted; every engine's rendering of a source must agree with it.
"""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from narthex.coerce import MistypedError, coerce
from narthex.entities import ColumnRef, Computed, Constant, Source
from narthex.expr.plain import evaluate
from narthex.facts import Cell
from narthex.records import Json
from narthex.schema import Column, Schema


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
    columns = _preprocessed(source, raw, now_us=now_us, problems=problems)
    if problems:
        return Refused(problems=tuple(problems))
    if source.where is not None:
        seen = _typed(source.where.schema, columns, problems)
        if problems:
            return Refused(problems=tuple(problems))
        if evaluate(source.where.expression, seen, now_us=now_us) is not True:
            return LeftOut()
    cells = _typed(tuple(Column(f.name, f.type) for f in schema.fields), columns, problems)
    if problems:
        return Refused(problems=tuple(problems))
    event_time = cells[schema.timestamp]
    return Admitted(cells=cells) if _wanted(source, event_time) else LeftOut()


def _preprocessed(
    source: Source, raw: Mapping[str, Json], *, now_us: int, problems: list[Problem]
) -> dict[str, Json]:
    columns = dict(raw)
    for name, preproc in source.preproc:
        match preproc:
            case Constant(value=value):
                columns[name] = value  # type: ignore[assignment]
            case ColumnRef(column=column):
                columns[name] = raw.get(column)
            case Computed(expression=expression, schema=schema):
                inputs = _typed(schema, columns, problems)
                if not problems:
                    columns[name] = evaluate(expression, inputs, now_us=now_us)  # type: ignore[assignment]
    return columns


def _typed(
    wanted: tuple[Column, ...], columns: Mapping[str, Json], problems: list[Problem]
) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for column in wanted:
        try:
            cells[column.name] = coerce(columns.get(column.name), column.type)
        except MistypedError as error:
            problems.append(Problem(field=column.name, reason=str(error)))
    return cells


def _wanted(source: Source, event_time: Cell) -> bool:
    if not isinstance(event_time, int):
        return False
    after = source.since_us is None or event_time >= source.since_us
    return after and (source.until_us is None or event_time < source.until_us)
