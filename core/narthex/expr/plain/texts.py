"""`str.*` on single values."""

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from narthex.expr.instants import FormatError, parse_formatted
from narthex.expr.plain.signature import Compute, Signature, int64, text
from narthex.facts import Cell
from narthex.records import Json
from narthex.types import (
    Bool,
    DataType,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
)


class _NoValueError(ValueError):
    """JSON that does not say a value of the wanted type."""


def _text_to(compute: Callable[[str], Cell]) -> Compute:
    return lambda _, cells: compute(text(cells[0]))


def _texts_to(compute: Callable[[str, str], Cell]) -> Compute:
    return lambda _, cells: compute(text(cells[0]), text(cells[1]))


def _split(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    return tuple(text(cells[0]).split(text(signature.option("sep"))))


def _strptime(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    try:
        return parse_formatted(text(cells[0]), text(signature.option("format")))
    except FormatError:
        return None


def _refuse_constant(name: str) -> Json:
    raise _NoValueError(name)


def _parse(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    if signature.call.target is None:
        return None
    try:
        said: Json = json.loads(text(cells[0]), parse_constant=_refuse_constant)
        return _typed(said, signature.call.target)
    except (ValueError, RecursionError):
        return None


def _typed(said: Json, of: DataType) -> Cell:
    match of:
        case Optional(of=member):
            return None if said is None else _typed(said, member)
        case List(of=member) if isinstance(said, list):
            return tuple(_typed(item, member) for item in said)
        case Map(of=member) if isinstance(said, dict):
            return {key: _typed(item, member) for key, item in said.items()}
        case Struct(fields=fields) if isinstance(said, dict):
            return {field.name: _typed(said.get(field.name), field.type) for field in fields}
        case _:
            return _typed_scalar(said, of)


def _typed_scalar(said: Json, of: DataType) -> Cell:
    match of, said:
        case Bool(), bool():
            return said
        case Str(), str():
            return said
        case (Int() | Float(), bool()):
            raise _NoValueError(said)
        case Int(), int() | float() if math.isfinite(said) and int64(int(said)) is not None:
            return int(said)
        case Float(), int() | float():
            return _double(said)
        case _:
            raise _NoValueError(said)


def _double(said: float) -> float:
    try:
        return float(said)
    except OverflowError as error:
        raise _NoValueError(said) from error


TEXTS: Mapping[str, Compute] = MappingProxyType(
    {
        "str.len": _text_to(len),
        "str.lower": _text_to(str.lower),
        "str.upper": _text_to(str.upper),
        "str.concat": _texts_to(str.__add__),
        "str.contains": _texts_to(lambda whole, part: part in whole),
        "str.startswith": _texts_to(lambda whole, part: whole.startswith(part)),
        "str.endswith": _texts_to(lambda whole, part: whole.endswith(part)),
        "str.split": _split,
        "str.strptime": _strptime,
        "str.parse": _parse,
    }
)
