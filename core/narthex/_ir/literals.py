"""Constants in definitions: whether a value belongs to a type."""

from narthex._base.patterns import matches
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    DataType,
    Embedding,
    Float,
    List,
    Map,
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
)


def is_literal_of(value: LiteralValue, of: DataType) -> bool:
    """Return whether a constant is a value of the type: instants are microseconds, dates days."""
    match of:
        case Optional():
            return value is None or is_literal_of(value, of.of)
        case Bool():
            return isinstance(value, bool)
        case Str():
            return isinstance(value, str)
        case Bytes():
            return isinstance(value, bytes)
        case Float():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case List():
            return isinstance(value, tuple) and all(is_literal_of(one, of.of) for one in value)
        case Struct() | Map():
            return isinstance(value, tuple) and _is_composite(value, of)
        case _:
            return _is_restricted(value, of)


def _is_composite(value: tuple[LiteralValue, ...], of: Struct | Map) -> bool:
    if isinstance(of, Struct):
        return len(value) == len(of.fields) and all(
            is_literal_of(one, field.type) for one, field in zip(value, of.fields, strict=True)
        )
    return all(
        isinstance(pair, tuple)
        and len(pair) == 2  # noqa: PLR2004 (a key and its value)
        and isinstance(pair[0], str)
        and is_literal_of(pair[1], of.of)
        for pair in value
    )


def _is_restricted(value: LiteralValue, of: DataType) -> bool:
    match of:
        case Between():
            return is_literal_of(value, of.of) and is_within(value, of)
        case OneOf():
            return value in of.options
        case Regex():
            return isinstance(value, str) and matches(of.pattern, value)
        case Embedding():
            return (
                isinstance(value, tuple)
                and len(value) == of.size
                and all(is_literal_of(one, Float()) for one in value)
            )
        case _:
            return isinstance(value, int) and not isinstance(value, bool)


def is_within(value: LiteralValue, of: Between) -> bool:
    """Return whether a number lies within bounds, strict ones excluded."""
    if not isinstance(value, int | float):
        return False
    low = value > of.min if of.strict_min else value >= of.min
    high = value < of.max if of.strict_max else value <= of.max
    return low and high
