# mypy: disable-error-code="explicit-any"
"""Types and constants from the messages of Fennel's client."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from narthex._formats.coercion import MistypedError, coerce
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.facts import Cell
from narthex._ir.type_names import type_name
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
    Members,
    Null,
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    StructField,
    TypeMapper,
    inner,
    unrestricted,
)
from narthex.compat.wire.fields import choice_of
from narthex.compat.wire.schema_messages import (
    BetweenMessage,
    DataTypeMessage,
    OneOfMessage,
    StructMessage,
    ValueMessage,
)
from narthex.errors import RecordNotUnderstood, TypeNotSupported

_PLAIN: Final[Mapping[str, DataType]] = {
    "int": Int(),
    "float": Float(),
    "str": Str(),
    "bool": Bool(),
    "datetime": Datetime(),
    "date": Date(),
    "bytes": Bytes(),
    "null": Null(),
}


def data_type(message: DataTypeMessage) -> DataType:
    """Return the type that a message describes.

    Raises:
        RecordNotUnderstood: It describes none.
    """
    name, part = choice_of(message)
    return _PLAIN[name] if name in _PLAIN else _PARAMETRIZED[name](part)


def struct_type(message: StructMessage) -> Struct:
    """Return the struct that a message describes."""
    members = (StructField(field.name, data_type(field.type)) for field in message.fields)
    return Struct(message.name, tuple(members))


def _between(message: BetweenMessage) -> Between:
    of = data_type(message.of)
    if not isinstance(of, Int | Float):
        raise RecordNotUnderstood(f"a `between` of type `{type_name(of)}`; expected a number")
    return Between(
        of, _bound(message.min), _bound(message.max), message.strict_min, message.strict_max
    )


def _bound(value: ValueMessage) -> int | float:
    number = value.number if value.whole is None else value.whole
    if number is None:
        raise RecordNotUnderstood("a bound of a `between` is not a number")
    return number


def _one_of(message: OneOfMessage) -> OneOf:
    of = data_type(message.of)
    if not isinstance(of, Int | Str):
        raise RecordNotUnderstood(f"a `oneof` of type `{type_name(of)}`; expected int or text")
    options = [one.text if one.whole is None else one.whole for one in message.options]
    return OneOf(of, tuple(option for option in options if option is not None))


_PARAMETRIZED: Final[Mapping[str, Callable[[Any], DataType]]] = {
    "list": lambda part: List(data_type(part.of)),
    "map": lambda part: Map(data_type(part.value)),
    "embedding": lambda part: Embedding(part.size),
    "between": _between,
    "one_of": _one_of,
    "regex": lambda part: Regex(part.pattern),
    "optional": lambda part: Optional(data_type(part.of)),
    "struct": struct_type,
    "decimal": lambda part: Decimal(part.scale),
}


_Structs: TypeAlias = tuple[Struct, ...]


def _no_structs(*_: object) -> _Structs:
    return ()


def _inside(_: DataType, found: _Structs) -> _Structs:
    return found


def _itself(of: Struct, members: Members[_Structs]) -> _Structs:
    return (of, *(struct for found in members.values() for struct in found))


_STRUCTS: TypeMapper[_Structs] = TypeMapper(
    int=(),
    float=(),
    bool=(),
    str=(),
    bytes=(),
    datetime=(),
    date=(),
    decimal=_no_structs,
    list=_inside,
    map=_inside,
    embedding=_inside,
    struct=_itself,
    optional=_inside,
    null=_no_structs,
    restricted=_inside,
)


def structs_in(of: DataType) -> tuple[Struct, ...]:
    """Return the structs in a type, at any depth."""
    return _STRUCTS(of)


def literal_of_json(text: str, of: DataType) -> LiteralValue:
    """Return the constant of a type that the client wrote as JSON.

    Raises:
        TypeNotSupported: It is not a constant of that type, or the client does not write it so
            that it can be read.
    """
    if isinstance(unrestricted(inner(of)), Bytes):
        raise TypeNotSupported("Fennel's client does not send constants of bytes in full")
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise TypeNotSupported(f"the constant `{text[:80]}` is not JSON") from None
    if value is None and isinstance(of, Optional | Null):
        return None
    return literal_of_value(value, of)


def literal_of_value(value: object, of: DataType) -> LiteralValue:
    """Return a raw value as a constant of a type.

    Raises:
        TypeNotSupported: It is not a value of that type.
    """
    try:
        return _LITERALS(of)(coerce(value, of))
    except MistypedError as error:
        raise TypeNotSupported(f"a constant is not of type `{type_name(of)}`: {error}") from None


_ToLiteral: TypeAlias = Callable[[Cell], LiteralValue]
"""Converts a cell of one type to a constant."""


def _scalar(cell: Cell) -> LiteralValue:
    if isinstance(cell, tuple | dict):
        raise TypeNotSupported(f"`{cell!r}` is not a scalar")
    return cell


def _list(_: List | Embedding, item: _ToLiteral) -> _ToLiteral:
    return lambda cell: tuple(map(item, cell)) if isinstance(cell, tuple) else None


def _map(_: Map, entry: _ToLiteral) -> _ToLiteral:
    def convert(cell: Cell) -> LiteralValue:
        return tuple((k, entry(cell[k])) for k in sorted(cell)) if isinstance(cell, dict) else None

    return convert


def _struct(_: Struct, members: Members[_ToLiteral]) -> _ToLiteral:
    def convert(cell: Cell) -> LiteralValue:
        if not isinstance(cell, dict):
            return None
        return tuple(member(cell[name]) for name, member in members.items())

    return convert


def _optional(_: Optional, required: _ToLiteral) -> _ToLiteral:
    return lambda cell: None if cell is None else required(cell)


_LITERALS: TypeMapper[_ToLiteral] = TypeMapper(
    int=_scalar,
    float=_scalar,
    bool=_scalar,
    str=_scalar,
    bytes=_scalar,
    datetime=_scalar,
    date=_scalar,
    decimal=lambda _: _scalar,
    list=_list,
    map=_map,
    embedding=_list,
    struct=_struct,
    optional=_optional,
    null=lambda: _scalar,
)
