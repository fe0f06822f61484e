"""Sends events to a deployment: facts to logs, and records to the topics of sources."""

from collections import Counter
from collections.abc import Sequence

import attrs
from confluent_kafka import Producer

from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes
from narthex._ir.assets import LogShape
from narthex_stores import LogProducer
from tests.differential.deploying import Deployment
from tests.differential.locating import Event, GivenFacts, SentRecord


@attrs.frozen(kw_only=True)
class EventSender:
    """Sends events to the logs and the topics that all deployments of a project share."""

    _logs: LogProducer
    _topics: Producer

    @classmethod
    def of(cls, bootstrap: str, logs: LogProducer) -> "EventSender":
        """Return a sender that appends facts with the producer `logs`."""
        topics = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        return cls(logs=logs, topics=topics)

    def send(self, deployment: Deployment, events: Sequence[Event], counts: Counter[str]) -> None:
        """Send events in order, and count their rows; `flush` waits for them."""
        for event in events:
            match event:
                case GivenFacts():
                    counts["given facts"] += len(event.facts)
                    self._append(deployment, event)
                case SentRecord():
                    counts["sent rows"] += event.rows
                    topic = deployment.ingest(event.dataset)
                    self._topics.produce(topic, event.value, partition=event.partition)

    def _append(self, deployment: Deployment, event: GivenFacts) -> None:
        topic, spec = deployment.log(event.dataset)
        codec = fact_codec(spec)
        for fact in event.facts:
            is_row = spec.shape is LogShape.ROWS
            key = fact.row_id if is_row else key_bytes(spec.keys, fact.key)
            self._logs.post(topic, key=key, value=codec.encode(fact))

    def flush(self) -> None:
        """Wait until the broker has all that was sent."""
        self._logs.flush()
        self._topics.flush()
