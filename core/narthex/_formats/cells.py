"""Cells as bytes: canonical bytes for keys and identities, storage forms for Avro and MessagePack.

Canonical bytes are a big-endian u32 length and then the content: Int and Datetime 8 bytes and
Date 4 bytes two's complement, Decimal its unscaled integer in 16, Bool one byte, Float 8 bytes
IEEE-754 (-0.0 as 0.0, one NaN), Str UTF-8, Bytes unchanged; List, Embedding and Struct are the
concatenation of their encoded members, Map the concatenation of its encoded entries in the order of
the encoded names. Null is the length 0xFFFFFFFF without content. All numbers are big-endian.
Within a type, the encoding is injective, and no encoding is a prefix of another.
"""

import math
import struct
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from narthex._ir.facts import Cell
from narthex._ir.types import DataType, List, Members, Struct, TypeMapper

CellBytes: TypeAlias = Callable[[Cell], bytes]
"""Renders a cell of one type as canonical bytes, its length first."""

Conversion: TypeAlias = Callable[[Cell], Cell]
"""Converts a cell of one type to its storage form, or back."""

_NULL = b"\xff\xff\xff\xff"
_LONG = struct.Struct(">Iq")
_DAY = struct.Struct(">Ii")
_DOUBLE = struct.Struct(">Id")


class UnsupportedColumnError(ValueError):
    """A column whose name or type is not possible in a log."""


class WrongCellError(TypeError):
    """A cell that is not of its column's type."""


def cell_bytes(of: DataType) -> CellBytes:
    """Return the function that encodes cells of a type as length and canonical bytes.

    Null has no content.

    Raises:
        UnsupportedColumnError: Columns cannot have that type.
    """
    return _CANONICAL(of)


def refuse_null() -> NoReturn:
    """Refuse the type of the literal null, which columns cannot have.

    Raises:
        UnsupportedColumnError: Always.
    """
    raise UnsupportedColumnError("a column cannot have the type `null`; give it a type")


def _long_bytes(cell: Cell) -> bytes:
    if isinstance(cell, int):
        return _LONG.pack(8, cell)
    return _null_bytes(cell, "an integer")


def _day_bytes(cell: Cell) -> bytes:
    if isinstance(cell, int):
        return _DAY.pack(4, cell)
    return _null_bytes(cell, "days")


def _double_bytes(cell: Cell) -> bytes:
    if isinstance(cell, float | int):
        number = float(cell)
        return _DOUBLE.pack(8, math.nan if math.isnan(number) else number + 0.0)
    return _null_bytes(cell, "a number")


def _bool_bytes(cell: Cell) -> bytes:
    if isinstance(cell, bool):
        return b"\x00\x00\x00\x01\x01" if cell else b"\x00\x00\x00\x01\x00"
    return _null_bytes(cell, "true or false")


def _text_bytes(cell: Cell) -> bytes:
    if isinstance(cell, str):
        content = cell.encode()
        return len(content).to_bytes(4, "big") + content
    return _null_bytes(cell, "text")


def _raw_bytes(cell: Cell) -> bytes:
    if isinstance(cell, bytes):
        return _sized(cell)
    return _null_bytes(cell, "bytes")


def _decimal_bytes(cell: Cell) -> bytes:
    if isinstance(cell, int):
        return _sized(cell.to_bytes(16, "big", signed=True))
    return _null_bytes(cell, "an unscaled integer")


def _list_bytes(item: CellBytes) -> CellBytes:
    def encode_list(cell: Cell) -> bytes:
        if isinstance(cell, tuple):
            return _sized(b"".join([item(member) for member in cell]))
        return _null_bytes(cell, "a tuple")

    return encode_list


def _map_bytes(item: CellBytes) -> CellBytes:
    def encode_map(cell: Cell) -> bytes:
        if isinstance(cell, dict):
            entries = sorted((_text_bytes(name), item(member)) for name, member in cell.items())
            return _sized(b"".join([name + member for name, member in entries]))
        return _null_bytes(cell, "a dict")

    return encode_map


def _struct_bytes(_: Struct, members: Members[CellBytes]) -> CellBytes:
    encoders = tuple(members.items())

    def encode_struct(cell: Cell) -> bytes:
        if isinstance(cell, dict):
            return _sized(b"".join([encode(cell.get(name)) for name, encode in encoders]))
        return _null_bytes(cell, "a dict")

    return encode_struct


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _null_bytes(cell: Cell, wanted: str) -> bytes:
    if cell is None:
        return _NULL
    raise WrongCellError(f"a cell that should be {wanted} is {cell!r}")


_CANONICAL: TypeMapper[CellBytes] = TypeMapper(
    int=_long_bytes,
    float=_double_bytes,
    bool=_bool_bytes,
    str=_text_bytes,
    bytes=_raw_bytes,
    datetime=_long_bytes,
    date=_day_bytes,
    decimal=lambda _: _decimal_bytes,
    list=lambda _, item: _list_bytes(item),
    map=lambda _, value: _map_bytes(value),
    embedding=lambda _, number: _list_bytes(number),
    struct=_struct_bytes,
    null=refuse_null,
)


def empty_cell(of: DataType) -> Cell:
    """Return a cell of a type for the key of a tombstone, which its row id alone identifies."""
    return _EMPTY(of)


def _empty_struct(_: Struct, members: Members[Cell]) -> Cell:
    return dict(members)


_EMPTY: TypeMapper[Cell] = TypeMapper(
    int=0,
    float=0.0,
    bool=False,
    str="",
    bytes=b"",
    datetime=0,
    date=0,
    decimal=lambda _: 0,
    list=lambda _, __: (),
    map=lambda _, __: {},
    embedding=lambda dtype, number: (number,) * dtype.size,
    struct=_empty_struct,
    optional=lambda _, __: None,
    null=refuse_null,
)


def to_storage(of: DataType) -> Conversion | None:
    """Return the conversion of a cell to its storage form (a decimal to minimal bytes).

    None means that cells are stored unchanged. Avro and MessagePack hold cells in this form;
    `from_storage` is the inverse.
    """
    return _TO_STORAGE(of)


def from_storage(of: DataType) -> Conversion | None:
    """Return the conversion of a stored cell back to a cell (lists to tuples).

    None means that stored cells need no conversion.
    """
    return _FROM_STORAGE(of)


def _decimal_to_plain(cell: Cell) -> Cell:
    if isinstance(cell, int):
        return cell.to_bytes((cell if cell >= 0 else ~cell).bit_length() // 8 + 1, signed=True)
    return cell


def _decimal_from_plain(cell: Cell) -> Cell:
    return int.from_bytes(cell, signed=True) if isinstance(cell, bytes) else cell


def _tuple_of(cell: Cell) -> Cell:
    return tuple(cell) if isinstance(cell, list | tuple) else cell


def _convert_list(member: Conversion) -> Conversion:
    def convert(cell: Cell) -> Cell:
        if isinstance(cell, tuple | list):
            return tuple([None if item is None else member(item) for item in cell])
        return cell

    return convert


def _convert_map(member: Conversion) -> Conversion:
    def convert(cell: Cell) -> Cell:
        if isinstance(cell, dict):
            return {name: None if item is None else member(item) for name, item in cell.items()}
        return cell

    return convert


def _convert_struct(_: Struct, members: Members[Conversion | None]) -> Conversion | None:
    changed = {name: member for name, member in members.items() if member is not None}

    def convert(cell: Cell) -> Cell:
        if not isinstance(cell, dict):
            return cell
        converted = dict(cell)
        for name, member in changed.items():
            item = converted.get(name)
            if item is not None:
                converted[name] = member(item)
        return converted

    return convert if changed else None


def _storage_mapper(
    *, decimal: Conversion, sequence: Conversion | None
) -> TypeMapper[Conversion | None]:
    def convert_list(_: List, member: Conversion | None) -> Conversion | None:
        return sequence if member is None else _convert_list(member)

    return TypeMapper(
        int=None,
        float=None,
        bool=None,
        str=None,
        bytes=None,
        datetime=None,
        date=None,
        decimal=lambda _: decimal,
        list=convert_list,
        map=lambda _, member: None if member is None else _convert_map(member),
        embedding=lambda _, __: sequence,
        struct=_convert_struct,
        null=lambda: None,
    )


_TO_STORAGE = _storage_mapper(decimal=_decimal_to_plain, sequence=None)
_FROM_STORAGE = _storage_mapper(decimal=_decimal_from_plain, sequence=_tuple_of)
