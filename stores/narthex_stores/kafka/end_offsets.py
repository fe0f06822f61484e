"""Read the end offsets of many topics in one request."""

from collections.abc import Iterable

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from narthex_stores.errors import TransientError
from narthex_stores.kafka.brokers import Broker, client_config, store_error


class _StaleError(Exception):
    """Its arguments: the request, and the cluster's error."""


class EndOffsetReader:
    """Reads the end offsets of many topics of a cluster; partitions are looked up once."""

    def __init__(self, broker: Broker | str) -> None:
        """Create the reader; the cluster need not be reachable yet."""
        self._admin = AdminClient(client_config(broker))
        self._partitions: dict[str, int] = {}

    def ends(self, topics: Iterable[str], *, timeout_s: float = 10.0) -> dict[str, dict[int, int]]:
        """Return the offset after the last record of each partition of the existing topics.

        Raises:
            StoreError: The cluster did not answer in time.
        """
        wanted = set(topics)
        try:
            return self._ends(wanted, timeout_s=timeout_s)
        except _StaleError:
            # A broker has restarted, or a topic was created anew: look the partitions up again.
            try:
                return self._ends(wanted, timeout_s=timeout_s)
            except _StaleError as error:
                raise store_error(*error.args) from error

    def _ends(self, wanted: set[str], *, timeout_s: float) -> dict[str, dict[int, int]]:
        """Return the ends, by what is known of the partitions.

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
        latest = OffsetSpec.latest()
        futures = self._admin.list_offsets(dict.fromkeys(places, latest), request_timeout=timeout_s)
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
