"""The newest records of the log of queries, read back from its end."""

from typing import Final

from narthex._query import answers_topic
from narthex.settings import Settings
from narthex_stores import LogReader, Record, platform_broker

READ_S: Final = 5.0
"""How long the log may be silent while it is read."""


def newest_records(settings: Settings, most: int) -> list[Record]:
    """Return at most the newest `most` records of the log, the newest first.

    There are none before the first query is logged.

    Raises:
        StoreError: The broker does not answer.
    """
    topic = answers_topic(settings.install_id)
    with LogReader(platform_broker(settings)) as reader:
        ends = reader.end_offsets([topic], timeout_s=READ_S)
        first = reader.first_offsets([topic], timeout_s=READ_S)
        reader.assign({place: max(first.get(place, 0), end - most) for place, end in ends.items()})
        records: list[Record] = []
        while any(reader.positions[place] < end for place, end in ends.items()):
            polled = reader.poll(max_records=most, timeout_s=READ_S)
            records += polled
            if not polled:
                break
    return sorted(records, key=lambda one: (-one.timestamp_ms, -one.offset))[:most]


def record_at(settings: Settings, partition: int, offset: int) -> Record | None:
    """Return the record at an offset of the log; None if there is none, or none any more.

    Raises:
        StoreError: The broker does not answer.
    """
    topic = answers_topic(settings.install_id)
    place = (topic, partition)
    with LogReader(platform_broker(settings)) as reader:
        end = reader.end_offsets([topic], timeout_s=READ_S).get(place, 0)
        first = reader.first_offsets([topic], timeout_s=READ_S).get(place, 0)
        if not first <= offset < end:
            return None
        reader.assign({place: offset})
        found = reader.poll(max_records=1, timeout_s=READ_S)
    return next((one for one in found if one.offset == offset), None)
