"""Append to topics and read them, for the server and the writers."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeAlias

import attrs
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka import Producer as KafkaProducer

from narthex_stores.errors import StoreError, TransientError
from narthex_stores.kafka.brokers import (
    GREATEST_MESSAGE_BYTES,
    Broker,
    client_config,
    is_fatal,
    is_transient,
    store_error,
)
from narthex_stores.kafka.group_offsets import NO_GROUP, GroupOffsets

Headers: TypeAlias = tuple[tuple[str, bytes], ...]
PartitionKey: TypeAlias = tuple[str, int]
"""A topic and one of its partitions."""

_EVENTS_KEPT = 256
_POLL_S = 0.1


@attrs.frozen
class Delivered:
    """The position of a record that all required replicas have."""

    partition: int
    offset: int


@attrs.frozen(kw_only=True)
class LogEvent:
    """A condition that a client of the broker reported and handles by itself.

    Attributes:
        code: The client's name for it, such as `_ALL_BROKERS_DOWN`.
        transient: False when it will not clear by itself, such as an offset that is gone.
    """

    code: str
    message: str
    topic: str | None
    partition: int | None
    transient: bool


@attrs.frozen
class Record:
    """One record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class _Events:
    """The newest events, until they are taken; any thread may add."""

    def __init__(self) -> None:
        self._kept: deque[LogEvent] = deque(maxlen=_EVENTS_KEPT)

    def add(
        self, error: KafkaError, *, topic: str | None = None, partition: int | None = None
    ) -> None:
        self._kept.append(
            LogEvent(
                code=str(error.name()),
                message=str(error.str()),
                topic=topic,
                partition=partition,
                transient=is_transient(error),
            )
        )

    def take(self) -> tuple[LogEvent, ...]:
        taken = []
        while self._kept:
            taken.append(self._kept.popleft())
        return tuple(taken)


class LogProducer:
    """Appends records to topics; one per process, shared by its threads.

    Records of one partition are stored in the order of the calls, each once even when the client
    resends it. A client that can't guarantee this any more, for example because the broker lost
    its producer state, is replaced: records that it had not delivered may or may not be durable.
    """

    def __init__(self, broker: Broker | str, *, linger_ms: float = 1.0) -> None:
        """Create the producer; the cluster need not be reachable yet.

        Args:
            broker: The cluster, or its addresses.
            linger_ms: How long a record may wait for others to share a batch with.
        """
        self._events = _Events()
        self._config = client_config(broker) | {
            "acks": "all",
            "enable.idempotence": True,
            # The JVM client's partitioner, so that all clients map a key to the same partition.
            "partitioner": "murmur2_random",
            "linger.ms": linger_ms,
            "compression.type": "lz4",
            "message.max.bytes": GREATEST_MESSAGE_BYTES,
            "delivery.timeout.ms": 30_000,
            "error_cb": self._events.add,
        }
        self._client = KafkaProducer(self._config)
        self._replacing = threading.RLock()  # a callback may append
        self._refused: deque[StoreError] = deque(maxlen=1)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="log-producer", daemon=True)
        self._thread.start()

    def append(
        self,
        topic: str,
        *,
        value: bytes | None,
        key: bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        partition: int | None = None,
        timestamp_ms: int = 0,
    ) -> "Future[Delivered]":
        """Append a record; the future completes once the record is durable, or has failed.

        Its exception is a TransientError when the record may or may not be durable, a
        PermanentError when the broker refuses it. The producer's thread sets the result: an event
        loop awaits `asyncio.wrap_future` of it.

        Args:
            topic: Must exist.
            value: The payload.
            key: Records of one key go to one partition.
            headers: Names and values.
            partition: The partition; chosen by the key when not given.
            timestamp_ms: The time of the record, from the epoch; 0 is now.
        """
        delivered: Future[Delivered] = Future()
        delivered.set_running_or_notify_cancel()
        # For the client, -1 means: by the key.
        to = -1 if partition is None else partition
        done = self._delivery(topic, delivered)
        while not self._closing.is_set():
            client = self._client
            try:
                client.produce(
                    topic,
                    value,
                    key,
                    to,
                    on_delivery=done,
                    timestamp=timestamp_ms,
                    headers=dict(headers or {}),
                )
            except BufferError:
                # The client's queue is full: wait until the broker has accepted some records.
                self._poll()
            except KafkaException as error:
                if is_fatal(error.args[0]):
                    self._replace(client, error.args[0])
                    continue
                delivered.set_exception(store_error(f"append to `{topic}`", error.args[0]))
                return delivered
            else:
                return delivered
        delivered.set_exception(TransientError(f"append to `{topic}`: the producer is closed"))
        return delivered

    def post(self, topic: str, *, value: bytes | None, key: bytes | None) -> None:
        """Append one of many records; only `flush` reports whether they are durable.

        Raises:
            StoreError: The client refuses it: it is too large, or the producer is closed.
        """
        while not self._closing.is_set():
            client = self._client
            try:
                client.produce(topic, value, key, on_delivery=self._posted)
            except BufferError:
                self._poll()
            except KafkaException as error:
                if is_fatal(error.args[0]):
                    self._replace(client, error.args[0])
                    continue
                raise store_error(f"append to `{topic}`", error.args[0]) from error
            else:
                return
        raise TransientError(f"append to `{topic}`: the producer is closed")

    def _posted(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(store_error(f"append to `{message.topic()}`", error))

    def flush(self, *, timeout_s: float = 30.0) -> None:
        """Wait until all appended records are durable.

        Raises:
            StoreError: A record since the last flush failed; this is the newest failure.
            TransientError: Some records are still in flight.
        """
        left = self._flush(timeout_s)
        refused = list(self._refused)
        self._refused.clear()
        if refused:
            raise refused[-1]
        if left:
            raise TransientError(f"{left} records are not acknowledged after {timeout_s:g} s")

    def events(self) -> tuple[LogEvent, ...]:
        """Take the events since the last call."""
        return self._events.take()

    def close(self, *, timeout_s: float = 5.0) -> None:
        """Wait for records in flight, at most for the timeout, and close."""
        self._flush(timeout_s)
        self._closing.set()
        self._thread.join()
        self._client.purge()
        self._flush(_POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _delivery(
        self, topic: str, delivered: "Future[Delivered]"
    ) -> Callable[[KafkaError | None, Message], None]:
        def done(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered.set_result(Delivered(int(message.partition()), int(message.offset())))
            else:
                failure = store_error(f"append to `{topic}`", error)
                self._refused.append(failure)
                delivered.set_exception(failure)

        return done

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._poll()

    def _poll(self) -> None:
        client = self._client
        try:
            client.poll(_POLL_S)
        except KafkaException as error:
            self._replace(client, error.args[0])

    def _flush(self, timeout_s: float) -> int:
        """Wait for records in flight; return how many are left after the timeout."""
        while True:
            with self._replacing:  # the records of a client that is replaced are reported first
                client = self._client
            try:
                left = int(client.flush(timeout_s))
            except KafkaException as error:
                self._replace(client, error.args[0])
                continue
            with self._replacing:
                if client is self._client:
                    return left

    def _replace(self, client: KafkaProducer, why: KafkaError) -> None:
        """Replace a client that cannot deliver records any more."""
        with self._replacing:
            if self._client is not client:
                return
            self._events.add(why)
            self._client = KafkaProducer(self._config)
            client.purge()
            # The client reports each of its remaining records as not delivered.
            while len(client):
                with contextlib.suppress(KafkaException):
                    client.poll(_POLL_S)


class LogReader:
    """Reads assigned partitions from given offsets; for one thread.

    It never commits offsets by itself: the caller stores them with the applied records, or commits
    them to a group. The reader waits for a topic that does not exist yet or a broker that does not
    answer, and reports it in `events`.
    """

    def __init__(
        self,
        broker: Broker | str,
        starts: Mapping[PartitionKey, int] | None = None,
        *,
        fetch_wait_ms: int = 5,
        group: str = NO_GROUP,
    ) -> None:
        """Start to read; the cluster need not be reachable yet.

        Args:
            broker: The cluster, or its addresses.
            starts: For each partition, the offset of the first record to read.
            fetch_wait_ms: How long the broker may delay an answer while it has no records.
            group: The group whose offsets the caller commits.
        """
        self._events = _Events()
        self._consumer = Consumer(
            client_config(broker)
            | {
                # Partitions are assigned explicitly, and no consumer joins the group.
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                # An offset that is gone is an event; lost records are never skipped silently.
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": fetch_wait_ms,
                "fetch.min.bytes": 1,
                "fetch.error.backoff.ms": 50,
                "fetch.message.max.bytes": GREATEST_MESSAGE_BYTES,
                "receive.message.max.bytes": 4 * GREATEST_MESSAGE_BYTES,
                "queued.max.messages.kbytes": 32 * 1024,
                "topic.metadata.refresh.interval.ms": 5000,
                "topic.metadata.propagation.max.ms": 0,
                "isolation.level": "read_uncommitted",
                "error_cb": self._events.add,
            }
        )
        self._places: dict[PartitionKey, int] = {}
        self.assign(starts or {})

    @property
    def group_offsets(self) -> GroupOffsets:
        """The committed offsets of the reader's group; for the thread of the reader."""
        return GroupOffsets(self._consumer)

    @property
    def positions(self) -> dict[PartitionKey, int]:
        """For each assigned partition, the offset to resume from."""
        return dict(self._places)

    def assign(self, starts: Mapping[PartitionKey, int]) -> None:
        """Read exactly these partitions from now on, each from that offset.

        A partition that is at its offset already is not interrupted; to add partitions, pass
        `positions` plus the new ones.
        """
        gone = [place for place, at in self._places.items() if starts.get(place) != at]
        new = {place: at for place, at in starts.items() if self._places.get(place) != at}
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in gone])
        if new:
            self._consumer.incremental_assign(
                [TopicPartition(*place, offset) for place, offset in new.items()]
            )
        self._places = dict(starts)

    def poll(self, *, max_records: int, timeout_s: float) -> list[Record]:
        """Return the next records: at once when there are some, else none after the timeout.

        Records of one partition arrive in the order of their offsets, without gap or repetition.
        """
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        more = self._consumer.consume(max_records - 1, 0) if max_records > 1 else []
        records = [
            record for message in (first, *more) if (record := self._record(message)) is not None
        ]
        for record in records:
            self._places[record.topic, record.partition] = record.offset + 1
        return records

    def _record(self, message: Message) -> Record | None:
        topic, partition = str(message.topic()), message.partition()
        error = message.error()
        if error is not None:
            self._events.add(error, topic=topic, partition=partition)
            return None
        if (topic, partition) not in self._places:
            return None
        return Record(
            topic,
            partition,
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
        )

    def events(self) -> tuple[LogEvent, ...]:
        """Take the events since the last call."""
        return self._events.take()

    def partitions(self, topic: str, *, timeout_s: float = 10.0) -> int:
        """Return the number of partitions of a topic; 0 when it does not exist.

        Raises:
            TransientError: The cluster did not answer in time.
        """
        try:
            metadata = self._consumer.list_topics(topic, timeout=timeout_s)
        except KafkaException as error:
            raise store_error(f"describe `{topic}`", error.args[0]) from error
        found = metadata.topics.get(topic)
        return 0 if found is None or found.error is not None else len(found.partitions)

    def end_offsets(
        self, topics: Iterable[str], *, timeout_s: float = 10.0
    ) -> dict[PartitionKey, int]:
        """Return the offset after the last record of each partition of the existing topics.

        Raises:
            TransientError: The cluster did not answer in time.
        """
        return self._ends(topics, timeout_s=timeout_s, which=1)

    def first_offsets(
        self, topics: Iterable[str], *, timeout_s: float = 10.0
    ) -> dict[PartitionKey, int]:
        """Return the offset of the first retained record of each partition of the topics.

        Raises:
            TransientError: The cluster did not answer in time.
        """
        return self._ends(topics, timeout_s=timeout_s, which=0)

    def offsets_since(
        self, topic: str, *, since_ms: int, timeout_s: float = 10.0
    ) -> dict[int, int]:
        """Return, by partition, the offset of the first record that the log received since then.

        Where there is none, it is the offset after the last record.

        Raises:
            TransientError: The cluster did not answer in time.
        """
        ends = self.end_offsets([topic], timeout_s=timeout_s)
        asked = [TopicPartition(name, partition, since_ms) for name, partition in ends]
        try:
            found = self._consumer.offsets_for_times(asked, timeout=timeout_s)
        except KafkaException as error:
            raise store_error(f"offsets of `{topic}`", error.args[0]) from error
        return {
            place.partition: place.offset if place.offset >= 0 else ends[topic, place.partition]
            for place in found
        }

    def _ends(
        self, topics: Iterable[str], *, timeout_s: float, which: int
    ) -> dict[PartitionKey, int]:
        found = {}
        for topic in topics:
            for partition in range(self.partitions(topic, timeout_s=timeout_s)):
                try:
                    ends = self._consumer.get_watermark_offsets(
                        TopicPartition(topic, partition), timeout=timeout_s
                    )
                except KafkaException as error:
                    raise store_error(f"ends of `{topic}`", error.args[0]) from error
                if ends is None:
                    raise TransientError(f"ends of `{topic}`: no answer within {timeout_s:g} s")
                found[topic, partition] = int(ends[which])
        return found

    def close(self) -> None:
        """Close the reader and forget its positions."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
