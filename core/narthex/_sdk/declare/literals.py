"""Python values of a column, such as defaults and constants."""

from datetime import UTC, date, datetime
from decimal import Decimal as PythonDecimal

from narthex._base.patterns import matches
from narthex._base.times import to_micros
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.types import (
    Between,
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
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    unrestricted,
)

_EPOCH = date(1970, 1, 1)


class MisfitError(ValueError):
    """A value does not fit its column."""


def literal_of(value: object, of: DataType) -> LiteralValue:
    """Convert a Python value to a literal of a type.

    Instants are microseconds, dates days, decimals unscaled integers, lists tuples; a struct is the
    tuple of its members in order, a map that of its pairs.

    Raises:
        MisfitError: It is not a value of the type.
    """
    if isinstance(of, Optional):
        return None if value is None else literal_of(value, of.of)
    if isinstance(of, List):
        return _items(value, of.of)
    if isinstance(of, Struct):
        return _members(value, of)
    if isinstance(of, Map):
        return _pairs(value, of)
    if isinstance(of, Embedding):
        items = _items(value, Float())
        if len(items) != of.size:
            raise MisfitError(f"it has {len(items)} numbers; expected {of.size}")
        return items
    literal = _scalar(value, unrestricted(of))
    _check_restriction(literal, of)
    return literal


def _items(value: object, of: DataType) -> tuple[LiteralValue, ...]:
    if not isinstance(value, list | tuple):
        raise MisfitError(f"`{value!r}` is not a list")
    return tuple(literal_of(item, of) for item in value)


def _members(value: object, of: Struct) -> tuple[LiteralValue, ...]:
    convert = getattr(value, "as_json", None)
    given = convert() if callable(convert) else value
    names = [field.name for field in of.fields]
    if not isinstance(given, dict) or sorted(given) != sorted(names):
        raise MisfitError(f"`{value!r}` is not a `{of.name}`, which has {', '.join(names)}")
    return tuple(literal_of(given[field.name], field.type) for field in of.fields)


def _pairs(value: object, of: Map) -> tuple[LiteralValue, ...]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise MisfitError(f"`{value!r}` is not a dict with text keys")
    return tuple((key, literal_of(value[key], of.of)) for key in sorted(value))


def _scalar(value: object, of: DataType) -> LiteralValue:  # noqa: C901 (one case a type)
    match of, value:
        case Bool(), bool():
            return value
        case Str(), str():
            return value
        case Bytes(), bytes():
            return value
        case (Int() | Float() | Decimal(), bool()):
            raise MisfitError(f"`{value}` is not a number")
        case Int(), int():
            return value
        case Float(), int() | float():
            return float(value)
        case Datetime(), datetime():
            return int(to_micros(value if value.tzinfo else value.replace(tzinfo=UTC)))
        case Date(), datetime():
            raise MisfitError(f"`{value}` is an instant, not a day")
        case Date(), date():
            return (value - _EPOCH).days
        case Decimal(scale=scale), PythonDecimal() | int():
            return _unscaled(PythonDecimal(value), scale)
        case Decimal(scale=scale), float():
            return _unscaled(PythonDecimal(repr(value)), scale)
        case _:
            raise MisfitError(f"`{value!r}` is not of type `{type(of).__name__.lower()}`")


def _unscaled(value: PythonDecimal, scale: int) -> int:
    scaled = value.scaleb(scale)
    if not value.is_finite() or scaled != scaled.to_integral_value():
        raise MisfitError(f"`{value}` has more than {scale} digits after the point")
    return int(scaled)


def _check_restriction(literal: LiteralValue, of: DataType) -> None:
    match of:
        case Between() if isinstance(literal, int | float):
            low = literal > of.min if of.strict_min else literal >= of.min
            high = literal < of.max if of.strict_max else literal <= of.max
            fits = low and high
        case OneOf():
            fits = literal in of.options
        case Regex() if isinstance(literal, str):
            fits = matches(of.pattern, literal)
        case _:
            fits = True
    if not fits:
        raise MisfitError(f"`{literal!r}` is outside what the type allows")
