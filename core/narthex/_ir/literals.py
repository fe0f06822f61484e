"""Constants in definitions: whether a value belongs to a type."""

from collections.abc import Callable
from typing import TypeAlias, assert_never

from narthex._base.patterns import matches
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.types import (
    Between,
    DataType,
    Embedding,
    List,
    Map,
    Members,
    OneOf,
    Optional,
    Regex,
    Restricted,
    Struct,
    TypeMapper,
)

_Belongs: TypeAlias = Callable[[LiteralValue], bool]
"""Returns whether a constant is a value of one type."""


def is_literal_of(value: LiteralValue, of: DataType) -> bool:
    """Return whether a constant is a value of the type: instants are microseconds, dates days."""
    return _BELONGS(of)(value)


def _is_none(value: LiteralValue) -> bool:
    return value is None


def _is_bool(value: LiteralValue) -> bool:
    return isinstance(value, bool)


def _is_int(value: LiteralValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: LiteralValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_str(value: LiteralValue) -> bool:
    return isinstance(value, str)


def _is_bytes(value: LiteralValue) -> bool:
    return isinstance(value, bytes)


def _is_list(_: List, item: _Belongs) -> _Belongs:
    return lambda value: isinstance(value, tuple) and all(map(item, value))


def _is_map(_: Map, member: _Belongs) -> _Belongs:
    def is_entry(pair: LiteralValue) -> bool:
        if not isinstance(pair, tuple) or len(pair) != 2:  # noqa: PLR2004 (a key and its value)
            return False
        return isinstance(pair[0], str) and member(pair[1])

    return lambda value: isinstance(value, tuple) and all(map(is_entry, value))


def _is_embedding(dtype: Embedding, number: _Belongs) -> _Belongs:
    return lambda value: (
        isinstance(value, tuple) and len(value) == dtype.size and all(map(number, value))
    )


def _is_struct(_: Struct, members: Members[_Belongs]) -> _Belongs:
    def belongs(value: LiteralValue) -> bool:
        if not isinstance(value, tuple) or len(value) != len(members):
            return False
        return all(member(item) for member, item in zip(members.values(), value, strict=True))

    return belongs


def _is_optional(_: Optional, required: _Belongs) -> _Belongs:
    return lambda value: value is None or required(value)


def _is_restricted(dtype: Restricted, base: _Belongs) -> _Belongs:
    def belongs(value: LiteralValue) -> bool:
        match dtype:
            case Between():
                return base(value) and is_within(value, dtype)
            case OneOf():
                return value in dtype.options
            case Regex():
                return isinstance(value, str) and matches(dtype.pattern, value)
            case _:
                assert_never(dtype)

    return belongs


_BELONGS: TypeMapper[_Belongs] = TypeMapper(
    int=_is_int,
    float=_is_number,
    bool=_is_bool,
    str=_is_str,
    bytes=_is_bytes,
    datetime=_is_int,
    date=_is_int,
    decimal=lambda _: _is_int,
    list=_is_list,
    map=_is_map,
    embedding=_is_embedding,
    struct=_is_struct,
    optional=_is_optional,
    null=lambda: _is_none,
    restricted=_is_restricted,
)


def is_within(value: LiteralValue, of: Between) -> bool:
    """Return whether a number lies within bounds, strict ones excluded."""
    if not isinstance(value, int | float):
        return False
    low = value > of.min if of.strict_min else value >= of.min
    high = value < of.max if of.strict_max else value <= of.max
    return low and high
