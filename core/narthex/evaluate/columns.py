"""Columns of cells as Polars series, and back.

In these frames an Int is Int64, a Float Float64, an instant Int64 (microseconds), a date Int32
(days), a decimal Int128 (unscaled), a list or an embedding a List, a struct a Struct, and a map a
List of structs of `key` and `value`. No other encoding of a value exists inside
`narthex.evaluate`; cells are those of `narthex.facts`.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import polars as pl

from narthex.facts import Cell
from narthex.types import (
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
    inner,
    unrestricted,
)

PolarsType: TypeAlias = pl.DataType | type[pl.DataType]
Element: TypeAlias = (
    "None | bool | int | float | str | bytes | Sequence[Element] | Mapping[str, Element]"
)
"""What Polars gives for one place of a series."""

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
    """A type that no series has."""


def polars_type(of: DataType) -> PolarsType:
    """Give the Polars type of a column of that type."""
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
    """Give the Polars schema of a frame with these columns."""
    return {name: polars_type(of) for name, of in schema.items()}


def series_of(name: str, cells: Sequence[Cell], of: DataType) -> pl.Series:
    """Give cells of a type as a series."""
    if is_plain(of):
        return pl.Series(name, list(cells), dtype=polars_type(of))
    return pl.Series(name, [_element(cell, of) for cell in cells], dtype=polars_type(of))


def cells_of(series: pl.Series, of: DataType) -> list[Cell]:
    """Give the cells of a series that has a column's type."""
    elements: list[Element] = series.to_list()
    return [_cell(element, of) for element in elements]


def frame_of(columns: Mapping[str, Sequence[Cell]], schema: Mapping[str, DataType]) -> pl.DataFrame:
    """Give columns of cells as a frame."""
    return pl.DataFrame([series_of(name, columns[name], of) for name, of in schema.items()])


def is_plain(of: DataType) -> bool:
    """Whether a cell of the type is a scalar."""
    return not isinstance(unrestricted(inner(of)), List | Embedding | Map | Struct)


def _element(cell: Cell, of: DataType) -> Element:
    plain = unrestricted(inner(of))
    match plain, cell:
        case List(of=item), tuple():
            return [_element(member, item) for member in cell]
        case Embedding(), tuple():
            return [_element(member, Float()) for member in cell]
        case Map(of=item), dict():
            return [{"key": key, "value": _element(member, item)} for key, member in cell.items()]
        case Struct(fields=fields), dict():
            return {field.name: _element(cell.get(field.name), field.type) for field in fields}
        case _:
            return cell


def _cell(element: Element, of: DataType) -> Cell:
    plain = unrestricted(inner(of))
    match plain, element:
        case List(of=item), list():
            return tuple(_cell(member, item) for member in element)
        case Embedding(), list():
            return tuple(_cell(member, Float()) for member in element)
        case Map(of=item), list():
            return dict(_entry(entry, item) for entry in element)
        case Struct(fields=fields), dict():
            return {field.name: _cell(element.get(field.name), field.type) for field in fields}
        case _, None | bool() | int() | float() | str() | bytes():
            return element
        case _:
            raise UnknownColumnTypeError(f"{element!r} is no element of {of!r}")


def _entry(entry: Element, item: DataType) -> tuple[str, Cell]:
    match entry:
        case {"key": str(key), "value": value}:
            return key, _cell(value, item)
        case _:
            raise UnknownColumnTypeError(f"{entry!r} is no entry of a map")
