"""How Kafka's client is set up, and what its errors mean to us."""

from confluent_kafka import KafkaError

from narthex_stores.errors import PermanentError, StoreError, TransientError

GREATEST_RECORD_BYTES = 16 * 1024 * 1024
"""What one record's value may hold: one accepted call to `/log`."""

GREATEST_MESSAGE_BYTES = GREATEST_RECORD_BYTES + 1024 * 1024
"""The same with room for the key, the headers and the batch around them."""

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
        # A partition that was just made, or whose leader has just changed: the next answer knows.
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
    }
)


def client_config(bootstrap_servers: str) -> dict[str, str | int | float | bool]:
    """Give what every client of a cluster is set up with.

    What goes wrong is said by errors and events; the client itself prints nothing.
    """
    return {
        "bootstrap.servers": bootstrap_servers,
        "log_level": 0,
        "log.connection.close": False,
        "allow.auto.create.topics": False,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 2000,
        "socket.keepalive.enable": True,
    }


def is_transient(error: KafkaError) -> bool:
    """Tell whether the same call may succeed later with nobody changing anything."""
    return bool(error.retriable()) or error.name() in _TRANSIENT


def store_error(what: str, error: KafkaError) -> StoreError:
    """Give our error for one of the client's."""
    said = f"{what}: {error.name()}: {error.str()}"
    return TransientError(said) if is_transient(error) else PermanentError(said)
