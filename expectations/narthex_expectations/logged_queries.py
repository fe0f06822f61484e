"""The log of logged queries, read up to some offsets."""

from collections.abc import Iterator, Mapping
from typing import Final

from narthex_stores import LogReader, Record, TransientError

_MOST_RECORDS: Final = 2_000
_POLL_S: Final = 1.0
_SILENT_S: Final = 30.0


def read_until(reader: LogReader, ends: Mapping[tuple[str, int], int]) -> Iterator[Record]:
    """Read the records from a reader's positions at least up to the ends of its log.

    Args:
        reader: A reader with the partitions of the log assigned.
        ends: The offset to stop before, by topic and partition; later records may follow.

    Raises:
        TransientError: There were none for 30 seconds.
    """
    silent_s = 0.0
    while any(reader.positions[place] < end for place, end in ends.items()):
        records = reader.poll(max_records=_MOST_RECORDS, timeout_s=_POLL_S)
        silent_s = 0.0 if records else silent_s + _POLL_S
        if silent_s >= _SILENT_S:
            raise TransientError(f"the log of logged queries gave nothing for {_SILENT_S:g} s")
        yield from records
