"""Constants of expressions: Python values as literals of a type."""

from collections.abc import Mapping, Sequence
from datetime import date
from datetime import datetime as python_datetime
from decimal import Context, InvalidOperation
from decimal import Decimal as PythonDecimal

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
    Null,
    Optional,
    Str,
    Struct,
    unrestricted,
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


class _MisfitError(ValueError):
    """A value does not belong to the type."""


def literal(value: object, of: DataType | None = None) -> Literal:
    """Convert a Python value to a literal of a type, or of its own type.

    Raises:
        ExpressionInvalid: It is not a value of the type, or has no type of its own.
    """
    found = own_type(value) if of is None else of
    try:
        return Literal(_value(value, found), found)
    except (_MisfitError, InvalidOperation):
        raise ExpressionInvalid(f"{value!r} is not a literal of `{type_name(found)}`") from None


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


def _value(value: object, of: DataType) -> LiteralValue:
    if value is None and isinstance(of, Optional | Null):
        return None
    if isinstance(of, Optional):
        return _value(value, of.of)
    plain = unrestricted(of)
    match plain, value:
        case List(of=item), list() | tuple():
            return tuple(_value(member, item) for member in value)
        case Embedding(size=size), list() | tuple() if len(value) == size:
            return tuple(_value(member, Float()) for member in value)
        case Map(of=item), dict():
            return tuple((_scalar(key, Str()), _value(entry, item)) for key, entry in value.items())
        case Struct(), _:
            return _members(value, plain)
        case _:
            return _scalar(value, plain)


def _members(value: object, of: Struct) -> tuple[LiteralValue, ...]:
    names = [field.name for field in of.fields]
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise _MisfitError(value)
        return tuple(_value(value[field.name], field.type) for field in of.fields)
    if not isinstance(getattr(type(value), STRUCT_ATTRIBUTE, None), Struct):
        raise _MisfitError(value)
    if not all(hasattr(value, name) for name in names):
        raise _MisfitError(value)
    return tuple(_value(getattr(value, field.name), field.type) for field in of.fields)


def _scalar(value: object, of: DataType) -> LiteralValue:  # noqa: C901 (one case a type)
    match of, value:
        case Bool(), bool():
            return value
        case (Int() | Float() | Decimal() | Date() | Datetime(), bool()):
            raise _MisfitError(value)
        case Int(), int() if -(2**63) <= value < 2**63:
            return value
        case Float(), int() | float():
            return float(value)
        case Str(), str():
            return value
        case Bytes(), bytes():
            return value
        case Datetime(), python_datetime():
            return int(to_micros(value))
        case Date(), date() if not isinstance(value, python_datetime):
            return value.toordinal() - _EPOCH_ORDINAL
        case Decimal(scale=scale), int() | PythonDecimal():
            return _unscaled(PythonDecimal(value), scale)
        case _:
            raise _MisfitError(value)


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
