# mypy: disable-error-code="type-arg, explicit-any"
"""Frames with Fennel's conventions: lenient casts, and Fennel's messages for invalid rows."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from narthex._base.patterns import matches
from narthex._formats.arrow import arrow_type
from narthex._ir.literals import is_within
from narthex._ir.schema import Schema
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    Between,
    DataType,
    Date,
    Decimal,
    Embedding,
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    inner,
    unrestricted,
)

SMALLEST_DECAYED = math.exp(-25)
"""Fennel returned zero for sums that had decayed below this."""

_PROBLEM = re.compile(r"row \d+, (?P<dataset>\w+): `(?P<column>\w+)`: (?P<reason>.*)")


def cast(frame: pd.DataFrame, types: Mapping[str, DataType]) -> pd.DataFrame:
    """Convert whole numbers to text in text columns, as Fennel's client did."""
    made = frame
    for name, of in types.items():
        if name not in frame or not isinstance(unrestricted(inner(of)), Str):
            continue
        if pd.api.types.is_integer_dtype(frame[name].dtype):
            made = made.assign(**{name: frame[name].astype("string")})
    return made


def with_missing(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace missing values with `pd.NA`, also in object columns and inside lists and maps."""
    objects = [name for name in frame if frame[name].dtype == object]
    return frame.assign(**{str(name): frame[name].map(missing) for name in objects})


def missing(value: object) -> object:
    """Return a value with `pd.NA` for each missing part of it."""
    match value:
        case None:
            return pd.NA
        case dict():
            return type(value)((name, missing(one)) for name, one in value.items())
        case list():
            return [missing(one) for one in value]
        case _:
            return value


def with_arrow_dtypes(frame: pd.DataFrame, types: Mapping[str, DataType]) -> pd.DataFrame:
    """Convert columns to the Arrow dtypes in which Fennel's test client kept the rows."""
    columns = {name: _arrow_series(frame[name], of) for name, of in types.items() if name in frame}
    return frame.assign(**columns)


def without_pandas_dtype(types: Mapping[str, DataType]) -> Mapping[str, DataType]:
    """Return the columns of days and decimals, for which pandas has no dtype of its own."""
    return {name: of for name, of in types.items() if isinstance(inner(of), Date | Decimal)}


def _arrow_series(column: pd.Series, of: DataType) -> pd.Series:
    if isinstance(inner(of), Struct):
        return column  # Fennel's test client had objects there.
    kind = _in_nanoseconds(arrow_type(inner(of)))
    if isinstance(of, Embedding):
        kind = pa.list_(pa.float64(), of.size)
    values = pa.array([_arrow_value(value, kind) for value in column], kind)
    return pd.Series(values, index=column.index, dtype=pd.ArrowDtype(kind))


def _in_nanoseconds(kind: pa.DataType) -> pa.DataType:
    """Return a type whose instants, those inside lists and structs too, have nanoseconds."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns", tz="UTC")
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _in_nanoseconds(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_in_nanoseconds(kind.value_type))
    if pa.types.is_struct(kind):
        members = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([(one.name, _in_nanoseconds(one.type)) for one in members])
    return kind


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    """Return a value that Arrow converts to the type: None if it is missing, maps as pairs."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if pa.types.is_map(kind):
        return [(name, _arrow_value(one, kind.item_type)) for name, one in value.items()]
    if pa.types.is_struct(kind):
        return {name: _arrow_value(one, kind.field(name).type) for name, one in value.items()}
    if pa.types.is_list(kind):
        return [_arrow_value(one, kind.value_type) for one in value]
    return value


def with_numpy_dtype(column: pd.Series) -> pd.Series:
    """Return a column with NumPy's dtype, as code returned it; with missing values, unchanged."""
    of = {"Int64": "int64", "Float64": "float64", "boolean": "bool"}
    plain = of.get(str(column.dtype))
    if plain is None or column.hasnans:
        return column
    return pd.Series(column.to_numpy(dtype=plain), index=column.index)


def without_traces(frame: pd.DataFrame, decaying: Iterable[str]) -> pd.DataFrame:
    """Replace sums that have decayed to almost zero with zero."""
    made = frame
    for name in decaying:
        if name in frame:
            traces = (made[name].abs() < SMALLEST_DECAYED).fillna(value=False).astype(bool)
            made = made.assign(**{name: made[name].mask(traces, 0.0)})
    return made


def refusal(problems: str, frame: pd.DataFrame, schemas: Mapping[str, Schema]) -> str | None:
    """Return Fennel's message for refused rows; None if their dataset is not known.

    Args:
        problems: Our messages, one per line.
        frame: The rows.
        schemas: The schemas of the datasets that receive the rows, by name.
    """
    found = [match.groupdict() for match in map(_PROBLEM.match, problems.splitlines()) if match]
    known = [one for one in found if one["dataset"] in schemas and one["column"] in frame]
    if not known:
        return None
    dataset, column, reason = known[0]["dataset"], known[0]["column"], known[0]["reason"]
    begin = f"Schema validation failed during data insertion to `{dataset}`"
    columns = schemas[dataset].columns
    broken = [
        ValueError(f"Field `{name}` is of type {_kind(of)}, but {wrong}.")
        for name, of in columns.items()
        if name in frame and (wrong := _restriction(frame[name], of))
    ]
    if broken:
        return f"{begin} {broken}"
    return (
        f"{begin}: Failed to cast data logged to column `{column}` of type "
        f"`{_fennel_type(columns[column])}`: {_arrow_reason(frame[column]) or reason}"
    )


def _restriction(column: pd.Series, of: DataType) -> str:
    plain = inner(of)
    for value in column.dropna():
        match plain:
            case Between() if isinstance(value, int | float) and not is_within(value, plain):
                begin, end = "(" if plain.strict_min else "[", ")" if plain.strict_max else "]"
                bounds = f"{begin}{plain.min}, {plain.max}{end}"
                return f"Value {value} is out of bounds for between type, bounds are {bounds}"
            case OneOf(options=options) if value not in options:
                return f"Value {value} is not in options {list(options)}"
            case Regex(pattern=pattern) if not matches(pattern, str(value)):
                return f"Value {value} does not match regex {pattern}"
            case _:
                pass
    return ""


def _kind(of: DataType) -> str:
    match inner(of):
        case OneOf():
            return "oneof"
        case Regex():
            return "regex[str]"
        case _:
            return "between"


def _fennel_type(of: DataType) -> str:
    return f"optional({type_name(of.of)})" if isinstance(of, Optional) else type_name(of)


def _arrow_reason(column: pd.Series) -> str:
    """Return the reason why Arrow refuses a column; empty if it accepts it."""
    try:
        pa.Array.from_pandas(column)
    except pa.ArrowException as error:
        return str(error)
    return ""
