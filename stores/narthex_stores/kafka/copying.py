"""Copy a topic without some of its content, record by record, so that offsets stay the same.

A topic that is copied for the last time is sealed first: its brokers refuse every further record,
also those of producers that have not heard of it. A copy that was interrupted continues at the
end of its target.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from typing import Final, TypeAlias

import attrs
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from narthex._base import Backoff
from narthex_stores.errors import PermanentError, StoreError, TransientError
from narthex_stores.kafka.brokers import Broker, client_config, store_error
from narthex_stores.kafka.logs import Delivered, LogProducer, LogReader, Record

Rewrite: TypeAlias = Callable[[bytes | None], bytes | None]
"""Returns the value to store in place of a record's value; pure."""

MOST_AT_ONCE: Final = 500
READ_S: Final = 10.0
WRITE_S: Final = 60.0
SEALED_WITHIN_S: Final = 30.0
ALTER_S: Final = 10.0
_SEAL: Final = "max.message.bytes"
_POLL: Final = Backoff(first_s=0.1, greatest_s=1.0)


@attrs.frozen(kw_only=True)
class CopiedLog:
    """A copy at a moment.

    Attributes:
        records: How many records were copied or compared.
        changed: How many of them have another value than the original.
        end: The next offset of the target.
    """

    records: int
    changed: int
    end: int


def seal_topic(broker: Broker | str, topic: str, *, probe: bytes) -> None:
    """Let a topic refuse every further record, and return once it does.

    Args:
        broker: The cluster.
        topic: A topic with one partition.
        probe: The value of a record that readers ignore; it may be appended some times.

    Raises:
        TransientError: The cluster did not answer, or still accepts records.
    """
    admin = AdminClient(client_config(broker))
    entry = ConfigEntry(_SEAL, "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    future = admin.incremental_alter_configs([resource], request_timeout=ALTER_S)[resource]
    try:
        future.result(timeout=ALTER_S + 1)
    except NoAnswer:
        raise TransientError(f"seal `{topic}`: no answer within {ALTER_S:g} s") from None
    except KafkaException as error:
        raise store_error(f"seal `{topic}`", error.args[0]) from error
    with LogProducer(broker) as producer:

        def refuses() -> bool:
            try:
                producer.append(topic, value=probe, partition=0).result(timeout=WRITE_S)
            except PermanentError:
                return True
            return False

        if not _POLL.until(refuses, within_s=SEALED_WITHIN_S):
            raise TransientError(f"`{topic}` still accepts records")


def copy_log(broker: Broker | str, source: str, target: str, rewrite: Rewrite) -> CopiedLog:
    """Append to a topic what it lacks of another one; both have one partition.

    Raises:
        PermanentError: The topics cannot have the same offsets.
        StoreError: The cluster did not answer in time.
    """
    changed = 0
    with LogReader(broker) as reader, LogProducer(broker) as producer:
        start = _end(reader, target)
        first = _first(reader, source)
        end = _end(reader, source)
        if first > start:
            raise PermanentError(
                f"`{source}` begins at offset {first}: its older records are gone, so that a copy "
                "cannot have the same offsets"
            )
        pending: list[tuple[int, Future[Delivered]]] = []
        for record in read_log(reader, source, start, end):
            value = rewrite(record.value)
            changed += value != record.value
            pending.append(
                (
                    record.offset,
                    producer.append(
                        target,
                        value=value,
                        key=record.key,
                        headers=dict(record.headers),
                        partition=0,
                        timestamp_ms=record.timestamp_ms,
                    ),
                )
            )
            if len(pending) >= MOST_AT_ONCE:
                _settle(pending, target)
                pending = []
        _settle(pending, target)
    return CopiedLog(records=end - start, changed=changed, end=end)


def compare_logs(broker: Broker | str, source: str, target: str, rewrite: Rewrite) -> CopiedLog:
    """Read both topics from the beginning, and check that one is the whole copy of the other.

    Raises:
        PermanentError: They differ.
        StoreError: The cluster did not answer in time.
    """
    changed = 0
    with LogReader(broker) as left, LogReader(broker) as right:
        end = _end(left, source)
        if _end(right, target) != end:
            raise PermanentError(f"`{target}` ends at {_end(right, target)}, `{source}` at {end}")
        pairs = zip(read_log(left, source, 0, end), read_log(right, target, 0, end), strict=True)
        for old, new in pairs:
            wanted = rewrite(old.value)
            changed += wanted != old.value
            if (old.offset, wanted, old.key, old.timestamp_ms) != (
                new.offset,
                new.value,
                new.key,
                new.timestamp_ms,
            ):
                raise PermanentError(f"`{target}` differs from `{source}` at offset {old.offset}")
    return CopiedLog(records=end, changed=changed, end=end)


def delete_records(broker: Broker | str, topic: str) -> None:
    """Delete all records that a topic has now.

    Raises:
        StoreError: The cluster did not answer in time.
    """
    admin = AdminClient(client_config(broker))
    with LogReader(broker) as reader:
        ends = reader.end_offsets([topic])
    wanted = [TopicPartition(name, partition, end) for (name, partition), end in ends.items()]
    if not wanted:
        return
    for future in admin.delete_records(wanted, request_timeout=ALTER_S).values():
        try:
            future.result(timeout=ALTER_S + 1)
        except NoAnswer:
            raise TransientError(f"delete records of `{topic}`: no answer") from None
        except KafkaException as error:
            raise store_error(f"delete records of `{topic}`", error.args[0]) from error


def read_log(
    reader: LogReader, topic: str, start: int, end: int, *, partition: int = 0
) -> Iterator[Record]:
    """Yield the records of a partition from one offset until another.

    Raises:
        TransientError: The cluster did not answer in time.
    """
    if start >= end:
        return
    reader.assign({(topic, partition): start})
    at = start
    while at < end:
        records = reader.poll(max_records=MOST_AT_ONCE, timeout_s=READ_S)
        if not records:
            raise TransientError(f"`{topic}` was not read to its end within {READ_S:g} s")
        for record in records:
            at = record.offset + 1
            if record.offset < end:
                yield record


def _settle(pending: Sequence[tuple[int, "Future[Delivered]"]], topic: str) -> None:
    for wanted, future in pending:
        delivered = future.result(timeout=WRITE_S)
        if delivered.offset != wanted:
            raise PermanentError(
                f"`{topic}` stored at offset {delivered.offset} what belongs at {wanted}"
            )


def _end(reader: LogReader, topic: str) -> int:
    return _bounds(reader.end_offsets([topic]), topic)


def _first(reader: LogReader, topic: str) -> int:
    return _bounds(reader.first_offsets([topic]), topic)


def _bounds(found: dict[tuple[str, int], int], topic: str) -> int:
    if set(found) != {(topic, 0)}:
        raise StoreError(f"`{topic}` has {len(found)} partitions, not one")
    return found[topic, 0]
