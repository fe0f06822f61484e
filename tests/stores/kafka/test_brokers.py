"""Transient refusals of a cluster are distinguished from permanent ones."""

import pytest
from confluent_kafka import KafkaError

from narthex_stores import PermanentError, TransientError
from narthex_stores.kafka.brokers import store_error


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._TRANSPORT,  # noqa: SLF001 (so the client names its own errors)
    ],
)
def test_a_partition_or_a_group_without_a_leader_is_retried(code: int) -> None:
    assert isinstance(store_error("ends of `t`", KafkaError(code)), TransientError)


def test_a_topic_that_may_not_be_read_stays_so() -> None:
    refused = store_error("ends of `t`", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    assert isinstance(refused, PermanentError)
