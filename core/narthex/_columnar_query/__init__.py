"""Queries of many rows by column: each feature is a Polars series from the given ones on.

The results are those of `narthex._query`, which executes any plan; `is_columnar` returns whether
this package can. `conversions` converts series from and to Arrow.
"""

from narthex._columnar_query.conversions import (
    NotStoredError,
    is_stored_alike,
    native_array,
    raw_series,
    stored_series,
)
from narthex._columnar_query.execution import (
    EVENT_TIME,
    FOUND,
    ColumnarLookup,
    execute_columns,
    is_columnar,
    key_name,
    value_name,
)
from narthex._expr.polars.columns import cells_of, series_of

__all__ = [
    "EVENT_TIME",
    "FOUND",
    "ColumnarLookup",
    "NotStoredError",
    "cells_of",
    "execute_columns",
    "is_columnar",
    "is_stored_alike",
    "key_name",
    "native_array",
    "raw_series",
    "series_of",
    "stored_series",
    "value_name",
]
