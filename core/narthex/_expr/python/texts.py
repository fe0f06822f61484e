"""`str.*` on single values."""

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from narthex._base.records import Json
from narthex._expr.case_mapping import change_case
from narthex._expr.json_paths import find, parse_path
from narthex._expr.python.signature import Compute, Signature, int64, text, timezone_of
from narthex._expr.time_formats import FormatError, parse_formatted
from narthex._formats.coercion import MistypedError, coerce
from narthex._ir.facts import Cell
from narthex._ir.types import (
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    List,
    Map,
    Members,
    Optional,
    Struct,
    TypeMapper,
)

_FromJson: TypeAlias = Callable[[Json], Cell]
"""Converts parsed JSON to a cell of one type; raises _NoValueError."""


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
        value: Json = json.loads(text(cells[0]), parse_constant=_refuse_constant)
        first = next(find(value, steps), None)
        if first is None or isinstance(first, str):
            return None if first is None else _encodable(first)
        written = json.dumps(first, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return _encodable(written)
    except (ValueError, RecursionError):
        return None


def _encodable(value: str) -> str:
    """Return a text that UTF-8 can encode; JSON can contain half characters, which it cannot."""
    value.encode()
    return value


def _refuse_constant(name: str) -> Json:
    raise _NoValueError(name)


def _parse(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    if signature.call.target is None:
        return None
    try:
        value: Json = json.loads(text(cells[0]), parse_constant=_refuse_constant)
        return _FROM_JSON(signature.call.target)(value)
    except (ValueError, RecursionError):
        return None


def _bool(value: Json) -> Cell:
    if not isinstance(value, bool):
        raise _NoValueError(value)
    return value


def _str(value: Json) -> Cell:
    if not isinstance(value, str):
        raise _NoValueError(value)
    return _encodable(value)


def _int(value: Json) -> Cell:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _NoValueError(value)
    return _whole(value)


def _whole(number: float) -> int:
    whole = int64(int(number)) if isinstance(number, int) or math.isfinite(number) else None
    if whole is None:
        raise _NoValueError(number)
    return whole


def _float(value: Json) -> Cell:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _NoValueError(value)
    try:
        double = float(value)
    except OverflowError as error:
        raise _NoValueError(value) from error
    if math.isinf(double):
        raise _NoValueError(value)
    return double


def _date(value: Json) -> Cell:
    if not isinstance(value, str):
        raise _NoValueError(value)
    return _coerced(value, Date())


def _datetime(value: Json) -> Cell:
    return _coerced(value, Datetime())


def _coerced(value: Json, of: DataType) -> Cell:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _NoValueError(value)
    try:
        return coerce(value, of)
    except MistypedError as error:
        raise _NoValueError(value) from error


def _decimal(dtype: Decimal) -> _FromJson:
    return lambda value: _coerced(value, dtype)


def _list(dtype: List | Embedding, item: _FromJson) -> _FromJson:
    size = dtype.size if isinstance(dtype, Embedding) else None

    def parse(value: Json) -> Cell:
        if not isinstance(value, list) or (size is not None and len(value) != size):
            raise _NoValueError(value)
        return tuple(map(item, value))

    return parse


def _map(_: Map, member: _FromJson) -> _FromJson:
    def parse(value: Json) -> Cell:
        if not isinstance(value, dict):
            raise _NoValueError(value)
        return {_encodable(key): member(item) for key, item in value.items()}

    return parse


def _struct(_: Struct, members: Members[_FromJson]) -> _FromJson:
    def parse(value: Json) -> Cell:
        if not isinstance(value, dict):
            raise _NoValueError(value)
        return {name: member(value.get(name)) for name, member in members.items()}

    return parse


def _optional(_: Optional, member: _FromJson) -> _FromJson:
    return lambda value: None if value is None else member(value)


def _without_json(value: Json) -> Cell:
    raise _NoValueError(value)


_FROM_JSON: TypeMapper[_FromJson] = TypeMapper(
    int=_int,
    float=_float,
    bool=_bool,
    str=_str,
    bytes=_without_json,
    datetime=_datetime,
    date=_date,
    decimal=_decimal,
    list=_list,
    map=_map,
    embedding=_list,
    struct=_struct,
    optional=_optional,
    null=lambda: _without_json,
)


TEXTS: Mapping[str, Compute] = MappingProxyType(
    {
        "str.len": _text_to(len),
        "str.lower": _text_to(lambda value: change_case(value, str.lower)),
        "str.upper": _text_to(lambda value: change_case(value, str.upper)),
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
