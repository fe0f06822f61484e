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
        return _FROM_JSON(signature.call.target)(said)
    except (ValueError, RecursionError):
        return None


def _bool(said: Json) -> Cell:
    if not isinstance(said, bool):
        raise _NoValueError(said)
    return said


def _str(said: Json) -> Cell:
    if not isinstance(said, str):
        raise _NoValueError(said)
    return _encodable(said)


def _int(said: Json) -> Cell:
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise _NoValueError(said)
    whole = int64(int(said)) if isinstance(said, int) or math.isfinite(said) else None
    if whole is None:
        raise _NoValueError(said)
    return whole


def _float(said: Json) -> Cell:
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise _NoValueError(said)
    try:
        double = float(said)
    except OverflowError as error:
        raise _NoValueError(said) from error
    if math.isinf(double):
        raise _NoValueError(said)
    return double


def _date(said: Json) -> Cell:
    if not isinstance(said, str):
        raise _NoValueError(said)
    return _coerced(said, Date())


def _datetime(said: Json) -> Cell:
    return _coerced(said, Datetime())


def _coerced(said: Json, of: DataType) -> Cell:
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        raise _NoValueError(said)
    try:
        return coerce(said, of)
    except MistypedError as error:
        raise _NoValueError(said) from error


def _decimal(dtype: Decimal) -> _FromJson:
    return lambda said: _coerced(said, dtype)


def _list(dtype: List | Embedding, item: _FromJson) -> _FromJson:
    size = dtype.size if isinstance(dtype, Embedding) else None

    def parse(said: Json) -> Cell:
        if not isinstance(said, list) or (size is not None and len(said) != size):
            raise _NoValueError(said)
        return tuple(map(item, said))

    return parse


def _map(_: Map, member: _FromJson) -> _FromJson:
    def parse(said: Json) -> Cell:
        if not isinstance(said, dict):
            raise _NoValueError(said)
        return {_encodable(key): member(item) for key, item in said.items()}

    return parse


def _struct(_: Struct, members: Members[_FromJson]) -> _FromJson:
    def parse(said: Json) -> Cell:
        if not isinstance(said, dict):
            raise _NoValueError(said)
        return {name: member(said.get(name)) for name, member in members.items()}

    return parse


def _optional(_: Optional, member: _FromJson) -> _FromJson:
    return lambda said: None if said is None else member(said)


def _without_json(said: Json) -> Cell:
    raise _NoValueError(said)


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
