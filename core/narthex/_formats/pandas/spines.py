# mypy: disable-error-code="type-arg, explicit-any"
"""The frames of offline queries: the rows that were asked for, and the features beside them."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from narthex._base.records import Json
from narthex._formats.pandas.frames import series_of
from narthex._ir.types import DataType, Datetime

_DTYPE: Final = re.compile(
    r"u?int(8|16|32|64)|U?Int(8|16|32|64)|float(32|64)|Float(32|64)|bool(ean)?|string|category"
    r"|datetime64\[(s|ms|us|ns)(, [A-Za-z0-9_+:/\-]{1,40})?\]"
)
"""The dtypes that a column of a frame gets back; columns of others have plain values."""


def dtypes_of(frame: pd.DataFrame) -> dict[str, str]:
    """Return the dtypes of a frame as text."""
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


def answered_frame(
    spine: Mapping[str, Sequence[object]],
    answers: Mapping[str, Sequence[object]],
    *,
    timestamp_column: str,
    types: Mapping[str, DataType],
    dtypes: Mapping[str, str],
) -> pd.DataFrame:
    """Return the columns of a spine, then the features that are not among them.

    Instants are datetimes in UTC, and features have the dtypes of their types. Other columns of the
    spine have the dtype that they had, as far as plain values can have it.

    Args:
        spine: The columns of the spine, as plain values.
        answers: The features, as plain values.
        timestamp_column: The column with the instants.
        types: The types of features by full name.
        dtypes: The dtypes of the other columns of the spine.
    """
    known = {**types, timestamp_column: Datetime()}
    columns = {
        name: series_of(values, known[name])
        if name in known
        else _series_of_dtype(values, dtypes.get(name, ""))
        for name, values in spine.items()
    }
    features = {
        name: series_of(values, types.get(name))
        for name, values in answers.items()
        if name not in columns
    }
    return pd.DataFrame({**columns, **features})


def _series_of_dtype(values: Sequence[object], dtype: str) -> pd.Series:
    plain = series_of(values)
    if _DTYPE.fullmatch(dtype) is None:
        return plain
    try:
        wanted = pd.api.types.pandas_dtype(dtype)
        if not dtype.startswith("datetime64"):
            return plain.astype(wanted)
        instants = pd.Series(pd.to_datetime(plain, utc=True, format="ISO8601"))
        return (instants if ", " in dtype else instants.dt.tz_localize(None)).astype(wanted)
    except (TypeError, ValueError, KeyError):
        return plain


def plain_dtypes(plain: Json) -> dict[str, str]:
    """Return dtypes that a server sent, by column."""
    return {name: str(dtype) for name, dtype in plain.items()} if isinstance(plain, dict) else {}
