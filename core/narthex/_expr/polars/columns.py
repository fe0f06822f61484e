"""Columns of cells as Polars series, and back.

In these frames an Int is Int64, a Float Float64, an instant Int64 (microseconds), a date Int32
(days), a decimal Int128 (unscaled), a list or an embedding a List, a struct a Struct, and a map a
List of structs of `key` and `value`. `narthex._expr.polars` uses only this encoding of values;
cells are those of `narthex._ir.facts`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import polars as pl

from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Null,
    Str,
    Struct,
    base_type,
    inner,
    unrestricted,
)

COLUMNAR_ROWS = 64
"""The least number of rows to evaluate by column; evaluation by row starts faster."""

PolarsType: TypeAlias = pl.DataType | type[pl.DataType]
SeriesValue: TypeAlias = (
    "None | bool | int | float | str | bytes | Sequence[SeriesValue] | Mapping[str, SeriesValue]"
)
"""An element of a Polars series, as Polars returns it."""

_SCALARS: Mapping[type, PolarsType] = {
    Int: pl.Int64,
    Float: pl.Float64,
    Bool: pl.Boolean,
    Str: pl.String,
    Bytes: pl.Binary,
    Datetime: pl.Int64,
    Date: pl.Int32,
    Decimal: pl.Int128,
    Null: pl.Null,
}


class UnknownColumnTypeError(TypeError):
    """A type that has no Polars series."""


def polars_type(of: DataType) -> PolarsType:
    """Return the Polars type of a column of that type."""
    plain = unrestricted(inner(of))
    match plain:
        case List(of=item):
            return pl.List(polars_type(item))
        case Embedding():
            return pl.List(pl.Float64)
        case Map(of=item):
            entry = [pl.Field("key", pl.String), pl.Field("value", polars_type(item))]
            return pl.List(pl.Struct(entry))
        case Struct(fields=fields):
            return pl.Struct([pl.Field(field.name, polars_type(field.type)) for field in fields])
        case _:
            return _scalar_type(plain)


def _scalar_type(of: DataType) -> PolarsType:
    found = _SCALARS.get(type(of))
    if found is None:
        raise UnknownColumnTypeError(f"no series has the type {of!r}")
    return found


def frame_schema(schema: Mapping[str, DataType]) -> dict[str, PolarsType]:
    """Return the Polars schema of a frame with these columns."""
    return {name: polars_type(of) for name, of in schema.items()}


def series_of(name: str, cells: Sequence[Cell], of: DataType) -> pl.Series:
    """Convert cells of a type to a series."""
    if is_plain(of):
        return pl.Series(name, list(cells), dtype=polars_type(of))
    write = _writer(base_type(of))
    return pl.Series(name, [write(cell) for cell in cells], dtype=polars_type(of))


def cells_of(series: pl.Series, of: DataType) -> list[Cell]:
    """Return the cells of a series that has a column's type."""
    elements: list[SeriesValue] = series.to_list()
    read = _reader(base_type(of))
    return [read(element) for element in elements] if read is not None else _scalars(elements)


def _scalars(elements: list[SeriesValue]) -> list[Cell]:
    # Elements of a scalar type already are cells; they need no conversion.
    return elements  # type: ignore[return-value]


def frame_of(columns: Mapping[str, Sequence[Cell]], schema: Mapping[str, DataType]) -> pl.DataFrame:
    """Convert columns of cells to a frame."""
    return pl.DataFrame([series_of(name, columns[name], of) for name, of in schema.items()])


def is_plain(of: DataType) -> bool:
    """Return whether a cell of the type is a scalar."""
    return not isinstance(unrestricted(inner(of)), List | Embedding | Map | Struct)


_Read: TypeAlias = Callable[[SeriesValue], Cell]
_Write: TypeAlias = Callable[[Cell], SeriesValue]


@functools.lru_cache(maxsize=1024)
def _writer(of: DataType) -> _Write:
    """Return the function that converts cells of a type to elements; built once for many cells."""
    match inner(of):
        case List(of=item):
            return _list_writer(None if is_plain(item) else _writer(item))
        case Embedding():
            return _list_writer(None)
        case Map(of=item):
            return _map_writer(_writer(item))
        case Struct(fields=fields):
            return _struct_writer({field.name: _writer(field.type) for field in fields})
        case _:
            return _same_element


def _same_element(cell: Cell) -> SeriesValue:
    if isinstance(cell, tuple | dict):
        raise UnknownColumnTypeError(f"{cell!r} is not a scalar")
    return cell


def _list_writer(item: _Write | None) -> _Write:
    def write(cell: Cell) -> SeriesValue:
        if not isinstance(cell, tuple):
            return _same_element(cell)
        return [item(member) for member in cell] if item is not None else list(cell)

    return write


def _map_writer(value: _Write) -> _Write:
    def write(cell: Cell) -> SeriesValue:
        if not isinstance(cell, dict):
            return _same_element(cell)
        return [{"key": key, "value": value(member)} for key, member in cell.items()]

    return write


def _struct_writer(members: Mapping[str, _Write]) -> _Write:
    def write(cell: Cell) -> SeriesValue:
        if not isinstance(cell, dict):
            return _same_element(cell)
        return {name: member(cell.get(name)) for name, member in members.items()}

    return write


@functools.lru_cache(maxsize=1024)
def _reader(of: DataType) -> _Read | None:
    """Return the function that converts elements to cells of a type.

    None means that elements already are cells.
    """
    match inner(of):
        case List(of=item):
            return _list_reader(_reader(item))
        case Embedding():
            return _list_reader(None)
        case Map(of=item):
            return _map_reader(_reader(item) or _scalar)
        case Struct(fields=fields):
            return _struct_reader({f.name: _reader(f.type) or _scalar for f in fields})
        case _:
            return None


def _scalar(element: SeriesValue) -> Cell:
    if isinstance(element, Sequence | Mapping) and not isinstance(element, str | bytes):
        raise UnknownColumnTypeError(f"{element!r} is not a scalar")
    return element


def _list_reader(item: _Read | None) -> _Read:
    def read(element: SeriesValue) -> Cell:
        if not isinstance(element, list):
            return _scalar(element)
        return tuple([item(member) for member in element]) if item is not None else tuple(element)

    return read


def _map_reader(value: _Read) -> _Read:
    def read(element: SeriesValue) -> Cell:
        if not isinstance(element, list):
            return _scalar(element)
        return dict(_entry(entry, value) for entry in element)

    return read


def _entry(entry: SeriesValue, value: _Read) -> tuple[str, Cell]:
    match entry:
        case {"key": str(key), "value": element}:
            return key, value(element)
        case _:
            raise UnknownColumnTypeError(f"{entry!r} is not an entry of a map")


def _struct_reader(members: Mapping[str, _Read]) -> _Read:
    def read(element: SeriesValue) -> Cell:
        if not isinstance(element, dict):
            return _scalar(element)
        return {name: member(element.get(name)) for name, member in members.items()}

    return read
