"""Evaluate expressions on pandas frames, for authors who try them out.

pandas is not imported here: authors with a frame have it already, and others need not load it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal as PythonDecimal
from typing import Protocol, TypeAlias

import attrs

from narthex._base.times import DAY_US, from_micros, to_micros
from narthex._expr.python import prepare
from narthex._expr.typing import fit, infer
from narthex._formats.coercion import MistypedError, coerce
from narthex._ir.expression_nodes import Node
from narthex._ir.facts import Cell
from narthex._ir.types import (
    DataType,
    Datetime,
    Decimal,
    List,
    Map,
    Members,
    Struct,
    TypeMapper,
    base_type,
)
from narthex._sdk.expressions.written_types import Classes
from narthex.errors import ExpressionInvalid

_ToPython: TypeAlias = Callable[[Cell, Classes], object]
"""Converts a cell of one type, not null, to the Python value that an author expects."""


@attrs.frozen
class EvalContext:
    """The context in which an expression is evaluated.

    Attributes:
        now_col_name: The column of the frame with the value of `now()` for each row.
    """

    now_col_name: str | None = None


class SeriesLike(Protocol):
    """A pandas series."""

    def __init__(self, values: list[object], *, index: Sequence[object], dtype: str) -> None: ...
    def tolist(self) -> list[object]: ...


class FrameLike(Protocol):
    """A pandas frame."""

    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def index(self) -> Sequence[object]: ...
    def __getitem__(self, name: str) -> SeriesLike: ...
    def assign(self, **columns: object) -> "FrameLike": ...


def evaluate_frame(
    node: Node,
    frame: FrameLike,
    schema: Mapping[str, DataType],
    *,
    target: DataType | None,
    classes: Classes,
    context: EvalContext,
) -> SeriesLike:
    """Return the values of an expression on the rows of a frame, as a series with its index.

    Raises:
        ExpressionTypeError: It has no type, or one that cannot be promoted to the target.
        ExpressionInvalid: The frame lacks a column, or a value is not of its type.
    """
    wanted = node if target is None else fit(node, schema, target=target)
    prepared = prepare(wanted, schema)
    cells = {name: _cells(frame, name, of) for name, of in schema.items()}
    instants = _instants(frame, context)
    result = _FORMATS(base_type(infer(wanted, schema)))
    values = [
        result.value(
            prepared({name: column[row] for name, column in cells.items()}, now_us), classes
        )
        for row, now_us in enumerate(instants)
    ]
    return _series(frame, values, result.dtype)


def _cells(frame: FrameLike, name: str, of: DataType) -> list[Cell]:
    if name not in frame.columns:
        raise ExpressionInvalid(f"column `{name}` of the schema is not in the frame")
    try:
        return [coerce(_raw(value), of) for value in frame[name].tolist()]
    except MistypedError as error:
        raise ExpressionInvalid(f"column `{name}`: {error}") from error


def _raw(value: object) -> object:
    match value:
        case None | str() | bytes():
            return value
        case dict():
            return {key: _raw(item) for key, item in value.items()}
        case list() | tuple():
            return [_raw(item) for item in value]
        case _:
            return _raw_other(value)


def _raw_other(value: object) -> object:
    for method in ("as_json", "tolist"):  # structs, numpy arrays and numpy scalars
        convert: Callable[[], object] | None = getattr(value, method, None)
        if callable(convert):
            return _raw(convert())
    # NaN, NaT and NA: a value that does not equal itself is null.
    return value if (value == value) is True else None  # noqa: PLR0124


def _instants(frame: FrameLike, context: EvalContext) -> list[int]:
    if context.now_col_name is None:
        return [int(to_micros(datetime.now(tz=UTC)))] * len(frame.index)
    found = _cells(frame, context.now_col_name, Datetime())
    return [instant for instant in found if isinstance(instant, int)]


@attrs.frozen
class _SeriesForm:
    """The form of one type in a series: its dtype, and its values if they are not the cells."""

    dtype: str
    to_python: _ToPython | None = None

    def value(self, cell: Cell, classes: Classes) -> object:
        """Return the Python value of a cell; None for null."""
        if cell is None or self.to_python is None:
            return cell
        return self.to_python(cell, classes)


def _to_instant(cell: Cell, _: Classes) -> object:
    return from_micros(cell) if isinstance(cell, int) else cell


def _to_day(cell: Cell, _: Classes) -> object:
    return from_micros(cell * DAY_US).date() if isinstance(cell, int) else cell


def _to_list(cell: Cell, _: Classes) -> object:
    return list(cell) if isinstance(cell, tuple) else cell


def _decimal(dtype: Decimal) -> _SeriesForm:
    def to_python(cell: Cell, _: Classes) -> object:
        return PythonDecimal(cell).scaleb(-dtype.scale) if isinstance(cell, int) else cell

    return _SeriesForm("object", to_python)


def _list(_: List, item: _SeriesForm) -> _SeriesForm:
    def to_python(cell: Cell, classes: Classes) -> object:
        if not isinstance(cell, tuple):
            return cell
        return [item.value(member, classes) for member in cell]

    return _SeriesForm("object", to_python)


def _map(_: Map, entry: _SeriesForm) -> _SeriesForm:
    def to_python(cell: Cell, classes: Classes) -> object:
        if not isinstance(cell, dict):
            return cell
        return {key: entry.value(member, classes) for key, member in cell.items()}

    return _SeriesForm("object", to_python)


def _struct(dtype: Struct, members: Members[_SeriesForm]) -> _SeriesForm:
    def to_python(cell: Cell, classes: Classes) -> object:
        if not isinstance(cell, dict):
            return cell
        values = {name: member.value(cell[name], classes) for name, member in members.items()}
        made = classes.get(dtype)
        return values if made is None else made(**values)

    return _SeriesForm("object", to_python)


_FORMATS: TypeMapper[_SeriesForm] = TypeMapper(
    int=_SeriesForm("Int64"),
    float=_SeriesForm("Float64"),
    bool=_SeriesForm("boolean"),
    str=_SeriesForm("string"),
    bytes=_SeriesForm("object"),
    datetime=_SeriesForm("datetime64[us, UTC]", _to_instant),
    date=_SeriesForm("object", _to_day),
    decimal=_decimal,
    list=_list,
    map=_map,
    embedding=lambda _, __: _SeriesForm("object", _to_list),
    struct=_struct,
    null=lambda: _SeriesForm("object"),
)


def _series(frame: FrameLike, values: list[object], dtype: str) -> SeriesLike:
    # The frame's own series class, used without importing pandas.
    make = type(frame.assign(value=None)["value"])
    return make(values, index=frame.index, dtype=dtype)
