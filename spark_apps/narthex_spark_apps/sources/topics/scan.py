"""One scan of a whole topic, from its beginning to the end offsets at the start of the scan."""

import time
from collections.abc import Iterator

from narthex_stores import Broker, LogReader, Record, TransientError

BATCH = 10_000
_POLL_S = 0.5
_SILENT_S = 30.0


def scan(broker: Broker | str, topic: str) -> Iterator[Record]:
    """Yield the records of a topic, each partition's in order.

    Raises:
        StoreError: The broker does not answer.
    """
    with LogReader(broker) as reader:
        ends = reader.end_offsets([topic])
        starts = reader.first_offsets([topic])
        wanted = {place: ends[place] for place, first in starts.items() if first < ends[place]}
        reader.assign({place: starts[place] for place in wanted})
        last_record_at = time.monotonic()
        while any(reader.positions[place] < end for place, end in wanted.items()):
            records = reader.poll(max_records=BATCH, timeout_s=_POLL_S)
            if records:
                last_record_at = time.monotonic()
            elif time.monotonic() - last_record_at > _SILENT_S:
                raise TransientError(f"`{topic}`: no record came within {_SILENT_S:g} s")
            for record in records:
                if record.offset < wanted[record.topic, record.partition]:
                    yield record
