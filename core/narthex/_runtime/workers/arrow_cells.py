# mypy: disable-error-code="type-arg, misc"
"""Convert cells to Arrow arrays, the form in which columns reach author code, and back."""

import decimal
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from narthex._formats.cells import from_storage
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
    Optional,
    Str,
    Struct,
    unrestricted,
)

PRECISION: Final = 28

_SCALARS: Final[dict[type, pa.DataType]] = {
    Int: pa.int64(),
    Float: pa.float64(),
    Bool: pa.bool_(),
    Str: pa.string(),
    Bytes: pa.binary(),
    Datetime: pa.timestamp("us", tz="UTC"),
    Date: pa.date32(),
}
_STORED: Final[dict[type, pa.DataType]] = {**_SCALARS, Datetime: pa.int64(), Date: pa.int32()}
_CONTEXT: Final = decimal.Context(prec=PRECISION + 10)


def arrow_type(of: DataType) -> pa.DataType:
    """Return the Arrow type of a column: instants and dates natively, decimals as decimal128."""
    return _arrow_type(of, _SCALARS)


def array_of(cells: Sequence[Cell], of: DataType) -> pa.Array:
    """Convert cells of a type to an array of `arrow_type`."""
    plain = unrestricted(of)
    if not _touched(plain):
        return pa.array(cells, arrow_type(of))
    return pa.array([_lowered(cell, plain) for cell in cells], arrow_type(of))


def cells_of(array: pa.Array | pa.ChunkedArray, of: DataType) -> list[Cell]:
    """Return the cells of an array of `arrow_type`."""
    plain = unrestricted(of)
    stored = _arrow_type(plain, _STORED)
    found = (array if array.type == stored else array.cast(stored)).to_pylist()
    if _touched(plain):
        found = [_lifted(cell, plain) for cell in found]
    lift = from_storage(plain)
    return found if lift is None else [None if cell is None else lift(cell) for cell in found]


def _arrow_type(of: DataType, scalars: dict[type, pa.DataType]) -> pa.DataType:
    plain = unrestricted(of)
    match plain:
        case Optional():
            return _arrow_type(plain.of, scalars)
        case Decimal():
            return pa.decimal128(PRECISION, plain.scale)
        case List():
            return pa.list_(_arrow_type(plain.of, scalars))
        case Embedding():
            return pa.list_(pa.float64())
        case Map():
            return pa.map_(pa.string(), _arrow_type(plain.of, scalars))
        case Struct():
            return pa.struct([(one.name, _arrow_type(one.type, scalars)) for one in plain.fields])
        case _:
            return scalars[type(plain)]


def _touched(of: DataType) -> bool:
    """Whether Arrow represents a cell of the type as another Python value."""
    match unrestricted(of):
        case Decimal() | Map():
            return True
        case List(of=item) | Optional(of=item):
            return _touched(item)
        case Struct(fields=fields):
            return any(_touched(field.type) for field in fields)
        case _:
            return False


def _lowered(cell: Cell, of: DataType) -> object:
    match unrestricted(of), cell:
        case Optional(of=inner), _:
            return _lowered(cell, inner)
        case Decimal(scale=scale), int():
            return decimal.Decimal(cell).scaleb(-scale, _CONTEXT)
        case List(of=item), tuple():
            return [_lowered(one, item) for one in cell]
        case Map(of=item), dict():
            return [(name, _lowered(one, item)) for name, one in cell.items()]
        case Struct(fields=fields), dict():
            return {field.name: _lowered(cell.get(field.name), field.type) for field in fields}
        case _:
            return cell


def _lifted(found: object, of: DataType) -> object:
    match unrestricted(of), found:
        case Optional(of=inner), _:
            return _lifted(found, inner)
        case Decimal(scale=scale), decimal.Decimal():
            return int(found.scaleb(scale, _CONTEXT))
        case List(of=item), list():
            return tuple(_lifted(one, item) for one in found)
        case Map(of=item), list():
            return {name: _lifted(one, item) for name, one in found}
        case Struct(fields=fields), dict():
            return {field.name: _lifted(found.get(field.name), field.type) for field in fields}
        case _:
            return found
