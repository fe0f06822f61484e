"""Evaluate expressions on pandas frames, for authors who try them out.

pandas is not imported here: authors with a frame have it already, and others need not load it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal as PythonDecimal
from typing import Protocol

import attrs

from narthex._base.times import DAY_US, from_micros, to_micros
from narthex._expr.python import prepare
from narthex._expr.typing import fit, infer
from narthex._formats.coercion import MistypedError, coerce
from narthex._ir.expression_nodes import Node
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Str,
    Struct,
    base_type,
    inner,
)
from narthex._sdk.expressions.written_types import Classes
from narthex.errors import ExpressionInvalid

_DTYPES: Mapping[type, str] = {
    Int: "Int64",
    Float: "Float64",
    Bool: "boolean",
    Str: "string",
    Datetime: "datetime64[us, UTC]",
}


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
    result = infer(wanted, schema)
    prepared = prepare(wanted, schema)
    cells = {name: _cells(frame, name, of) for name, of in schema.items()}
    instants = _instants(frame, context)
    values = [
        _value(
            prepared({name: column[row] for name, column in cells.items()}, now_us), result, classes
        )
        for row, now_us in enumerate(instants)
    ]
    return _series(frame, values, result)


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


def _value(cell: Cell, of: DataType, classes: Classes) -> object:
    plain = base_type(inner(of))
    match plain, cell:
        case Datetime(), int():
            return from_micros(cell)
        case Date(), int():
            return from_micros(cell * DAY_US).date()
        case Decimal(scale=scale), int():
            return PythonDecimal(cell).scaleb(-scale)
        case List(of=item), tuple():
            return [_value(member, item, classes) for member in cell]
        case Map(of=item), dict():
            return {key: _value(member, item, classes) for key, member in cell.items()}
        case Struct(), dict():
            members = {f.name: _value(cell[f.name], f.type, classes) for f in plain.fields}
            made = classes.get(plain)
            return members if made is None else made(**members)
        case _, tuple():
            return list(cell)
        case _:
            return cell


def _series(frame: FrameLike, values: list[object], of: DataType) -> SeriesLike:
    # The frame's own series class, used without importing pandas.
    make = type(frame.assign(value=None)["value"])
    return make(values, index=frame.index, dtype=_DTYPES.get(type(inner(of)), "object"))
