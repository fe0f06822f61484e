"""Python values of a column, such as defaults and constants."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal as PythonDecimal
from typing import TypeAlias

from narthex._base.times import to_micros
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.literals import is_literal_of
from narthex._ir.types import (
    DataType,
    Decimal,
    Embedding,
    List,
    Map,
    Members,
    Optional,
    Restricted,
    Struct,
    TypeMapper,
)

_EPOCH = date(1970, 1, 1)


_Convert: TypeAlias = Callable[[object], LiteralValue]
"""Converts a Python value to a literal of one type; raises MisfitError."""


class MisfitError(ValueError):
    """A value does not fit its column."""


def literal_of(value: object, of: DataType) -> LiteralValue:
    """Convert a Python value to a literal of a type.

    Instants are microseconds, dates days, decimals unscaled integers, lists tuples; a struct is the
    tuple of its members in order, a map that of its pairs.

    Raises:
        MisfitError: It is not a value of the type.
    """
    return _LITERALS(of)(value)


def _no_number(value: object) -> None:
    if isinstance(value, bool):
        raise MisfitError(f"`{value}` is not a number")


def _misfit(value: object, name: str) -> MisfitError:
    return MisfitError(f"`{value!r}` is not of type `{name}`")


def _bool(value: object) -> LiteralValue:
    if not isinstance(value, bool):
        raise _misfit(value, "bool")
    return value


def _str(value: object) -> LiteralValue:
    if not isinstance(value, str):
        raise _misfit(value, "str")
    return value


def _bytes(value: object) -> LiteralValue:
    if not isinstance(value, bytes):
        raise _misfit(value, "bytes")
    return value


def _int(value: object) -> LiteralValue:
    _no_number(value)
    if not isinstance(value, int):
        raise _misfit(value, "int")
    return value


def _float(value: object) -> LiteralValue:
    _no_number(value)
    if not isinstance(value, int | float):
        raise _misfit(value, "float")
    return float(value)


def _datetime(value: object) -> LiteralValue:
    if not isinstance(value, datetime):
        raise _misfit(value, "datetime")
    return int(to_micros(value if value.tzinfo else value.replace(tzinfo=UTC)))


def _date(value: object) -> LiteralValue:
    if isinstance(value, datetime):
        raise MisfitError(f"`{value}` is an instant, not a day")
    if not isinstance(value, date):
        raise _misfit(value, "date")
    return (value - _EPOCH).days


def _decimal(dtype: Decimal) -> _Convert:
    def convert(value: object) -> LiteralValue:
        _no_number(value)
        match value:
            case PythonDecimal() | int():
                return _unscaled(PythonDecimal(value), dtype.scale)
            case float():
                return _unscaled(PythonDecimal(repr(value)), dtype.scale)
            case _:
                raise _misfit(value, "decimal")

    return convert


def _list(_: List, item: _Convert) -> _Convert:
    return lambda value: _items(value, item)


def _items(value: object, item: _Convert) -> tuple[LiteralValue, ...]:
    if not isinstance(value, list | tuple):
        raise MisfitError(f"`{value!r}` is not a list")
    return tuple(map(item, value))


def _embedding(dtype: Embedding, number: _Convert) -> _Convert:
    def convert(value: object) -> LiteralValue:
        items = _items(value, number)
        if len(items) != dtype.size:
            raise MisfitError(f"it has {len(items)} numbers; expected {dtype.size}")
        return items

    return convert


def _map(_: Map, entry: _Convert) -> _Convert:
    def convert(value: object) -> LiteralValue:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise MisfitError(f"`{value!r}` is not a dict with text keys")
        return tuple((key, entry(value[key])) for key in sorted(value))

    return convert


def _struct(dtype: Struct, members: Members[_Convert]) -> _Convert:
    def convert(value: object) -> LiteralValue:
        as_json = getattr(value, "as_json", None)
        given = as_json() if callable(as_json) else value
        if not isinstance(given, dict) or sorted(given) != sorted(members):
            raise MisfitError(
                f"`{value!r}` is not a `{dtype.name}`, which has {', '.join(members)}"
            )
        return tuple(member(given[name]) for name, member in members.items())

    return convert


def _optional(_: Optional, required: _Convert) -> _Convert:
    return lambda value: None if value is None else required(value)


def _null(value: object) -> LiteralValue:
    raise _misfit(value, "null")


def _restricted(dtype: Restricted, base: _Convert) -> _Convert:
    def convert(value: object) -> LiteralValue:
        literal = base(value)
        if not is_literal_of(literal, dtype):
            raise MisfitError(f"`{literal!r}` is outside what the type allows")
        return literal

    return convert


def _unscaled(value: PythonDecimal, scale: int) -> int:
    scaled = value.scaleb(scale)
    if not value.is_finite() or scaled != scaled.to_integral_value():
        raise MisfitError(f"`{value}` has more than {scale} digits after the point")
    return int(scaled)


_LITERALS: TypeMapper[_Convert] = TypeMapper(
    int=_int,
    float=_float,
    bool=_bool,
    str=_str,
    bytes=_bytes,
    datetime=_datetime,
    date=_date,
    decimal=_decimal,
    list=_list,
    map=_map,
    embedding=_embedding,
    struct=_struct,
    optional=_optional,
    null=lambda: _null,
    restricted=_restricted,
)
