"""Key bytes, row ids and versions as Spark columns: byte for byte those of `fact_codec`.

They are native Spark expressions, because Real-time Mode buffers for seconds before any Python.
"""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import to_avro

from narthex._formats import UnsupportedColumnError
from narthex._ir import (
    DECIMAL_DIGITS,
    Bool,
    Bytes,
    Column,
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
    """Return the column form of `narthex._formats.avro.fact_codec.key_bytes` for a key's cells."""
    return sf.concat(
        *(_cell_bytes(column.type, cell) for column, cell in zip(columns, cells, strict=True))
    )


def keyed_row_id(key: SparkColumn, event_time: SparkColumn) -> SparkColumn:
    """Return the column form of `narthex._formats.avro.fact_codec.keyed_row_id`."""
    # Adding 2^63 flips the sign bit, and so does an exclusive or with the least long.
    biased = event_time.bitwiseXOR(sf.lit(-(2**63)))
    return sf.concat(binary(b"k"), _sized(key), big_endian(biased, size=8))


def _sized(content: SparkColumn) -> SparkColumn:
    return sf.concat(big_endian(sf.octet_length(content), size=4), content)


def _cell_bytes(of: DataType, cell: SparkColumn) -> SparkColumn:
    rendered = _present_bytes(unrestricted(of), cell)
    return sf.coalesce(rendered, binary(b"\xff\xff\xff\xff"))


def _present_bytes(of: DataType, cell: SparkColumn) -> SparkColumn:
    match of:
        case Optional(of=inner):
            return _present_bytes(unrestricted(inner), cell)
        case Int() | Datetime():
            return sf.concat(binary(b"\x00\x00\x00\x08"), big_endian(cell, size=8))
        case Date():
            return sf.concat(binary(b"\x00\x00\x00\x04"), big_endian(cell, size=4))
        case Bool():
            truth = sf.when(cell, binary(b"\x01")).when(~cell, binary(b"\x00"))
            return sf.concat(binary(b"\x00\x00\x00\x01"), truth)
        case Str():
            return _sized(sf.encode(cell, "UTF-8"))
        case Bytes():
            return _sized(cell)
        case Float():
            return sf.concat(binary(b"\x00\x00\x00\x08"), _double_bytes(cell))
        case composite:
            return _sized(_composite_bytes(composite, cell))


def _double_bytes(cell: SparkColumn) -> SparkColumn:
    # Spark exposes the bits of a double only in Avro, where they are little-endian.
    digits = sf.hex(to_avro(cell + sf.lit(0.0), '"double"'))
    pairs = [sf.substring(digits, start, 2) for start in range(15, 0, -2)]
    number = sf.when(cell.isNotNull(), sf.unhex(sf.concat(*pairs)))
    return sf.when(sf.isnan(cell), binary(b"\x7f\xf8" + bytes(6))).otherwise(number)


def _decimal_bytes(cell: SparkColumn, *, scale: int) -> SparkColumn:
    schema = (
        f'{{"type":"bytes","logicalType":"decimal","precision":{DECIMAL_DIGITS},"scale":{scale}}}'
    )
    # Avro writes a length of one byte and then the shortest two's complement, big-endian.
    shortest = sf.substring(to_avro(cell, schema), 2, _DECIMAL_SIZE)
    filled = sf.when(cell < 0, sf.lpad(shortest, _DECIMAL_SIZE, b"\xff")).otherwise(
        sf.lpad(shortest, _DECIMAL_SIZE, b"\x00")
    )
    return sf.when(cell.isNotNull(), filled)


def _composite_bytes(of: DataType, cell: SparkColumn) -> SparkColumn:
    match of:
        case Decimal(scale=scale):
            return _decimal_bytes(cell, scale=scale)
        case List(of=item):
            return _joined(sf.transform(cell, lambda member: sf.hex(_cell_bytes(item, member))))
        case Embedding():
            return _joined(sf.transform(cell, lambda member: sf.hex(_cell_bytes(Float(), member))))
        case Map(of=item):
            entries = sf.transform(
                sf.map_entries(cell),
                lambda entry: sf.concat(
                    sf.hex(_cell_bytes(Str(), entry["key"])),
                    sf.hex(_cell_bytes(item, entry["value"])),
                ),
            )
            return _joined(sf.array_sort(entries))
        case Struct(fields=fields):
            members = [_cell_bytes(field.type, cell[field.name]) for field in fields]
            return sf.when(cell.isNotNull(), sf.concat(*members))
        case _:
            raise UnsupportedColumnError(f"no key has the type {of!r}")


def _joined(digits: SparkColumn) -> SparkColumn:
    return sf.unhex(sf.array_join(digits, ""))
