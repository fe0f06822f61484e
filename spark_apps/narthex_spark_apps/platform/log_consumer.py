"""Read many dataset logs with one consumer whose assignment changes while it runs."""

import datetime as dt
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Protocol

import structlog

from narthex._base import to_micros
from narthex_stores import Broker, EndOffsetReader, LogReader, Record, StoreError

log = structlog.get_logger()

ENDS_EVERY_S = 0.5
FETCH_WAIT_MS = 200
"""How long the broker waits for records before an empty answer; with records it answers at once."""
POLL_RECORDS = 20_000
BACKLOG_RECORDS = 100_000
"""The most records taken together, some two seconds of work, if one log is far behind."""
FAR_BEHIND = 1_000
"""A poll with this many records means a backlog: a thousand rows a second yield fifty."""


class OffsetGoneError(RuntimeError):
    """The topic no longer holds the next record that a job or a feed has to read."""


class Polls(Protocol):
    """Reads logs."""

    def poll(self, *, max_records: int, timeout_s: float) -> list[Record]:
        """Return the records that have arrived; wait at most `timeout_s` for the first record."""


def poll_together(reader: Polls, *, timeout_s: float) -> list[Record]:
    """Read the records for one index transaction: more of them if only one log is far behind.

    Rows of the same and of neighbouring keys then share their writes: a million and a half rows of
    100,000 keys take 0.7 of the CPU time that they take in transactions of 20,000. Once a record of
    another log arrives, reading stops, so that it does not wait longer.
    """
    found = reader.poll(max_records=POLL_RECORDS, timeout_s=timeout_s)
    more = found
    while (
        len(more) >= FAR_BEHIND
        and len(found) < BACKLOG_RECORDS
        and all(record.topic == found[0].topic for record in more)
    ):
        more = reader.poll(
            max_records=min(POLL_RECORDS, BACKLOG_RECORDS - len(found)), timeout_s=timeout_s
        )
        found += more
    return found


class LogEnds:
    """End offsets of topics, fetched in a separate thread so that no reader waits for them."""

    def __init__(self, broker: Broker | str) -> None:
        """Prepare without topics to watch."""
        self._end_offsets = EndOffsetReader(broker)
        self._topics: tuple[str, ...] = ()
        self._ends: dict[str, dict[int, int]] = {}
        self.answered_us: int | None = None
        """When the broker last answered, microseconds since 1970; None before its first answer."""
        self._changed = threading.Event()
        self._is_closed = False
        threading.Thread(target=self._run, name="log-ends", daemon=True).start()

    def watch(self, topics: Iterable[str]) -> None:
        """Watch these topics from now on."""
        self._topics = tuple(sorted(set(topics)))
        self._ends = {t: ends for t, ends in self._ends.items() if t in self._topics}
        self._changed.set()

    def known(self) -> dict[str, dict[int, int]]:
        """Return the next offset of each partition of each topic that is visible so far."""
        return dict(self._ends)

    def close(self) -> None:
        """Stop fetching; the known offsets stay."""
        self._is_closed = True
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait(ENDS_EVERY_S)
            self._changed.clear()
            if self._is_closed:
                return
            try:
                self._ends = {**self._ends, **self._end_offsets.ends(self._topics)}
                self.answered_us = to_micros(dt.datetime.now(dt.UTC))
            except StoreError as error:
                log.warning("broker_unreachable", error=str(error))


class BrokerEnds:
    """End offsets of the topics of jobs, on any number of brokers; thread-safe."""

    def __init__(self) -> None:
        """Prepare without topics to watch."""
        self._ends: dict[Broker, LogEnds] = {}
        self._watched: dict[Hashable, tuple[Broker, frozenset[str]]] = {}
        self._lock = threading.Lock()

    def watch(self, job: Hashable, broker: Broker, topics: Iterable[str]) -> LogEnds:
        """Watch the topics of a job from now on; return the source of their end offsets."""
        with self._lock:
            before = self._watched.get(job)
            self._watched[job] = (broker, frozenset(topics))
            if broker not in self._ends:
                self._ends[broker] = LogEnds(broker)
            self._tell(broker)
            if before is not None and before[0] != broker:
                self._tell(before[0])
            return self._ends[broker]

    def retain(self, jobs: Collection[Hashable]) -> None:
        """Stop watching the topics that only other jobs than these need."""
        with self._lock:
            for job in self._watched.keys() - set(jobs):
                broker, _ = self._watched.pop(job)
                self._tell(broker)

    def _tell(self, broker: Broker) -> None:
        wanted = [topics for at, topics in self._watched.values() if at == broker]
        if wanted:
            self._ends[broker].watch(topic for topics in wanted for topic in topics)
        else:
            self._ends.pop(broker).close()


def _reads_all(_topic: str, _partition: int) -> bool:
    return True


class FeedReader:
    """Tails topics from given offsets and tracks their end offsets.

    A topic that is not visible yet (its broker is down, or it is being created) is retried; nothing
    is lost, because offsets are stored with the data that is written.
    """

    def __init__(self, broker: Broker | str) -> None:
        """Connect lazily to the named brokers."""
        self._log = LogReader(broker, fetch_wait_ms=FETCH_WAIT_MS)
        self._ends = LogEnds(broker)
        self._starts: dict[str, dict[int, int]] = {}
        self._reads: Callable[[str, int], bool] = _reads_all
        self._read: set[str] = set()
        self._wrong: dict[str, str] = {}

    def assign(
        self,
        starts: Mapping[str, Mapping[int, int]],
        *,
        reads: Callable[[str, int], bool] | None = None,
    ) -> None:
        """Read these topics; a partition without a start is read from its beginning.

        A topic that is already being read continues at its position.

        Args:
            starts: The next offset of each partition, by topic.
            reads: Whether to read a partition of a topic; None to read all.
        """
        self._starts = {topic: dict(offsets) for topic, offsets in starts.items()}
        self._reads = reads or _reads_all
        gone = self._read - set(starts)
        if gone:
            remaining = {
                place: at for place, at in self._log.positions.items() if place[0] not in gone
            }
            self._log.assign(remaining)
            self._read -= gone
            self._wrong = {topic: error for topic, error in self._wrong.items() if topic in starts}
        self._ends.watch(starts)

    def restart(self, topic: str) -> None:
        """Read a topic again from the start of its last `assign`."""
        self._read.discard(topic)
        self._wrong.pop(topic, None)
        self._log.assign({p: at for p, at in self._log.positions.items() if p[0] != topic})

    def poll(self, *, max_records: int, timeout_s: float) -> list[Record]:
        """Return the records that have arrived; wait at most `timeout_s` for the first record."""
        if len(self._read) < len(self._starts):
            self._add_seen()
        records = self._log.poll(max_records=max_records, timeout_s=timeout_s)
        for event in self._log.events():
            if event.topic is not None and not event.transient:
                error = f"`{event.topic}` {event.partition}: {event.message}"
                log.warning("topic_cannot_be_read", error=error)
                self._wrong[event.topic] = error
        return records

    def wrong(self, topic: str) -> str | None:
        """Return why a topic cannot be read further (its records are gone); None if it can."""
        return self._wrong.get(topic)

    def _add_seen(self) -> None:
        """Start reading the topics whose partitions are known by now."""
        positions = self._log.positions
        for topic, ends in self._ends.known().items():
            if topic in self._starts and topic not in self._read:
                start = self._starts[topic]
                positions |= {(topic, p): start.get(p, 0) for p in ends if self._reads(topic, p)}
                self._read.add(topic)
        self._log.assign(positions)

    def known(self) -> dict[str, dict[int, int]]:
        """Return the next offset of each partition of each topic that is visible so far."""
        return self._ends.known()

    def close(self) -> None:
        """Close the consumer; it has no state to store."""
        self._ends.close()
        self._log.close()
