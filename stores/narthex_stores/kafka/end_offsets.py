"""Read the end offsets of many topics in one request."""

from collections.abc import Iterable
from functools import partial

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from narthex._base import Backoff
from narthex_stores.errors import TransientError
from narthex_stores.kafka.brokers import Broker, client_config, is_transient, store_error

_LOOK_UPS = Backoff(first_s=0.1, greatest_s=0.1)


class _StaleError(Exception):
    """Its arguments: the request, and the cluster's error."""


def _passes(error: Exception) -> bool:
    return isinstance(error, _StaleError) and is_transient(error.args[1])


class EndOffsetReader:
    """Reads the ends of many topics of a cluster; partitions are looked up once."""

    def __init__(self, broker: Broker | str) -> None:
        """Create the reader; the cluster need not be reachable yet."""
        self._admin = AdminClient(client_config(broker))
        self._partitions: dict[str, int] = {}

    def close(self) -> None:
        """End the connections to the cluster, and the threads that serve them."""
        self._admin.__exit__(None, None, None)

    def ends(self, topics: Iterable[str], *, timeout_s: float = 10.0) -> dict[str, dict[int, int]]:
        """Return the offset after the last record of each partition of the existing topics.

        Raises:
            StoreError: The cluster did not answer in time.
        """
        return self._offsets(topics, OffsetSpec.latest(), timeout_s=timeout_s)

    def appended_since(
        self, topics: Iterable[str], instant_ms: int, *, timeout_s: float = 10.0
    ) -> dict[str, int]:
        """Return how many records each of the existing topics got since an instant.

        Args:
            topics: The topics.
            instant_ms: Milliseconds since 1970, compared with the times of records.
            timeout_s: How long each of two requests may take.

        Raises:
            StoreError: The cluster did not answer in time.
        """
        wanted = sorted(set(topics))
        # The ends are read last: a record that is appended in between is counted, not subtracted.
        first = self._offsets(wanted, OffsetSpec.for_timestamp(instant_ms), timeout_s=timeout_s)
        ends = self._offsets(wanted, OffsetSpec.latest(), timeout_s=timeout_s)
        return {
            topic: sum(
                # An offset of -1 means that no record is as young.
                end - start if (start := first.get(topic, {}).get(partition, -1)) >= 0 else 0
                for partition, end in partitions.items()
            )
            for topic, partitions in ends.items()
        }

    def _offsets(
        self, topics: Iterable[str], which: OffsetSpec, *, timeout_s: float
    ) -> dict[str, dict[int, int]]:
        read = partial(self._known_offsets, set(topics), which, timeout_s=timeout_s)
        try:
            return read()
        except _StaleError:
            # A topic was created anew, or a broker has restarted and is not at once the leader of
            # each partition again: look the partitions up again.
            try:
                return _LOOK_UPS.retry(read, may_retry=_passes, within_s=timeout_s)
            except _StaleError as error:
                raise store_error(*error.args) from error

    def _known_offsets(
        self, wanted: set[str], which: OffsetSpec, *, timeout_s: float
    ) -> dict[str, dict[int, int]]:
        """Return the offsets, by what is known of the partitions.

        Raises:
            StoreError: The cluster did not answer in time.
            _StaleError: What is known of a partition is not true any more.
        """
        self._look_up(wanted, timeout_s=timeout_s)
        places = [
            TopicPartition(topic, partition)
            for topic in sorted(wanted & set(self._partitions))
            for partition in range(self._partitions[topic])
        ]
        if not places:
            return {}
        futures = self._admin.list_offsets(dict.fromkeys(places, which), request_timeout=timeout_s)
        found: dict[str, dict[int, int]] = {}
        for place, answer in futures.items():
            try:
                found.setdefault(place.topic, {})[place.partition] = answer.result(timeout_s).offset
            except KafkaException as error:
                self._partitions.pop(place.topic, None)
                raise _StaleError(f"ends of `{place.topic}`", error.args[0]) from error
            except TimeoutError as error:
                raise TransientError(f"ends of `{place.topic}`: no answer") from error
        return found

    def _look_up(self, topics: set[str], *, timeout_s: float) -> None:
        if topics <= set(self._partitions):
            return
        try:
            metadata = self._admin.list_topics(timeout=timeout_s)
        except KafkaException as error:
            raise store_error("list topics", error.args[0]) from error
        for topic in topics:
            described = metadata.topics.get(topic)
            if described is not None and described.error is None and described.partitions:
                self._partitions[topic] = len(described.partitions)
