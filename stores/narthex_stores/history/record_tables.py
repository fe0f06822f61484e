"""Records of a dataset's log as one table of the Arrow form."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from narthex._formats.avro import fact_codec
from narthex._ir import LogSpec
from narthex_stores.facts.columns import column_reader
from narthex_stores.facts.tables import LogRow, fact_schema, to_table
from narthex_stores.kafka.logs import Record


def record_table(log: LogSpec, records: Sequence[Record]) -> pa.Table:
    """Decode the facts of records, in their order; `narthex_stores.facts.tables` has the columns.

    Raises:
        CorruptFactError: A record is not a fact of the log.
    """
    reader = column_reader(log)
    datums = [record.value or b"" for record in records]
    if reader is None:
        facts = fact_codec(log).decode_many(datums)
        positions = zip(records, facts, strict=True)
        return to_table(log, [LogRow(r.partition, r.offset, fact) for r, fact in positions])
    decoded = reader.frame(datums).to_arrow()
    schema = fact_schema(log)
    partitions = pa.array([record.partition for record in records], pa.int32())
    offsets = pa.array([record.offset for record in records], pa.int64())
    placed = decoded.add_column(0, "offset", offsets).add_column(0, "partition", partitions)
    return placed.cast(schema)


def next_offsets(records: Sequence[Record]) -> Mapping[int, int]:
    """Return the offset after the last of the records, by partition."""
    following: dict[int, int] = {}
    for record in records:
        following[record.partition] = max(record.offset + 1, following.get(record.partition, 0))
    return following
