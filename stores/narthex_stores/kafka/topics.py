"""Create, find and remove Kafka topics."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from typing import TypeVar

import attrs
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from narthex._base import Backoff
from narthex._ir import AssetKind, AssetSpec, TopicRole, TopicSpec
from narthex_stores.adapters.directories import checked_name
from narthex_stores.adapters.protocol import Absent, Listed, Match, Mismatch, Probe, Unknown
from narthex_stores.errors import ForeignAssetError, PermanentError, StoreError, TransientError
from narthex_stores.kafka.brokers import GREATEST_MESSAGE_BYTES, Broker, client_config, store_error

_MARGIN_S = 1.0
"""How long to wait for an answer beyond the client's own timeout."""

_POLL = Backoff(first_s=0.02, greatest_s=0.2)
"""The interval between two polls of the brokers' metadata."""

_T = TypeVar("_T")


@attrs.frozen
class _Found:
    topic_id: str
    partitions: int


def topic_config(spec: TopicSpec) -> dict[str, str]:
    """Return the topic-level configuration of a spec, for creation and for comparison."""
    config = {
        "cleanup.policy": "delete",
        "retention.ms": str(-1 if spec.retention_ms is None else spec.retention_ms),
        "retention.bytes": "-1",
        # Batches keep their producer's compression, so the broker does not recompress them.
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
    }
    if spec.role in {TopicRole.INGEST, TopicRole.QUARANTINE}:
        config["max.message.bytes"] = str(GREATEST_MESSAGE_BYTES)
    return config


@attrs.frozen
class TopicAdapter:
    """The topics of one cluster; Kafka cannot carry a mark, so only the ledger has their owners."""

    admin: AdminClient

    @classmethod
    def connect(cls, broker: Broker | str) -> "TopicAdapter":
        """Return the adapter of a cluster, which need not be reachable yet."""
        return cls(AdminClient(client_config(broker)))

    @property
    def kind(self) -> AssetKind:
        """The kind of asset that the adapter handles."""
        return AssetKind.KAFKA_TOPIC

    def probe(self, name: str, spec: AssetSpec, *, timeout_s: float) -> Probe:
        """Probe the topic of that name."""
        wanted = _topic_spec(name, spec)
        try:
            found = self._found([name], timeout_s=timeout_s / 2).get(name)
            if found is None:
                return Absent()
            config = self.config(name, timeout_s=timeout_s / 2)
            if config is None:
                return Absent()
        except StoreError as error:
            return Unknown(str(error))
        if difference := _difference(wanted, found, config):
            return Mismatch(difference)
        return Match(found.topic_id)

    def create(self, name: str, spec: AssetSpec, *, asset_id: int, timeout_s: float) -> None:
        """Create the topic, unless the name is taken."""
        del asset_id
        wanted = _topic_spec(name, spec)
        topic = NewTopic(
            checked_name(name), num_partitions=wanted.partitions, config=topic_config(wanted)
        )
        futures = self.admin.create_topics(
            [topic], operation_timeout=timeout_s / 2, request_timeout=timeout_s * 3 / 4
        )
        _answer(
            futures[name],
            what=f"create `{name}`",
            timeout_s=timeout_s * 3 / 4,
            unless=KafkaError.TOPIC_ALREADY_EXISTS,
        )
        self._wait(name, lambda found: found is not None, timeout_s=timeout_s / 4)

    def destroy(self, name: str, *, external_id: str | None, timeout_s: float) -> None:
        """Remove the topic with that id."""
        found = self._found([checked_name(name)], timeout_s=timeout_s / 4).get(name)
        if found is None:
            return
        if external_id is not None and found.topic_id != external_id:
            raise ForeignAssetError(f"`{name}` is `{found.topic_id}`, not `{external_id}`")
        futures = self.admin.delete_topics(
            [name], operation_timeout=timeout_s / 4, request_timeout=timeout_s / 2
        )
        _answer(
            futures[name],
            what=f"destroy `{name}`",
            timeout_s=timeout_s / 2,
            unless=KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        self._wait(
            name,
            lambda now: now is None or now.topic_id != found.topic_id,
            timeout_s=timeout_s / 4,
        )

    def list(self, prefix: str, *, timeout_s: float) -> tuple[Listed, ...]:
        """List the topics whose names have the prefix."""
        try:
            metadata = self.admin.list_topics(timeout=timeout_s / 2)
        except KafkaException as error:
            raise store_error("list topics", error.args[0]) from error
        names = sorted(name for name in metadata.topics if name.startswith(prefix))
        found = self._found(names, timeout_s=timeout_s / 2)
        return tuple(
            Listed(name=name, external_id=found[name].topic_id, asset_id=None)
            for name in names
            # A topic deleted since the listing is left out, as in a later listing.
            if name in found
        )

    def _found(self, names: Sequence[str], *, timeout_s: float) -> dict[str, _Found]:
        if not names:
            return {}
        futures = self.admin.describe_topics(
            TopicCollection([checked_name(name) for name in names]), request_timeout=timeout_s
        )
        found = {}
        for name, future in futures.items():
            topic = _answer(
                future,
                what=f"describe `{name}`",
                timeout_s=timeout_s,
                unless=KafkaError.UNKNOWN_TOPIC_OR_PART,
            )
            if topic is not None:
                found[name] = _Found(str(topic.topic_id), len(topic.partitions))
        return found

    def config(self, name: str, *, timeout_s: float) -> dict[str, str] | None:
        """Return the configuration of a topic of any owner; None if it does not exist.

        Raises:
            StoreError: The cluster did not answer in time.
        """
        resource = ConfigResource(ResourceType.TOPIC, name)
        futures = self.admin.describe_configs([resource], request_timeout=timeout_s)
        entries = _answer(
            futures[resource],
            what=f"describe `{name}`",
            timeout_s=timeout_s,
            unless=KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        if entries is None:
            return None
        return {entry.name: str(entry.value) for entry in entries.values()}

    def _wait(
        self, name: str, settled: Callable[[_Found | None], bool], *, timeout_s: float
    ) -> None:
        """Wait until the brokers' metadata shows the controller's change."""

        def is_settled() -> bool:
            return settled(self._found([name], timeout_s=timeout_s).get(name))

        if not _POLL.until(is_settled, within_s=timeout_s):
            raise TransientError(f"the brokers do not report the new state of `{name}`")


def _answer(
    future: "Future[_T]", *, what: str, timeout_s: float, unless: int | None = None
) -> _T | None:
    """Wait for an answer; return None when the broker refused with the code `unless`."""
    try:
        return future.result(timeout=timeout_s + _MARGIN_S)
    except NoAnswer:
        raise TransientError(f"{what}: no answer within {timeout_s:g} s") from None
    except KafkaException as error:
        refusal: KafkaError = error.args[0]
        if refusal.code() == unless:
            return None
        raise store_error(what, refusal) from error


def _topic_spec(name: str, spec: AssetSpec) -> TopicSpec:
    if isinstance(spec, TopicSpec):
        return spec
    raise PermanentError(f"`{name}` is not a topic: {type(spec).__name__}")


def _difference(wanted: TopicSpec, found: _Found, config: Mapping[str, str]) -> str:
    differences = []
    if found.partitions != wanted.partitions:
        differences.append(f"{found.partitions} partitions, not {wanted.partitions}")
    differences += [
        f"{key} is {config.get(key)}, not {value}"
        for key, value in topic_config(wanted).items()
        if config.get(key) != value
    ]
    return "; ".join(differences)


def is_compacted(broker: Broker | str, topic: str, *, timeout_s: float = 10.0) -> bool:
    """Whether a topic of any owner is compacted; false for one that does not exist.

    Raises:
        StoreError: The cluster did not answer in time.
    """
    config = TopicAdapter.connect(broker).config(topic, timeout_s=timeout_s)
    return config is not None and "compact" in config["cleanup.policy"].split(",")
