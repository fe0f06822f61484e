"""The codec of facts: Avro datums on the log."""

import functools
import io
import json
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import fastavro

from narthex._base.records import Json
from narthex._formats.cells import (
    Conversion,
    UnsupportedColumnError,
    WrongCellError,
    from_storage,
    refuse_null,
    to_storage,
)
from narthex._ir.assets import LogSpec
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex._ir.types import DECIMAL_DIGITS, Members, Struct, TypeMapper

__all__ = [
    "CorruptFactError",
    "FactCodec",
    "UnsupportedColumnError",
    "WrongCellError",
    "avro_schema",
    "fact_codec",
]

_SHORT = 64
"""Avro renders a smaller length as one byte."""


class CorruptFactError(ValueError):
    """Bytes that are not a fact of the log."""


def avro_schema(log: LogSpec) -> str:
    """Return the Avro schema of a log's facts, as JSON text that is the same on every call.

    Raises:
        UnsupportedColumnError: A name is not valid in Avro, or a log cannot hold the type.
    """
    return json.dumps(_fact_schema(log, _LOG_TYPES), separators=(",", ":"))


_AvroType: TypeAlias = Callable[[str], Json]
"""The Avro type of a type at a path of the schema; the path names the records of structs."""


def _fact_schema(log: LogSpec, avro_types: TypeMapper[_AvroType]) -> dict[str, Json]:
    fields: list[Json] = [
        {"name": "row_id", "type": "bytes"},
        {"name": "version", "type": "bytes"},
        {"name": "event_time", "type": "long"},
        {"name": "alive", "type": "boolean"},
    ]
    for index, column in enumerate(log.keys):
        avro_type = avro_types(column.type)(f"k{index}")
        fields.append({"name": "k_" + _avro_name(column.name), "type": avro_type})
    for index, column in enumerate(log.values):
        avro_type = _nullable(avro_types(column.type)(f"v{index}"))
        fields.append({"name": "v_" + _avro_name(column.name), "type": avro_type})
    return {"type": "record", "name": "fact", "fields": fields}


def _nullable(schema: Json) -> Json:
    return schema if isinstance(schema, list) else ["null", schema]


def _avro_name(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise UnsupportedColumnError(f"`{name}` must be letters, digits and `_` to be in a log")
    return name


def _struct_type(_: Struct, members: Members[_AvroType]) -> _AvroType:
    def record_at(path: str) -> Json:
        fields: list[Json] = [
            {"name": _avro_name(name), "type": member(f"{path}_{index}")}
            for index, (name, member) in enumerate(members.items())
        ]
        return {"type": "record", "name": "struct_" + path, "fields": fields}

    return record_at


def _avro_mapper(decimal: Callable[[int], Json]) -> TypeMapper[_AvroType]:
    return TypeMapper(
        int=lambda _: "long",
        float=lambda _: "double",
        bool=lambda _: "boolean",
        str=lambda _: "string",
        bytes=lambda _: "bytes",
        datetime=lambda _: "long",
        date=lambda _: "int",
        decimal=lambda dtype: lambda _: decimal(dtype.scale),
        list=lambda _, item: lambda path: {"type": "array", "items": item(path + "_0")},
        map=lambda _, value: lambda path: {"type": "map", "values": value(path + "_0")},
        embedding=lambda _, number: lambda path: {"type": "array", "items": number(path)},
        struct=_struct_type,
        optional=lambda _, inner_type: lambda path: _nullable(inner_type(path)),
        null=refuse_null,
    )


_LOG_TYPES = _avro_mapper(
    lambda scale: {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": DECIMAL_DIGITS,
        "scale": scale,
    }
)
_BARE_TYPES = _avro_mapper(lambda _: "bytes")


@functools.lru_cache(maxsize=1024)
def fact_codec(log: LogSpec) -> "FactCodec":
    """Return the codec of a log's facts.

    Raises:
        UnsupportedColumnError: A name is not valid in Avro, or a log cannot hold the type.
    """
    return FactCodec(log=log)


_Conversions: TypeAlias = tuple[tuple[str, Conversion | None], ...]
_Lowers: TypeAlias = tuple[tuple[str, Conversion], ...]


@attrs.frozen(kw_only=True)
class FactCodec:
    """Encodes and decodes the facts of one log as Avro datums, without header or magic.

    The schema is `avro_schema(log)`. Decimals are encoded as their two's complement bytes, so they
    are never rounded.
    """

    log: LogSpec
    _schema: dict[str, Json] = attrs.field(init=False, repr=False, eq=False)
    _batch: dict[str, Json] = attrs.field(init=False, repr=False, eq=False)
    _lowers: _Lowers = attrs.field(init=False, repr=False, eq=False)
    _keys: _Conversions = attrs.field(init=False, repr=False, eq=False)
    _values: _Conversions = attrs.field(init=False, repr=False, eq=False)

    @_schema.default
    def _parse_schema(self) -> dict[str, Json]:
        # fastavro would read the annotated type as decimal.Decimal; cells are unscaled integers.
        parsed: dict[str, Json] = fastavro.parse_schema(_fact_schema(self.log, _BARE_TYPES))
        return parsed

    @_batch.default
    def _parse_batch(self) -> dict[str, Json]:
        plain = _fact_schema(self.log, _BARE_TYPES)
        parsed: dict[str, Json] = fastavro.parse_schema({"type": "array", "items": plain})
        return parsed

    @_lowers.default
    def _find_lowers(self) -> _Lowers:
        named = [("k_" + column.name, to_storage(column.type)) for column in self.log.keys]
        named += [("v_" + column.name, to_storage(column.type)) for column in self.log.values]
        return tuple((name, lower) for name, lower in named if lower is not None)

    @_keys.default
    def _name_keys(self) -> _Conversions:
        return tuple(("k_" + column.name, from_storage(column.type)) for column in self.log.keys)

    @_values.default
    def _name_values(self) -> _Conversions:
        return tuple(("v_" + column.name, from_storage(column.type)) for column in self.log.values)

    def encode(self, fact: Fact) -> bytes:
        """Encode one fact.

        Raises:
            WrongCellError: A cell is not of its column's type, or their numbers differ.
        """
        datum: dict[str, Cell] = {
            "row_id": fact.row_id,
            "version": fact.version,
            "event_time": fact.event_time,
            "alive": fact.alive,
        }
        target = io.BytesIO()
        try:
            for names, cells in ((self._keys, fact.key), (self._values, fact.values)):
                for (name, _), cell in zip(names, cells, strict=True):
                    datum[name] = cell
            for name, lower in self._lowers:
                cell = datum[name]
                datum[name] = None if cell is None else lower(cell)
            fastavro.schemaless_writer(target, self._schema, datum, disable_tuple_notation=True)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise WrongCellError(f"{fact!r} is not a fact of the log: {error}") from error
        return target.getvalue()

    @staticmethod
    def with_version(datum: bytes, version: Version) -> bytes:
        """Return the datum of the same fact with another version.

        The row id and the version are the first two fields: a length and bytes each.
        """
        size, begin = _length_at(datum, 0)
        size_of_version, after = _length_at(datum, begin + size)
        length = length_bytes(len(version))
        return b"".join((datum[: begin + size], length, version, datum[after + size_of_version :]))

    def decode(self, datum: bytes) -> Fact:
        """Decode one fact.

        Raises:
            CorruptFactError: The bytes are not a fact of this log.
        """
        return self.decode_many((datum,))[0]

    def decode_many(self, values: Sequence[bytes]) -> list[Fact]:
        """Decode many facts at once, in order; several times as fast as one by one.

        Raises:
            CorruptFactError: Some of the bytes are not a fact of this log.
        """
        if not values:
            return []
        # An Avro array is a block count (zigzag varint), its items end to end, and a zero byte.
        joined = b"".join((_varint(2 * len(values)), *values, b"\x00"))
        source = io.BytesIO(joined)
        try:
            data = fastavro.schemaless_reader(source, self._batch, None)
        except (
            EOFError,
            ValueError,
            IndexError,
            OverflowError,
            MemoryError,
            struct.error,
        ) as error:
            raise CorruptFactError(f"bytes that are not a fact of the log: {error}") from error
        if source.tell() != len(joined) or len(data) != len(values):
            raise CorruptFactError("bytes that are longer or shorter than their facts")
        # Invalid values may be as long together as other facts: one too short, the next too long.
        for value, datum in zip(values, data, strict=True):
            row_id = datum["row_id"]
            size = len(row_id)
            if not value.startswith(row_id, 1 if size < _SHORT else len(_varint(2 * size))):
                raise CorruptFactError("bytes that are not where their fact begins")
        keys, cells = _cells_of(self._keys), _cells_of(self._values)
        return [
            Fact(
                row_id=RowId(datum["row_id"]),
                version=Version(datum["version"]),
                event_time=datum["event_time"],
                key=keys(datum),
                values=cells(datum),
                alive=datum["alive"],
            )
            for datum in data
        ]


def _cells_of(names: _Conversions) -> Callable[[dict[str, Cell]], tuple[Cell, ...]]:
    if all(lift is None for _, lift in names):
        plain = tuple(name for name, _ in names)
        return lambda datum: tuple([datum[name] for name in plain])
    return lambda datum: tuple([_lifted(datum[name], lift) for name, lift in names])


def _lifted(cell: Cell, lift: Conversion | None) -> Cell:
    return cell if lift is None or cell is None else lift(cell)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _length_at(datum: bytes, at: int) -> tuple[int, int]:
    """Read a length as `length_bytes` renders it; return it and where it ends."""
    number = shift = 0
    while True:
        byte = datum[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that announces another byte
            return number >> 1, at
        shift += 7


def length_bytes(length: int) -> bytes:
    """Render a length as Avro does: a variable-length integer of twice the number."""
    left = 2 * length
    encoded = bytearray()
    while left >= 0x80:  # noqa: PLR2004 - seven bits a byte
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
