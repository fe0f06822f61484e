"""Constants of expressions: Python values as literals of a type."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from datetime import datetime as python_datetime
from decimal import Context, InvalidOperation
from decimal import Decimal as PythonDecimal
from typing import TypeAlias, TypeVar

from narthex._base.times import to_micros
from narthex._ir.expression_nodes import Literal, LiteralValue
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Members,
    Null,
    Optional,
    Str,
    Struct,
    TypeMapper,
)
from narthex._sdk.annotations import STRUCT_ATTRIBUTE
from narthex.errors import ExpressionInvalid

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EXACT = Context(prec=400)
_DECIMAL_LIMIT = 10**28
_OWN_TYPES: tuple[tuple[type, DataType], ...] = (
    (type(None), Null()),
    (bool, Bool()),
    (int, Int()),
    (float, Float()),
    (str, Str()),
    (bytes, Bytes()),
    (python_datetime, Datetime()),
    (date, Date()),
)


_Scalar = TypeVar("_Scalar", bool, str, bytes)
_Convert: TypeAlias = Callable[[object], LiteralValue]
"""Converts a Python value to a literal of one type; raises _MisfitError."""


class _MisfitError(ValueError):
    """A value does not belong to the type."""


def literal(value: object, of: DataType | None = None) -> Literal:
    """Convert a Python value to a literal of a type, or of its own type.

    Raises:
        ExpressionInvalid: It is not a value of the type, or has no type of its own.
    """
    dtype = own_type(value) if of is None else of
    try:
        return Literal(_LITERALS(dtype)(value), dtype)
    except (_MisfitError, InvalidOperation):
        raise ExpressionInvalid(f"{value!r} is not a literal of `{type_name(dtype)}`") from None


def own_type(value: object) -> DataType:
    """Return a value's own type.

    Raises:
        ExpressionInvalid: It has none, as with lists and dicts, or is a function.
    """
    for kind, of in _OWN_TYPES:
        if isinstance(value, kind):
            return of
    if isinstance(value, PythonDecimal):
        exponent = value.as_tuple().exponent
        return Decimal(max(-exponent, 1) if isinstance(exponent, int) else 1)
    struct = getattr(type(value), STRUCT_ATTRIBUTE, None)
    if isinstance(struct, Struct):
        return struct
    hint = "call it, or pass its source to an extractor" if callable(value) else "give its `type`"
    raise ExpressionInvalid(f"{value!r} cannot be a literal of an expression", hint=hint)


def _scalar(kind: type[_Scalar]) -> _Convert:
    def convert(value: object) -> LiteralValue:
        if not isinstance(value, kind):
            raise _MisfitError(value)
        return value

    return convert


def _int(value: object) -> LiteralValue:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise _MisfitError(value)
    return value


def _float(value: object) -> LiteralValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _MisfitError(value)
    return float(value)


def _datetime(value: object) -> LiteralValue:
    if not isinstance(value, python_datetime):
        raise _MisfitError(value)
    return int(to_micros(value))


def _date(value: object) -> LiteralValue:
    if not isinstance(value, date) or isinstance(value, python_datetime):
        raise _MisfitError(value)
    return value.toordinal() - _EPOCH_ORDINAL


def _decimal(dtype: Decimal) -> _Convert:
    def convert(value: object) -> LiteralValue:
        if isinstance(value, bool) or not isinstance(value, int | PythonDecimal):
            raise _MisfitError(value)
        return _unscaled(PythonDecimal(value), dtype.scale)

    return convert


def _list(dtype: List | Embedding, item: _Convert) -> _Convert:
    size = dtype.size if isinstance(dtype, Embedding) else None

    def convert(value: object) -> LiteralValue:
        if not isinstance(value, list | tuple) or (size is not None and len(value) != size):
            raise _MisfitError(value)
        return tuple(map(item, value))

    return convert


def _map(_: Map, member: _Convert) -> _Convert:
    def convert(value: object) -> LiteralValue:
        if not isinstance(value, dict):
            raise _MisfitError(value)
        return tuple((_str(key), member(entry)) for key, entry in value.items())

    return convert


def _struct(_: Struct, members: Members[_Convert]) -> _Convert:
    def convert(value: object) -> LiteralValue:
        if isinstance(value, Mapping):
            if set(value) != set(members):
                raise _MisfitError(value)
            return tuple(member(value[name]) for name, member in members.items())
        if not isinstance(getattr(type(value), STRUCT_ATTRIBUTE, None), Struct):
            raise _MisfitError(value)
        if not all(hasattr(value, name) for name in members):
            raise _MisfitError(value)
        return tuple(member(getattr(value, name)) for name, member in members.items())

    return convert


def _optional(_: Optional, required: _Convert) -> _Convert:
    return lambda value: None if value is None else required(value)


def _null(value: object) -> LiteralValue:
    if value is not None:
        raise _MisfitError(value)
    return None


_str = _scalar(str)
_LITERALS: TypeMapper[_Convert] = TypeMapper(
    int=_int,
    float=_float,
    bool=_scalar(bool),
    str=_str,
    bytes=_scalar(bytes),
    datetime=_datetime,
    date=_date,
    decimal=_decimal,
    list=_list,
    map=_map,
    embedding=_list,
    struct=_struct,
    optional=_optional,
    null=lambda: _null,
)


def _unscaled(value: PythonDecimal, scale: int) -> int:
    if not value.is_finite():
        raise _MisfitError(value)
    unscaled = value.scaleb(scale, _EXACT)
    if unscaled != unscaled.to_integral_value() or abs(unscaled) >= _DECIMAL_LIMIT:
        raise _MisfitError(value)
    return int(unscaled)


def are_literals(values: object) -> bool:
    """Whether it is a sequence with at least one item."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes) and len(values) > 0
