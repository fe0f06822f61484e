# mypy: disable-error-code="type-arg, explicit-any"
"""pandas frames to plain columns and back: only this module and the client use pandas."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal as PythonDecimal
from typing import TypeAlias

import pandas as pd

from narthex._base.records import Json
from narthex._base.times import from_micros, render_instant, to_micros
from narthex._formats.json_cells import parse_cell
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Str,
    Struct,
    inner,
    unrestricted,
)

JsonColumns: TypeAlias = dict[str, list[Json]]

_DTYPES = {Int: "Int64", Float: "Float64", Bool: "boolean", Str: "string"}


def columns_of(frame: pd.DataFrame) -> JsonColumns:
    """Return a frame as plain columns: instants as text in UTC, missing values as null."""
    return {str(name): values_of(frame[name]) for name in frame.columns}


def values_of(series: Iterable[object]) -> list[Json]:
    """Return a series, or any list of values, as plain values."""
    return [plain_value(value) for value in series]


def rows_of(frame: pd.DataFrame) -> list[dict[str, Json]]:
    """Return a frame as plain rows."""
    columns = columns_of(frame)
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def plain_value(value: object) -> Json:  # noqa: C901 (one case a type)
    """Convert one value to JSON."""
    match value:
        case bool() | str():
            return value
        case float() if value != value:  # noqa: PLR0124 (only NaN differs from itself)
            return None
        case None | int() | float():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case _ if value is pd.NA or value is pd.NaT:
            return None
        case datetime():
            return render_instant(to_micros(value))
        case date():
            return value.isoformat()
        case PythonDecimal():
            return str(value)
        case dict():
            return {str(key): plain_value(item) for key, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case _:
            return _plain_other(value)


def _plain_other(value: object) -> Json:
    for method in ("as_json", "tolist", "item"):  # structs, arrays, numpy's scalars
        convert = getattr(value, method, None)
        if callable(convert):
            return plain_value(convert())
    raise TypeError(f"a `{type(value).__name__}` cannot be sent")


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
    plain = unrestricted(inner(of))
    if isinstance(plain, Datetime):
        instants = [_instant(value, plain) for value in values]
        return pd.Series(pd.to_datetime(pd.Series(instants, dtype=object), utc=True))
    dtype = _DTYPES.get(type(plain))
    if dtype is not None:
        return pd.Series(list(values), dtype=dtype)
    return pd.Series([_cell(value, plain) for value in values], dtype=object)


def _instant(value: object, of: DataType) -> datetime | None:
    if isinstance(value, datetime) or value is None:
        return value
    micros = parse_cell(_json(value), of)
    return from_micros(micros) if isinstance(micros, int) else None


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


def _cell(value: object, of: DataType) -> object:
    plain = unrestricted(inner(of))
    match plain, value:
        case Date(), str():
            return date.fromisoformat(value)
        case Decimal(), str():
            return PythonDecimal(value)
        case Datetime(), str():
            return _instant(value, plain)
        case Bytes(), str():
            return base64.b64decode(value)
        case List(of=item), list() | tuple():
            return [_cell(one, item) for one in value]
        case Map(of=item), dict():
            return {name: _cell(one, item) for name, one in value.items()}
        case Struct(fields=fields), dict():
            return StructRow((one.name, _cell(value.get(one.name), one.type)) for one in fields)
        case _:
            return value


def _json(value: object) -> Json:
    return value if isinstance(value, str | int | float) else None
