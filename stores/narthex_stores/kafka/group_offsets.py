"""The committed offsets of a consumer group, each with a note."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from narthex_stores.kafka.brokers import store_error

NO_GROUP: Final = "narthex-unused"
"""The group of clients that commit nothing: the client library requires a name."""

_Place: TypeAlias = tuple[str, int]


def consumer_group(job: str) -> str:
    """Return the consumer group of the job with that name."""
    return f"narthex.{job}"


@attrs.frozen(kw_only=True)
class CommittedOffset:
    """The next offset to read of a partition.

    Attributes:
        note: The text that was committed with it; empty without one.
    """

    offset: int
    note: str


@attrs.frozen
class GroupOffsets:
    """The committed offsets of the group of a consumer, which assigns its partitions itself.

    The broker accepts a commit from every such consumer; the note tells whose it was.
    """

    _consumer: Consumer

    def read(
        self, places: Iterable[_Place], *, timeout_s: float = 10.0
    ) -> dict[_Place, CommittedOffset]:
        """Return the committed offsets of partitions; a partition without one is missing.

        Raises:
            StoreError: The cluster did not answer in time, or denies access to the group.
        """
        wanted = [TopicPartition(*place) for place in places]
        try:
            found = self._consumer.committed(wanted, timeout=timeout_s)
        except KafkaException as error:
            raise store_error("committed offsets", error.args[0]) from error
        _require_success(found)
        return {
            (one.topic, one.partition): CommittedOffset(offset=one.offset, note=one.metadata or "")
            for one in found
            if one.offset >= 0
        }

    def commit(self, offsets: Mapping[_Place, int], *, note: str) -> None:
        """Commit the next offsets to read; on return, they are durable.

        Raises:
            StoreError: The cluster did not answer, or denies access to the group.
        """
        committed = [TopicPartition(*p, offset, metadata=note) for p, offset in offsets.items()]
        try:
            _require_success(self._consumer.commit(offsets=committed, asynchronous=False) or [])
        except KafkaException as error:
            raise store_error("commit offsets", error.args[0]) from error


def _require_success(partitions: Iterable[TopicPartition]) -> None:
    for one in partitions:
        error = one.error
        if isinstance(error, KafkaError):
            raise store_error(f"offsets of `{one.topic}` {one.partition}", error)
