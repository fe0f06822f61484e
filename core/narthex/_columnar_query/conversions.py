# mypy: disable-error-code="type-arg, misc"
"""Series of `narthex._expr.polars` from Arrow columns and back, without a Python value per cell.

Values of types without a short way are converted cell by cell.
"""

from collections.abc import Mapping

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from narthex._expr.polars.columns import cells_of, polars_type, series_of
from narthex._formats.arrow import array_of, arrow_type, stored_type
from narthex._formats.coercion import coercion
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    Str,
    base_type,
    inner,
)

_EXACT: Mapping[type[DataType], pa.DataType] = {
    Int: pa.int64(),
    Float: pa.float64(),
    Bool: pa.bool_(),
}
"""The Arrow types whose values, but NaN, already are cells of a type."""

_SHORT = (Int, Float, Bool, Str, Bytes, Datetime, Date)
"""The types whose series Arrow casts to the native form."""

_PLAIN_INSTANT = r"^[12]\d{3}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{6})?Z$"
"""Texts of instants in UTC that need none of the other rules for instants."""

_NAIVE = "%Y-%m-%dT%H:%M:%S%.f"
"""The form of such a text without its Z. Inferring it fails when no day of a column exists."""


class NotStoredError(TypeError):
    """A type whose stored form is not read as a series."""


def raw_series(name: str, column: pa.ChunkedArray, of: DataType) -> pl.Series:
    """Convert raw values to cells of a type, as `narthex._formats.coerce`.

    Each distinct text is converted once.

    Raises:
        MistypedError: A value cannot be of the type.
    """
    if column.null_count == 0 and _is_exact(column, of):
        return pl.Series(name, pl.from_arrow(column))
    to_cell = coercion(of)
    texts = pl.Series(name, pl.from_arrow(column))
    if texts.dtype != pl.String:
        return series_of(name, [to_cell(value) for value in column.to_pylist()], of)
    instants = _instants(texts) if isinstance(inner(of), Datetime) else None
    if instants is not None:
        return instants
    distinct = texts.unique(maintain_order=True)
    cells = series_of(name, [to_cell(text) for text in distinct], of)
    found = pl.DataFrame({"text": texts}).join(
        pl.DataFrame({"text": distinct, name: cells}),
        on="text",
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return found[name]


def _instants(texts: pl.Series) -> pl.Series | None:
    """Return the instants of texts, microseconds; None if one of them is not plain."""
    if not texts.str.contains(_PLAIN_INSTANT).all() or texts.null_count():
        return None
    instants = texts.str.head(-1).str.to_datetime(_NAIVE, strict=False, time_unit="us")
    return None if instants.null_count() else instants.to_physical()


def _is_exact(column: pa.ChunkedArray, of: DataType) -> bool:
    exact = _EXACT.get(type(inner(of)))
    if exact is None or column.type != exact:
        return False
    return exact != pa.float64() or not pc.any(pc.is_nan(column)).as_py()


def is_stored_alike(of: DataType) -> bool:
    """Return whether `stored_series` reads columns of a type."""
    if isinstance(base_type(inner(of)), Decimal):
        return True
    empty = pl.Series(pl.from_arrow(pa.array([], stored_type(of))))
    return empty.dtype == polars_type(of)


def stored_series(column: pl.Series, of: DataType) -> pl.Series:
    """Convert a column of a table of facts, as Polars reads it.

    Raises:
        NotStoredError: Columns of the type have another form; see `is_stored_alike`.
    """
    if isinstance(base_type(inner(of)), Decimal):
        return column.to_physical()
    if column.dtype != polars_type(of):
        raise NotStoredError(f"a column of {column.dtype} is not one of {polars_type(of)}")
    return column


def native_array(series: pl.Series, of: DataType) -> pa.Array:
    """Convert a series to an array of `arrow_type`, as `array_of` converts its cells."""
    if isinstance(base_type(inner(of)), _SHORT):
        return series.to_arrow().cast(arrow_type(of))
    return array_of(cells_of(series, of), of)
