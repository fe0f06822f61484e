"""`str.*` on single values."""

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from narthex._base.records import Json
from narthex._expr.case_mapping import change_case
from narthex._expr.json_paths import find, parse_path
from narthex._expr.python.signature import Compute, Signature, int64, text, timezone_of
from narthex._expr.time_formats import FormatError, parse_formatted
from narthex._formats.coercion import MistypedError, coerce
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    base_type,
)


class _NoValueError(ValueError):
    """JSON that does not contain a value of the wanted type."""


def _text_to(compute: Callable[[str], Cell]) -> Compute:
    return lambda _, cells: compute(text(cells[0]))


def _texts_to(compute: Callable[[str, str], Cell]) -> Compute:
    return lambda _, cells: compute(text(cells[0]), text(cells[1]))


def _split(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    return tuple(text(cells[0]).split(text(signature.option("sep"))))


def _strptime(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    try:
        return parse_formatted(
            text(cells[0]), text(signature.option("format")), timezone_of(signature)
        )
    except FormatError:
        return None


def _json_extract(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    steps = parse_path(text(signature.option("path")))
    try:
        said: Json = json.loads(text(cells[0]), parse_constant=_refuse_constant)
        first = next(find(said, steps), None)
        if first is None or isinstance(first, str):
            return None if first is None else _encodable(first)
        written = json.dumps(first, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return _encodable(written)
    except (ValueError, RecursionError):
        return None


def _encodable(said: str) -> str:
    """Return a text that UTF-8 can encode; JSON can contain half characters, which it cannot."""
    said.encode()
    return said


def _refuse_constant(name: str) -> Json:
    raise _NoValueError(name)


def _parse(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    if signature.call.target is None:
        return None
    try:
        said: Json = json.loads(text(cells[0]), parse_constant=_refuse_constant)
        return _typed(said, base_type(signature.call.target))
    except (ValueError, RecursionError):
        return None


def _typed(said: Json, of: DataType) -> Cell:
    match of:
        case Optional(of=member):
            return None if said is None else _typed(said, member)
        case List(of=member) if isinstance(said, list):
            return tuple(_typed(item, member) for item in said)
        case Map(of=member) if isinstance(said, dict):
            return {_encodable(key): _typed(item, member) for key, item in said.items()}
        case Embedding(size=size) if isinstance(said, list) and len(said) == size:
            return tuple(_typed(item, Float()) for item in said)
        case Struct(fields=fields) if isinstance(said, dict):
            return {field.name: _typed(said.get(field.name), field.type) for field in fields}
        case _:
            return _typed_scalar(said, of)


def _typed_scalar(said: Json, of: DataType) -> Cell:
    match of, said:
        case Bool(), bool():
            return said
        case Str(), str():
            return _encodable(said)
        case Int() | Float() | Datetime() | Date() | Decimal(), bool():
            raise _NoValueError(said)
        case Int(), int() | float():
            return _whole(said)
        case Float(), int() | float():
            return _double(said)
        case Date(), str():
            return _written(said, of)
        case Datetime() | Decimal(), str() | int() | float():
            return _written(said, of)
        case _:
            raise _NoValueError(said)


def _whole(said: float) -> int:
    whole = int64(int(said)) if isinstance(said, int) or math.isfinite(said) else None
    if whole is None:
        raise _NoValueError(said)
    return whole


def _written(said: str | float, of: DataType) -> Cell:
    try:
        return coerce(said, of)
    except MistypedError as error:
        raise _NoValueError(said) from error


def _double(said: float) -> float:
    try:
        double = float(said)
    except OverflowError as error:
        raise _NoValueError(said) from error
    if math.isinf(double):
        raise _NoValueError(said)
    return double


TEXTS: Mapping[str, Compute] = MappingProxyType(
    {
        "str.len": _text_to(len),
        "str.lower": _text_to(lambda said: change_case(said, str.lower)),
        "str.upper": _text_to(lambda said: change_case(said, str.upper)),
        "str.concat": _texts_to(str.__add__),
        "str.contains": _texts_to(lambda whole, part: part in whole),
        "str.startswith": _texts_to(lambda whole, part: whole.startswith(part)),
        "str.endswith": _texts_to(lambda whole, part: whole.endswith(part)),
        "str.split": _split,
        "str.json_extract": _json_extract,
        "str.strptime": _strptime,
        "str.parse": _parse,
    }
)
