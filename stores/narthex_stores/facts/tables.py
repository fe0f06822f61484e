"""Facts as columns: the Arrow form of a dataset's log, its state, and its public columns.

Columns of the Arrow form: partition, offset, row_id, version, event_time (microseconds), alive,
`k_<name>` for each key column, `v_<name>` for each value column. Instants are microseconds and
days are counts, as in cells; decimals are decimal128(28, scale).
"""

from collections.abc import Sequence
from typing import TypeAlias

import attrs
import pyarrow as pa

from narthex._formats.arrow import stored_array, stored_cells, stored_type
from narthex._ir import Cell, DataType, Fact, LogSpec, RowId, Version

ColumnTypes: TypeAlias = "dict[str, DataType]"
"""Arrow names of a log's columns with their types; keys first."""

ArrowColumn: TypeAlias = "pa.ChunkedArray[pa.Scalar[pa.DataType]]"
"""One column of an Arrow table."""

_POSITION: "tuple[pa.Field[pa.DataType], ...]" = (
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("row_id", pa.binary(), nullable=False),
    pa.field("version", pa.binary(), nullable=False),
    pa.field("event_time", pa.int64(), nullable=False),
    pa.field("alive", pa.bool_(), nullable=False),
)


@attrs.frozen
class LogRow:
    """A fact with its position in the topic."""

    partition: int
    offset: int
    fact: Fact


def columns(log: LogSpec) -> ColumnTypes:
    """Return the key and value columns of a log by their Arrow names."""
    return {f"k_{column.name}": column.type for column in log.keys} | {
        f"v_{column.name}": column.type for column in log.values
    }


def fact_schema(log: LogSpec) -> pa.Schema:
    """Return the schema of a log's Arrow form; values may be null, keys never."""
    return pa.schema(
        [
            *_POSITION,
            *(
                pa.field(name, stored_type(of), nullable=name.startswith("v_"))
                for name, of in columns(log).items()
            ),
        ]
    )


def to_table(log: LogSpec, rows: Sequence[LogRow]) -> pa.Table:
    """Render facts as columns, in their order."""
    schema = fact_schema(log)
    if not rows:
        return schema.empty_table()
    facts = [row.fact for row in rows]
    cells = zip(*(fact.key + fact.values for fact in facts), strict=True)
    fixed: list[list[object]] = [
        [row.partition for row in rows],
        [row.offset for row in rows],
        [fact.row_id for fact in facts],
        [fact.version for fact in facts],
        [fact.event_time for fact in facts],
        [fact.alive for fact in facts],
    ]
    arrays = [
        *(pa.array(column, field.type) for column, field in zip(fixed, _POSITION, strict=True)),
        *(
            stored_array(column, of)
            for column, of in zip(cells, columns(log).values(), strict=True)
        ),
    ]
    return pa.table(arrays, schema=schema)


def to_rows(log: LogSpec, table: pa.Table) -> list[LogRow]:
    """Read facts back from columns, in their order."""
    fixed = [table.column(field.name).to_pylist() for field in _POSITION]
    keys = _cells(table, {f"k_{column.name}": column.type for column in log.keys})
    values = _cells(table, {f"v_{column.name}": column.type for column in log.values})
    return [
        LogRow(
            partition,
            offset,
            Fact(
                row_id=RowId(row_id),
                version=Version(version),
                event_time=event_time,
                key=key,
                values=value,
                alive=alive,
            ),
        )
        for partition, offset, row_id, version, event_time, alive, key, value in zip(
            *fixed, keys, values, strict=True
        )
    ]


def _cells(table: pa.Table, of: ColumnTypes) -> list[tuple[Cell, ...]]:
    if not of:
        return [()] * int(table.num_rows)
    read = [stored_cells(table.column(name), kind) for name, kind in of.items()]
    return list(zip(*read, strict=True))
