"""Facts as columns, read in bulk.

One Python object per fact is expensive, so bulk readers use columns. Polars reads the datums of a
log as one block of an Avro file, some fifteen times as fast as one by one.
"""

import functools
import io
import json
from collections.abc import Sequence

import attrs
import fastavro
import polars as pl

from narthex._formats import empty_cell
from narthex._formats.avro import avro_schema, fact_codec
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

    def read(self, datums: Sequence[bytes]) -> FactColumns:
        """Read facts, in order.

        Raises:
            CorruptFactError: Some of the bytes are not a fact of the log.
        """
        block = b"".join((*datums, self._guard))
        file = b"".join((self._head, _zigzag(len(datums) + 1), _zigzag(len(block)), block, _SYNC))
        frame = _parsed(file)
        # Datums that end exactly where the guard begins were read as they were written.
        if frame is None or frame.height != len(datums) + 1 or frame["row_id"][-1] != _GUARD:
            fact_codec(self.log).decode_many(datums)
            raise ValueError("the column decoder failed on facts that the row decoder can decode")
        columns = [column.to_list() for column in frame.head(len(datums)).get_columns()]
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


def _parsed(file: bytes) -> pl.DataFrame | None:
    try:
        return pl.read_avro(io.BytesIO(file))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None


@functools.lru_cache(maxsize=1024)
def column_reader(log: LogSpec) -> ColumnReader | None:
    """Return the columnar reader of a log; None where a column is a list, a decimal or similar."""
    if not all(_IS_FLAT(column.type) for column in (*log.keys, *log.values)):
        return None
    schema = avro_schema(log)
    metadata = {"avro.schema": schema.encode(), "avro.codec": b"null"}
    entries = b"".join(
        _zigzag(len(name)) + name.encode() + _zigzag(len(value)) + value
        for name, value in metadata.items()
    )
    head = b"Obj\x01" + _zigzag(len(metadata)) + entries + _zigzag(0) + _SYNC
    return ColumnReader(log=log, head=head, guard=_guard_of(log, schema))


_IS_FLAT: TypeMapper[bool] = TypeMapper(
    int=True,
    float=True,
    bool=True,
    str=True,
    bytes=True,
    datetime=True,
    date=True,
    decimal=lambda _: False,
    list=lambda _, __: False,
    map=lambda _, __: False,
    embedding=lambda _, __: False,
    struct=lambda _, __: False,
    null=lambda: False,
)
"""Whether Polars reads a column of the type as cells."""


def _guard_of(log: LogSpec, schema: str) -> bytes:
    """Render the guard record that follows the last one."""
    cells: dict[str, object] = {f"k_{column.name}": empty_cell(column.type) for column in log.keys}
    cells |= {f"v_{column.name}": None for column in log.values}
    fixed = {"row_id": _GUARD, "version": b"", "event_time": 0, "alive": True}
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(json.loads(schema)), fixed | cells)
    return target.getvalue()


def _zigzag(number: int) -> bytes:
    """Render a length as Avro does: a variable-length integer of twice the number."""
    left = 2 * number
    encoded = bytearray()
    while left > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
