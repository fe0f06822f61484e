"""Facts as columns, read in bulk.

One Python object per fact is expensive, so bulk readers use columns. Polars reads the datums of a
log as one block of an Avro file, some fifteen times as fast as one by one.
"""

import functools
import io
import json
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
import fastavro
import polars as pl

from narthex._formats import empty_cell
from narthex._formats.avro import avro_schema, fact_codec, length_bytes
from narthex._ir import Cell, Fact, LogSpec, RowId, TypeMapper, Version

_SYNC = b"narthex columns."
_GUARD = b"the end of the block"


@attrs.frozen(kw_only=True)
class FactColumns:
    """Facts of one log; all columns are equally long.

    Attributes:
        keys: One list of cells per key column; `values` likewise.
    """

    row_ids: list[bytes]
    versions: list[bytes]
    event_times: list[int]
    alive: list[bool]
    keys: list[list[Cell]]
    values: list[list[Cell]]

    def __len__(self) -> int:
        return len(self.row_ids)

    def fact(self, place: int) -> Fact:
        """Return one of the facts."""
        return Fact(
            row_id=RowId(self.row_ids[place]),
            version=Version(self.versions[place]),
            event_time=self.event_times[place],
            key=tuple([column[place] for column in self.keys]),
            values=tuple([column[place] for column in self.values]),
            alive=self.alive[place],
        )


@attrs.frozen(kw_only=True)
class ColumnReader:
    """Reads datums of one log whose columns are flat."""

    log: LogSpec
    _head: bytes
    _guard: bytes
    _length: pl.Expr

    def read(self, datums: Sequence[bytes]) -> FactColumns:
        """Read facts, in order.

        Raises:
            CorruptFactError: Some of the bytes are not a fact of the log.
        """
        columns = [column.to_list() for column in self.frame(datums).get_columns()]
        row_ids, versions, event_times, alive, *cells = columns
        keys = len(self.log.keys)
        return FactColumns(
            row_ids=row_ids,
            versions=versions,
            event_times=event_times,
            alive=alive,
            keys=cells[:keys],
            values=cells[keys:],
        )

    def frame(self, datums: Sequence[bytes]) -> pl.DataFrame:
        """Read facts, in order, as the columns of the Arrow form from `row_id` on.

        Raises:
            CorruptFactError: Some of the bytes are not a fact of the log.
        """
        block = b"".join((*datums, self._guard))
        file = b"".join(
            (self._head, length_bytes(len(datums) + 1), length_bytes(len(block)), block, _SYNC)
        )
        frame = _parsed(file)
        # Datums that end exactly where the guard begins were read as they were written.
        if frame is None or frame.height != len(datums) + 1 or frame["row_id"][-1] != _GUARD:
            fact_codec(self.log).decode_many(datums)
            raise ValueError("the column decoder failed on facts that the row decoder can decode")
        rows = frame.head(len(datums))
        # Invalid datums may be as long together as other facts: one too short, the next too long.
        if rows.select(self._length).to_series().to_list() != list(map(len, datums)):
            codec = fact_codec(self.log)
            for datum in datums:
                codec.decode(datum)
        return rows


def _parsed(file: bytes) -> pl.DataFrame | None:
    try:
        return pl.read_avro(io.BytesIO(file))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None


@functools.lru_cache(maxsize=1024)
def column_reader(log: LogSpec) -> ColumnReader | None:
    """Return the columnar reader of a log; None where a column is a list, a decimal or similar."""
    length = _length_of(log)
    if length is None:
        return None
    schema = avro_schema(log)
    metadata = {"avro.schema": schema.encode(), "avro.codec": b"null"}
    entries = b"".join(
        length_bytes(len(name)) + name.encode() + length_bytes(len(value)) + value
        for name, value in metadata.items()
    )
    head = b"Obj\x01" + length_bytes(len(metadata)) + entries + length_bytes(0) + _SYNC
    return ColumnReader(log=log, head=head, guard=_guard_of(log, schema), length=length)


_Length: TypeAlias = Callable[[pl.Expr], pl.Expr]
"""Returns the lengths of a column's Avro data, in bytes."""


_ONE: Final = pl.lit(1, pl.Int64)


def _zigzag_length(number: pl.Expr) -> pl.Expr:
    magnitude = pl.when(number >= 0).then(number).otherwise(-(number + 1)).cast(pl.UInt64)
    bits = 65 - magnitude.bitwise_leading_zeros().cast(pl.Int64)
    return (bits + 6) // 7


def _sized(size: pl.Expr) -> pl.Expr:
    size = size.cast(pl.Int64)
    return _zigzag_length(size) + size


_LENGTHS: TypeMapper[_Length | None] = TypeMapper(
    int=_zigzag_length,
    float=lambda _: pl.lit(8, pl.Int64),
    bool=lambda _: _ONE,
    str=lambda cell: _sized(cell.str.len_bytes()),
    bytes=lambda cell: _sized(cell.bin.size()),
    datetime=_zigzag_length,
    date=lambda cell: _zigzag_length(cell.cast(pl.Int64)),
    decimal=lambda _: None,
    list=lambda _, __: None,
    map=lambda _, __: None,
    embedding=lambda _, __: None,
    struct=lambda _, __: None,
    null=lambda: None,
)
"""The length of a cell; None where Polars does not read a column of the type as cells."""


def _length_of(log: LogSpec) -> pl.Expr | None:
    """Return the length of a row as an Avro datum; None if a column is not flat."""
    fixed = (_sized(pl.col(name).bin.size()) for name in ("row_id", "version"))
    lengths = [*fixed, _zigzag_length(pl.col("event_time")), _ONE]
    for prefix, columns in (("k_", log.keys), ("v_", log.values)):
        for column in columns:
            length = _LENGTHS(column.type)
            if length is None:
                return None
            cell = pl.col(prefix + column.name)
            lengths.append(length(cell))
            if prefix == "v_":
                # The index of the union's branch; null is only that.
                lengths[-1] = pl.when(cell.is_null()).then(0).otherwise(lengths[-1]) + 1
    return pl.sum_horizontal(lengths)


def _guard_of(log: LogSpec, schema: str) -> bytes:
    """Render the guard record that follows the last one."""
    cells: dict[str, object] = {f"k_{column.name}": empty_cell(column.type) for column in log.keys}
    cells |= {f"v_{column.name}": None for column in log.values}
    fixed = {"row_id": _GUARD, "version": b"", "event_time": 0, "alive": True}
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(schema)), fixed | cells)
    return target.getvalue()
