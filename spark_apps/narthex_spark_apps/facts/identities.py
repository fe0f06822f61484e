"""Key bytes, row ids and versions as Spark columns: byte for byte those of `fact_codec`.

They are native Spark expressions, because Real-time Mode buffers for seconds before any Python.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import to_avro

from narthex._formats import refuse_null
from narthex._ir import DECIMAL_DIGITS, Column, Decimal, Members, Struct, TypeMapper

_CellBytes: TypeAlias = Callable[[SparkColumn], SparkColumn]
"""Renders a column as canonical bytes, each with its length; null stays null."""

_DECIMAL_SIZE = 16


def binary(content: bytes) -> SparkColumn:
    """Return a column of constant bytes."""
    return sf.lit(bytearray(content))


def big_endian(number: SparkColumn, *, size: int) -> SparkColumn:
    """Return the last `size` bytes (at most 8) of a number's two's complement, big-endian."""
    digits = sf.lpad(sf.hex(number.cast("long")), 16, "0")
    return sf.unhex(sf.right(digits, sf.lit(size * 2)))


def position(
    source_id: str, partition: SparkColumn, offset: SparkColumn, ordinal: SparkColumn
) -> SparkColumn:
    """Return the column form of `narthex._ir.facts.position`."""
    return sf.concat(
        binary(source_id.encode() + b"\x00"),
        big_endian(partition, size=4),
        big_endian(offset, size=8),
        big_endian(ordinal, size=4),
    )


def key_bytes(columns: Sequence[Column], cells: Sequence[SparkColumn]) -> SparkColumn:
    """Return the column form of `narthex._formats.avro.codec.key_bytes` for a key's cells."""
    return sf.concat(
        *(
            _or_null(_CELL_BYTES(column.type)(cell))
            for column, cell in zip(columns, cells, strict=True)
        )
    )


def keyed_row_id(key: SparkColumn, event_time: SparkColumn) -> SparkColumn:
    """Return the column form of `narthex._formats.avro.codec.keyed_row_id`."""
    # Adding 2^63 flips the sign bit, and so does an exclusive or with the least long.
    biased = event_time.bitwiseXOR(sf.lit(-(2**63)))
    return sf.concat(binary(b"k"), _sized(key), big_endian(biased, size=8))


def _sized(content: SparkColumn) -> SparkColumn:
    return sf.concat(big_endian(sf.octet_length(content), size=4), content)


def _or_null(rendered: SparkColumn) -> SparkColumn:
    return sf.coalesce(rendered, binary(b"\xff\xff\xff\xff"))


def _long_bytes(cell: SparkColumn) -> SparkColumn:
    return sf.concat(binary(b"\x00\x00\x00\x08"), big_endian(cell, size=8))


def _day_bytes(cell: SparkColumn) -> SparkColumn:
    return sf.concat(binary(b"\x00\x00\x00\x04"), big_endian(cell, size=4))


def _bool_bytes(cell: SparkColumn) -> SparkColumn:
    truth = sf.when(cell, binary(b"\x01")).when(~cell, binary(b"\x00"))
    return sf.concat(binary(b"\x00\x00\x00\x01"), truth)


def _text_bytes(cell: SparkColumn) -> SparkColumn:
    return _sized(sf.encode(cell, "UTF-8"))


def _double_bytes(cell: SparkColumn) -> SparkColumn:
    # Spark exposes the bits of a double only in Avro, where they are little-endian.
    digits = sf.hex(to_avro(cell + sf.lit(0.0), '"double"'))
    pairs = [sf.substring(digits, start, 2) for start in range(15, 0, -2)]
    number = sf.when(cell.isNotNull(), sf.unhex(sf.concat(*pairs)))
    content = sf.when(sf.isnan(cell), binary(b"\x7f\xf8" + bytes(6))).otherwise(number)
    return sf.concat(binary(b"\x00\x00\x00\x08"), content)


def _decimal_bytes(dtype: Decimal) -> _CellBytes:
    precision, scale = DECIMAL_DIGITS, dtype.scale
    schema = f'{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}'

    def encode(cell: SparkColumn) -> SparkColumn:
        # Avro writes a length of one byte and then the shortest two's complement, big-endian.
        shortest = sf.substring(to_avro(cell, schema), 2, _DECIMAL_SIZE)
        filled = sf.when(cell < 0, sf.lpad(shortest, _DECIMAL_SIZE, b"\xff")).otherwise(
            sf.lpad(shortest, _DECIMAL_SIZE, b"\x00")
        )
        return _sized(sf.when(cell.isNotNull(), filled))

    return encode


def _list_bytes(item: _CellBytes) -> _CellBytes:
    def encode(cell: SparkColumn) -> SparkColumn:
        return _sized(_joined(sf.transform(cell, lambda member: sf.hex(_or_null(item(member))))))

    return encode


def _map_bytes(value: _CellBytes) -> _CellBytes:
    def entry_digits(entry: SparkColumn) -> SparkColumn:
        return sf.concat(
            sf.hex(_or_null(_text_bytes(entry["key"]))), sf.hex(_or_null(value(entry["value"])))
        )

    def encode(cell: SparkColumn) -> SparkColumn:
        entries = sf.transform(sf.map_entries(cell), entry_digits)
        return _sized(_joined(sf.array_sort(entries)))

    return encode


def _struct_bytes(_: Struct, members: Members[_CellBytes]) -> _CellBytes:
    def encode(cell: SparkColumn) -> SparkColumn:
        contents = [_or_null(member(cell[name])) for name, member in members.items()]
        return _sized(sf.when(cell.isNotNull(), sf.concat(*contents)))

    return encode


def _joined(digits: SparkColumn) -> SparkColumn:
    return sf.unhex(sf.array_join(digits, ""))


_CELL_BYTES: TypeMapper[_CellBytes] = TypeMapper(
    int=_long_bytes,
    float=_double_bytes,
    bool=_bool_bytes,
    str=_text_bytes,
    bytes=_sized,
    datetime=_long_bytes,
    date=_day_bytes,
    decimal=_decimal_bytes,
    list=lambda _, item: _list_bytes(item),
    map=lambda _, value: _map_bytes(value),
    embedding=lambda _, number: _list_bytes(number),
    struct=_struct_bytes,
    null=refuse_null,
)
