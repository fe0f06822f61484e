"""Reading many dataset logs with one consumer whose assignment changes while it runs."""

import time
from collections.abc import Mapping

from narthex_stores import LogReader, Record

ENDS_EVERY_S = 0.25


class FeedReader:
    """Tails topics from given offsets; knows how far each of them reaches.

    A topic that cannot be seen yet (its broker is down, it is being created) is asked for again;
    nothing is lost, as offsets live with what is written.
    """

    def __init__(self, bootstrap: str) -> None:
        """Connect lazily to the brokers named."""
        self._log = LogReader(bootstrap)
        self._starts: dict[str, dict[int, int]] = {}
        self._pending: set[str] = set()
        self._ends: dict[str, dict[int, int]] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._waiting_since: dict[str, float] = {}
        self._asked = 0.0

    def assign(self, starts: Mapping[str, Mapping[int, int]]) -> None:
        """Read these topics; a partition without a start is read from its beginning."""
        for topic, offsets in starts.items():
            if topic not in self._starts or dict(offsets) != self._starts[topic]:
                self._pending.add(topic)
        for gone in set(self._starts) - set(starts):
            self._ends.pop(gone, None)
            self._positions = {k: v for k, v in self._positions.items() if k[0] != gone}
        self._starts = {topic: dict(offsets) for topic, offsets in starts.items()}
        self._reassign()

    def _reassign(self) -> None:
        """Find the partitions of topics that wait for them, then tell the consumer."""
        for topic in sorted(self._pending):
            partitions = self._log.partitions(topic)
            if partitions:
                starts = self._starts.get(topic, {})
                for partition in range(partitions):
                    self._positions[(topic, partition)] = starts.get(partition, 0)
                self._pending.discard(topic)
        self._log.assign(self._positions)

    def poll(self, *, max_records: int, timeout_s: float) -> list[Record]:
        """Give what has come; waits at most `timeout_s` for the first record."""
        records = self._log.poll(max_records=max_records, timeout_s=timeout_s)
        for record in records:
            self._positions[(record.topic, record.partition)] = record.offset + 1
        if time.monotonic() - self._asked >= ENDS_EVERY_S:
            self._look()
        return records

    def _look(self) -> None:
        self._asked = time.monotonic()
        if self._pending:
            self._reassign()
        topics = [topic for topic in self._starts if topic not in self._pending]
        for (topic, partition), end in self._log.end_offsets(topics).items():
            self._ends.setdefault(topic, {})[partition] = end
        for topic in topics:
            behind = any(
                end > self._positions.get((topic, partition), 0)
                for partition, end in self._ends.get(topic, {}).items()
            )
            if not behind:
                self._waiting_since.pop(topic, None)
            else:
                self._waiting_since.setdefault(topic, self._asked)

    def ends(self) -> dict[str, dict[int, int]]:
        """Give the next offset of each partition of each topic that could be seen."""
        return self._ends

    def waiting_ms(self, topic: str) -> int:
        """Give for how long the topic has had records that are not read."""
        since = self._waiting_since.get(topic)
        return 0 if since is None else round((time.monotonic() - since) * 1000)
