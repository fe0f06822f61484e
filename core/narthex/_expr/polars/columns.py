"""Columns of cells as Polars series, and back.

In these frames an Int is Int64, a Float Float64, an instant Int64 (microseconds), a date Int32
(days), a decimal Int128 (unscaled), a list or an embedding a List, a struct a Struct, and a map a
List of structs of `key` and `value`. `narthex._expr.polars` uses only this encoding of values;
cells are those of `narthex._ir.facts`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import polars as pl

from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Embedding, List, Map, Members, Struct, TypeMapper

COLUMNAR_ROWS = 64
"""The least number of rows to evaluate by column; evaluation by row starts faster."""

PolarsType: TypeAlias = pl.DataType | type[pl.DataType]
SeriesValue: TypeAlias = (
    "None | bool | int | float | str | bytes | Sequence[SeriesValue] | Mapping[str, SeriesValue]"
)
"""An element of a Polars series, as Polars returns it."""


class UnknownColumnTypeError(TypeError):
    """A type that has no Polars series."""


_Read: TypeAlias = Callable[[SeriesValue], Cell]
_Write: TypeAlias = Callable[[Cell], SeriesValue]


def polars_type(of: DataType) -> PolarsType:
    """Return the Polars type of a column of that type."""
    return _TYPES(of)


def series_of(name: str, cells: Sequence[Cell], of: DataType) -> pl.Series:
    """Convert cells of a type to a series."""
    write = _WRITERS(of)
    elements = list(cells) if write is _same_element else [write(cell) for cell in cells]
    return pl.Series(name, elements, dtype=polars_type(of))


def cells_of(series: pl.Series, of: DataType) -> list[Cell]:
    """Return the cells of a series that has a column's type."""
    elements: list[SeriesValue] = series.to_list()
    read = _READERS(of)
    return _scalars(elements) if read is None else [read(element) for element in elements]


def _scalars(elements: list[SeriesValue]) -> list[Cell]:
    # Elements of a scalar type already are cells; they need no conversion.
    return elements  # type: ignore[return-value]


def frame_of(columns: Mapping[str, Sequence[Cell]], schema: Mapping[str, DataType]) -> pl.DataFrame:
    """Convert columns of cells to a frame."""
    return pl.DataFrame([series_of(name, columns[name], of) for name, of in schema.items()])


def _map_type(_: Map, value: PolarsType) -> PolarsType:
    return pl.List(pl.Struct([pl.Field("key", pl.String), pl.Field("value", value)]))


def _struct_type(_: Struct, members: Members[PolarsType]) -> PolarsType:
    return pl.Struct([pl.Field(name, member) for name, member in members.items()])


_TYPES: TypeMapper[PolarsType] = TypeMapper(
    int=pl.Int64,
    float=pl.Float64,
    bool=pl.Boolean,
    str=pl.String,
    bytes=pl.Binary,
    datetime=pl.Int64,
    date=pl.Int32,
    decimal=lambda _: pl.Int128,
    list=lambda _, item: pl.List(item),
    map=_map_type,
    embedding=lambda _, number: pl.List(number),
    struct=_struct_type,
    null=lambda: pl.Null,
)


def _same_element(cell: Cell) -> SeriesValue:
    if isinstance(cell, tuple | dict):
        raise UnknownColumnTypeError(f"{cell!r} is not a scalar")
    return cell


def _list_writer(_: List | Embedding, item: _Write) -> _Write:
    def write(cell: Cell) -> SeriesValue:
        if not isinstance(cell, tuple):
            return _same_element(cell)
        return list(cell) if item is _same_element else [item(member) for member in cell]

    return write


def _map_writer(_: Map, value: _Write) -> _Write:
    def write(cell: Cell) -> SeriesValue:
        if not isinstance(cell, dict):
            return _same_element(cell)
        return [{"key": key, "value": value(member)} for key, member in cell.items()]

    return write


def _struct_writer(_: Struct, members: Members[_Write]) -> _Write:
    writers = tuple(members.items())

    def write(cell: Cell) -> SeriesValue:
        if not isinstance(cell, dict):
            return _same_element(cell)
        return {name: member(cell.get(name)) for name, member in writers}

    return write


_WRITERS: TypeMapper[_Write] = TypeMapper(
    int=_same_element,
    float=_same_element,
    bool=_same_element,
    str=_same_element,
    bytes=_same_element,
    datetime=_same_element,
    date=_same_element,
    decimal=lambda _: _same_element,
    list=_list_writer,
    map=_map_writer,
    embedding=_list_writer,
    struct=_struct_writer,
    null=lambda: _same_element,
)


def _scalar(element: SeriesValue) -> Cell:
    if isinstance(element, Sequence | Mapping) and not isinstance(element, str | bytes):
        raise UnknownColumnTypeError(f"{element!r} is not a scalar")
    return element


def _list_reader(_: List | Embedding, item: _Read | None) -> _Read:
    def read(element: SeriesValue) -> Cell:
        if not isinstance(element, list):
            return _scalar(element)
        return tuple([item(member) for member in element]) if item is not None else tuple(element)

    return read


def _map_reader(_: Map, item: _Read | None) -> _Read:
    value = item or _scalar

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


def _struct_reader(_: Struct, members: Members[_Read | None]) -> _Read:
    readers = tuple((name, member or _scalar) for name, member in members.items())

    def read(element: SeriesValue) -> Cell:
        if not isinstance(element, dict):
            return _scalar(element)
        return {name: member(element.get(name)) for name, member in readers}

    return read


_READERS: TypeMapper[_Read | None] = TypeMapper(
    int=None,
    float=None,
    bool=None,
    str=None,
    bytes=None,
    datetime=None,
    date=None,
    decimal=lambda _: None,
    list=_list_reader,
    map=_map_reader,
    embedding=_list_reader,
    struct=_struct_reader,
    null=lambda: None,
)
"""None means that elements already are cells."""
