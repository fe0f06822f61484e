"""Configure the Kafka client and convert its errors."""

from typing import Final

import attrs
from confluent_kafka import KafkaError

from narthex.settings import Settings
from narthex_stores.errors import PermanentError, StoreError, TransientError

GREATEST_RECORD_BYTES = 16 * 1024 * 1024
"""The maximum size of a record's value: one accepted call to `/log`."""

GREATEST_MESSAGE_BYTES = GREATEST_RECORD_BYTES + 1024 * 1024
"""The maximum size of a record, with room for the key, the headers and the batch."""

_TRANSIENT = frozenset(
    {
        "_TRANSPORT",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_MSG_TIMED_OUT",
        "_QUEUE_FULL",
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_PURGE_QUEUE",
        "_PURGE_INFLIGHT",
        # The partition is new or its leader has just changed; a retry finds the leader.
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "FENCED_LEADER_EPOCH",
        # The broker that has the offsets of a group is starting, or has just changed.
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "UNKNOWN_LEADER_EPOCH",
    }
)


SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The SASL mechanisms that clients and Spark have built in."""


@attrs.frozen(kw_only=True)
class Broker:
    """The address of a cluster, and how to authenticate with it.

    Attributes:
        bootstrap: Addresses of the cluster.
        protocol: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        mechanism: One of `SASL_MECHANISMS`, where the protocol has SASL.
        ca_file: The CA that signs the brokers' certificates; empty uses the machine's CAs.
    """

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = attrs.field(default="", repr=False)
    password: str = attrs.field(default="", repr=False)
    ca_file: str = ""

    def config(self) -> dict[str, str]:
        """Return the settings for librdkafka."""
        options = {"bootstrap.servers": self.bootstrap}
        if self.protocol != "PLAINTEXT":
            options["security.protocol"] = self.protocol
        if self.protocol.startswith("SASL"):
            options |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        if self.protocol.endswith("SSL") and self.ca_file:
            options["ssl.ca.location"] = self.ca_file
        return options


def platform_broker(settings: Settings) -> Broker:
    """Return the broker of the platform's own topics."""
    layers = ("SASL" if settings.kafka_user else "", "SSL" if settings.kafka_tls else "PLAINTEXT")
    return Broker(
        bootstrap=settings.kafka,
        protocol="_".join(filter(None, layers)),
        mechanism=settings.kafka_mechanism,
        username=settings.kafka_user,
        password=settings.kafka_password,
        ca_file=settings.ca_file,
    )


def client_config(broker: Broker | str) -> dict[str, str | int | float | bool]:
    """Return the settings that every client of a cluster shares.

    The broker may be given by its addresses alone. Failures are reported as errors and events; the
    client itself prints nothing.
    """
    known = Broker(bootstrap=broker) if isinstance(broker, str) else broker
    return {
        **known.config(),
        "log_level": 0,
        "log.connection.close": False,
        "allow.auto.create.topics": False,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 2000,
        "socket.keepalive.enable": True,
    }


def is_fatal(error: KafkaError) -> bool:
    """Return whether the client is unusable after this error; a new client may still work."""
    return bool(error.fatal()) or error.name() == "_FATAL"


def is_transient(error: KafkaError) -> bool:
    """Return whether the same call may succeed later without any change."""
    return bool(error.retriable()) or is_fatal(error) or error.name() in _TRANSIENT


def store_error(what: str, error: KafkaError) -> StoreError:
    """Convert an error of the client library to our own."""
    text = f"{what}: {error.name()}: {error.str()}"
    return TransientError(text) if is_transient(error) else PermanentError(text)
