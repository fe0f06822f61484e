# mypy: disable-error-code="type-arg, misc"
"""Cells as Arrow arrays, and back.

There are two forms. Author code and answers use the native form: an instant is a timestamp and a
date is a date32. Tables of facts use the stored form: both are integers, as in cells. In both forms
a decimal is a decimal128(28, scale), a list or an embedding a list, and a restricted type its base
type.
"""

import decimal
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import pyarrow as pa

from narthex._formats.cells import refuse_null
from narthex._ir.facts import Cell
from narthex._ir.types import (
    DECIMAL_DIGITS,
    DataType,
    Decimal,
    Embedding,
    List,
    Map,
    Members,
    Struct,
    TypeMapper,
)

_Write: TypeAlias = Callable[[Cell], object]
"""Converts a cell of one type, not null, to a value that Arrow accepts."""

_Read: TypeAlias = Callable[[object], Cell]
"""Converts a value of an Arrow array, not null, to a cell of one type."""

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")
_EXACT = decimal.Context(prec=DECIMAL_DIGITS + 10)


def arrow_type(of: DataType) -> pa.DataType:
    """Return the native Arrow type of a column."""
    return _NATIVE_TYPES(of)


def stored_type(of: DataType) -> pa.DataType:
    """Return the Arrow type of a column in tables of facts."""
    return _STORED_TYPES(of)


def array_of(cells: Sequence[Cell], of: DataType) -> pa.Array:
    """Convert cells of a type to an array of `arrow_type`."""
    return pa.array(_written(cells, of), _NATIVE_TYPES(of))


def stored_array(cells: Sequence[Cell], of: DataType) -> pa.Array:
    """Convert cells of a type to an array of `stored_type`."""
    return pa.array(_written(cells, of), _STORED_TYPES(of))


def cells_of(array: pa.Array | pa.ChunkedArray, of: DataType) -> list[Cell]:
    """Return the cells of an array of `arrow_type`."""
    stored = _STORED_TYPES(of)
    return stored_cells(array if array.type == stored else array.cast(stored), of)


def stored_cells(array: pa.Array | pa.ChunkedArray, of: DataType) -> list[Cell]:
    """Return the cells of an array of `stored_type`."""
    values = array.to_pylist()
    read = _READERS(of)
    return values if read is None else _each(values, read)


def _written(cells: Sequence[Cell], of: DataType) -> Sequence[object]:
    write = _WRITERS(of)
    return cells if write is None else _each(cells, write)


def _each(values: Sequence[_Value], convert: Callable[[_Value], _Result]) -> list[_Result | None]:
    return [None if value is None else convert(value) for value in values]


def _type_mapper(*, datetime: pa.DataType, date: pa.DataType) -> TypeMapper[pa.DataType]:
    return TypeMapper(
        int=pa.int64(),
        float=pa.float64(),
        bool=pa.bool_(),
        str=pa.string(),
        bytes=pa.binary(),
        datetime=datetime,
        date=date,
        decimal=lambda dtype: pa.decimal128(DECIMAL_DIGITS, dtype.scale),
        list=lambda _, item: pa.list_(item),
        map=lambda _, value: pa.map_(pa.string(), value),
        embedding=lambda _, number: pa.list_(number),
        struct=lambda _, members: pa.struct(list(members.items())),
        null=refuse_null,
    )


_NATIVE_TYPES = _type_mapper(datetime=pa.timestamp("us", tz="UTC"), date=pa.date32())
_STORED_TYPES = _type_mapper(datetime=pa.int64(), date=pa.int32())


def _decimal_writer(dtype: Decimal) -> _Write:
    scale = dtype.scale

    def write(cell: Cell) -> object:
        return decimal.Decimal(cell).scaleb(-scale, _EXACT) if isinstance(cell, int) else cell

    return write


def _list_writer(_: List, item: _Write | None) -> _Write | None:
    if item is None:
        return None

    def write(cell: Cell) -> object:
        return _each(cell, item) if isinstance(cell, tuple) else cell

    return write


def _map_writer(_: Map, value: _Write | None) -> _Write:
    def write(cell: Cell) -> object:
        if not isinstance(cell, dict):
            return cell
        entries = cell.items()
        if value is None:
            return list(entries)
        return [(name, None if item is None else value(item)) for name, item in entries]

    return write


def _struct_writer(_: Struct, members: Members[_Write | None]) -> _Write | None:
    writers = {name: member for name, member in members.items() if member is not None}

    def write(cell: Cell) -> object:
        return _with_members(cell, writers) if isinstance(cell, dict) else cell

    return write if writers else None


def _with_members(
    value: dict[str, _Value], converters: dict[str, Callable[[_Value], _Result]]
) -> dict[str, _Value | _Result]:
    """Return a struct with some members converted."""
    converted: dict[str, _Value | _Result] = dict(value)
    for name, convert in converters.items():
        member = value.get(name)
        if member is not None:
            converted[name] = convert(member)
    return converted


_WRITERS: TypeMapper[_Write | None] = TypeMapper(
    int=None,
    float=None,
    bool=None,
    str=None,
    bytes=None,
    datetime=None,
    date=None,
    decimal=_decimal_writer,
    list=_list_writer,
    map=_map_writer,
    embedding=lambda _, __: None,
    struct=_struct_writer,
    null=refuse_null,
)


def _decimal_reader(dtype: Decimal) -> _Read:
    scale = dtype.scale

    def read(value: object) -> Cell:
        if not isinstance(value, decimal.Decimal):
            raise _misplaced(value, dtype)
        return int(value.scaleb(scale, _EXACT))

    return read


def _list_reader(dtype: List | Embedding, item: _Read | None) -> _Read:
    def read(value: object) -> Cell:
        if not isinstance(value, list):
            raise _misplaced(value, dtype)
        return tuple(value if item is None else _each(value, item))

    return read


def _map_reader(dtype: Map, member: _Read | None) -> _Read:
    def read(value: object) -> Cell:
        if not isinstance(value, list):
            raise _misplaced(value, dtype)
        if member is None:
            return dict(value)
        return {name: None if item is None else member(item) for name, item in value}

    return read


def _struct_reader(dtype: Struct, members: Members[_Read | None]) -> _Read | None:
    readers = {name: member for name, member in members.items() if member is not None}

    def read(value: object) -> Cell:
        if not isinstance(value, dict):
            raise _misplaced(value, dtype)
        return _with_members(value, readers)

    return read if readers else None


def _misplaced(value: object, dtype: DataType) -> TypeError:
    return TypeError(f"the Arrow value {value!r} is not a value of {dtype!r}")


_READERS: TypeMapper[_Read | None] = TypeMapper(
    int=None,
    float=None,
    bool=None,
    str=None,
    bytes=None,
    datetime=None,
    date=None,
    decimal=_decimal_reader,
    list=_list_reader,
    map=_map_reader,
    embedding=_list_reader,
    struct=_struct_reader,
    null=refuse_null,
)
