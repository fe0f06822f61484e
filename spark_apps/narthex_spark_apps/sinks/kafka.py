"""A sink into a topic: Debezium envelopes as JSON, and an empty record after each delete.

All changes of one call are one Kafka transaction. Its id belongs to the sink, so the broker refuses
a run that was taken over, and a reader of committed records never sees half of it. After a crash
the last transaction may be in the topic twice, with the same envelopes in the same order: the
newest record of a key is its current state, and a compacted topic keeps just that record.
"""

from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer
from typing_extensions import override

from narthex._ir import KafkaTopic, SinkJobSpec
from narthex.settings import Settings
from narthex_spark_apps.platform.author_brokers import broker_of
from narthex_spark_apps.sinks.changes import Op, RowChange
from narthex_spark_apps.sinks.envelopes import as_json, envelope, key_of_change
from narthex_spark_apps.sinks.sink_stage import SinkFailedError, Target
from narthex_stores import GREATEST_RECORD_BYTES, Broker

TIMEOUT_S = 30.0
_POLL_S = 0.1


class KafkaSink(Target):
    """The producer of one sink; created at the first write."""

    def __init__(self, broker: Broker, *, topic: str, name: str, spec: SinkJobSpec) -> None:
        """Write to a topic under the transactional id `name`, which only this sink uses."""
        self._broker = broker
        self._topic = topic
        self._name = name
        self._spec = spec
        self._producer: Producer | None = None

    @override
    def claim(self) -> None:
        """Take over the transactional id; the transaction of another run is aborted."""
        try:
            self._open()
        except KafkaException as error:
            raise SinkFailedError(f"`{self._topic}`: {error.args[0].str()}") from error

    @override
    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        """Write the changes in one transaction."""
        del mark  # the broker refuses a run that was taken over, by the producer's own epoch
        try:
            producer = self._open()
            producer.begin_transaction()
            for change in changes:
                self._tell(producer, change)
            producer.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            # A failed producer cannot continue; the next one aborts its transaction.
            self._producer = None
            raise SinkFailedError(f"`{self._topic}`: {error.args[0].str()}") from error

    def _open(self) -> Producer:
        if self._producer is None:
            producer = Producer(
                self._broker.config()
                | {
                    "transactional.id": self._name,
                    "partitioner": "murmur2_random",
                    "compression.type": "lz4",
                    "message.max.bytes": GREATEST_RECORD_BYTES,
                    "linger.ms": 5,
                    "log_level": 0,
                }
            )
            producer.init_transactions(TIMEOUT_S)
            self._producer = producer
        return self._producer

    def _tell(self, producer: Producer, change: RowChange) -> None:
        key = as_json(key_of_change(change, self._spec))
        self._produce(producer, key, as_json(envelope(change, self._spec)))
        if change.op is Op.DELETED:
            self._produce(producer, key, None)

    def _produce(self, producer: Producer, key: bytes, value: bytes | None) -> None:
        while True:
            try:
                producer.produce(self._topic, value, key)
            except BufferError:
                producer.poll(_POLL_S)
            else:
                producer.poll(0)
                return

    @override
    def close(self) -> None:
        """Close the producer; readers do not see an uncommitted transaction."""
        self._producer = None


def open_target(spec: SinkJobSpec, *, name: str, settings: Settings) -> KafkaSink:
    """Open the target of a sink.

    Raises:
        TypeError: The sink has another kind of target.
        SecretMissing: A secret is missing.
        SecretWithheld: The server is not allowed to receive a secret.
    """
    target = spec.sink.target
    if not isinstance(target, KafkaTopic):
        raise TypeError("not a topic")
    broker = broker_of(target, settings)
    return KafkaSink(broker, topic=target.topic, name=name, spec=spec)
