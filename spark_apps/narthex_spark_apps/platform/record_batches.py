"""Records to append, as the Arrow batches that Python functions return to Spark."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import pyarrow as pa

RecordCells: TypeAlias = "tuple[str, bytes, bytes]"
"""Topic, key and value of a record to append."""

OUTPUT: Final = "topic string, key binary, value binary"


def record_batch(records: Sequence[RecordCells]) -> pa.RecordBatch:
    """Convert records to a batch with the columns `OUTPUT`; one row for each record."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([topic for topic, _, _ in records], pa.string()),
            pa.array([key for _, key, _ in records], pa.binary()),
            pa.array([value for _, _, value in records], pa.binary()),
        ],
        names=["topic", "key", "value"],
    )
