# mypy: disable-error-code="type-arg, explicit-any"
"""pandas frames to plain columns and back: only this module and the client use pandas."""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import TypeAlias

import attrs
import pandas as pd

from narthex._base.plain_values import JsonColumns, values_of
from narthex._base.records import Json
from narthex._base.times import from_micros
from narthex._formats.json_cells import parse_cell
from narthex._ir.types import DataType, Datetime, List, Map, Members, Struct, TypeMapper

_Parse: TypeAlias = Callable[[object], object]
"""Converts a plain value of one type to the value in a frame; other values stay unchanged."""


@attrs.frozen
class _FrameColumn:
    """The form of one type in frames.

    Attributes:
        parse: None if plain values stay unchanged.
        series: Makes a column of plain values.
    """

    parse: _Parse | None
    series: Callable[[Sequence[object]], pd.Series]


def columns_of(frame: pd.DataFrame) -> JsonColumns:
    """Return a frame as plain columns: instants as text in UTC, missing values as null."""
    return {str(name): values_of(frame[name]) for name in frame.columns}


def rows_of(frame: pd.DataFrame) -> list[dict[str, Json]]:
    """Return a frame as plain rows."""
    columns = columns_of(frame)
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def frame_of_columns(
    columns: Mapping[str, Sequence[object]], types: Mapping[str, DataType] | None = None
) -> pd.DataFrame:
    """Make a frame of plain columns; columns of known types get the matching dtype."""
    known = types or {}
    return pd.DataFrame(
        {name: series_of(values, known.get(name)) for name, values in columns.items()}
    )


def frame_of_rows(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """Make a frame of plain rows; a missing column is null."""
    names = dict.fromkeys(name for row in rows for name in row)
    return frame_of_columns({name: [row.get(name) for row in rows] for name in names})


def series_of(values: Sequence[object], of: DataType | None = None) -> pd.Series:
    """Make a series of plain values; for a known type, convert instants, days and decimals."""
    if of is None:
        return pd.Series(list(values), dtype=None if any(v is not None for v in values) else object)
    return _FORMATS(of).series(values)


def _instant(value: object) -> datetime | None:
    if isinstance(value, datetime) or value is None:
        return value
    micros = parse_cell(_json(value), Datetime())
    return from_micros(micros) if isinstance(micros, int) else None


def _json(value: object) -> Json:
    return value if isinstance(value, str | int | float) else None


def _instants(values: Sequence[object]) -> pd.Series:
    instants = pd.Series([_instant(value) for value in values], dtype=object)
    return pd.Series(pd.to_datetime(instants, utc=True))


class StructRow(dict[str, object]):
    """The members of a struct, by name and as attributes."""

    def __getattr__(self, name: str) -> object:
        """Return a member."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def as_json(self) -> dict[str, object]:
        """Return the members by name, as an instance of the struct's class does."""
        return {name: _members(value) for name, value in self.items()}


def _members(value: object) -> object:
    match value:
        case StructRow():
            return value.as_json()
        case list():
            return [_members(one) for one in value]
        case _:
            return value


def _of_dtype(dtype: str) -> _FrameColumn:
    return _FrameColumn(None, lambda values: pd.Series(list(values), dtype=dtype))


def _of_objects(parse: _Parse | None) -> _FrameColumn:
    def series(values: Sequence[object]) -> pd.Series:
        parsed = values if parse is None else [parse(value) for value in values]
        return pd.Series(list(parsed), dtype=object)

    return _FrameColumn(parse, series)


def _parsed_text(parse: Callable[[str], object]) -> _Parse:
    return lambda value: parse(value) if isinstance(value, str) else value


def _list(_: List, item: _FrameColumn) -> _FrameColumn:
    parse_item = item.parse

    def parse(value: object) -> object:
        if not isinstance(value, list | tuple):
            return value
        return list(value) if parse_item is None else [parse_item(member) for member in value]

    return _of_objects(parse)


def _map(_: Map, entry: _FrameColumn) -> _FrameColumn:
    parse_entry = entry.parse

    def parse(value: object) -> object:
        if parse_entry is None or not isinstance(value, dict):
            return value
        return {name: parse_entry(member) for name, member in value.items()}

    return _of_objects(parse)


def _struct(_: Struct, members: Members[_FrameColumn]) -> _FrameColumn:
    parsers = [(name, member.parse) for name, member in members.items()]

    def parse(value: object) -> object:
        if not isinstance(value, dict):
            return value
        return StructRow(
            (name, value.get(name) if parser is None else parser(value.get(name)))
            for name, parser in parsers
        )

    return _of_objects(parse)


_FORMATS: TypeMapper[_FrameColumn] = TypeMapper(
    int=_of_dtype("Int64"),
    float=_of_dtype("Float64"),
    bool=_of_dtype("boolean"),
    str=_of_dtype("string"),
    bytes=_of_objects(_parsed_text(base64.b64decode)),
    datetime=_FrameColumn(_parsed_text(_instant), _instants),
    date=_of_objects(_parsed_text(date.fromisoformat)),
    decimal=lambda _: _of_objects(_parsed_text(PythonDecimal)),
    list=_list,
    map=_map,
    embedding=lambda _, __: _of_objects(None),
    struct=_struct,
    null=lambda: _of_objects(None),
)
