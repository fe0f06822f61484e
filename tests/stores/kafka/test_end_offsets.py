"""The ends of topics, and the records that they got since an instant."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from narthex_stores import EndOffsetReader, StoreError

pytestmark = pytest.mark.kafka

T0_MS = 1_700_000_000_000


def filled(bootstrap: str, topic: str, times_ms: dict[int, list[int]]) -> None:
    """Create a topic with a record for each time, by partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=3, replication_factor=1)
    admin.create_topics([new])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, times in times_ms.items():
        for at in times:
            producer.produce(topic, b"x", partition=partition, timestamp=at)
    assert producer.flush(30) == 0


def test_records_are_counted_from_an_instant_on(kafka_bootstrap: str) -> None:
    filled(
        kafka_bootstrap,
        "ends_counted",
        {0: [T0_MS, T0_MS + 1000, T0_MS + 2000], 1: [T0_MS + 1500, T0_MS + 500]},
    )
    reader = EndOffsetReader(kafka_bootstrap)

    assert reader.ends(["ends_counted"]) == {"ends_counted": {0: 3, 1: 2, 2: 0}}
    for since_ms, count in ((T0_MS - 1, 5), (T0_MS, 5), (T0_MS + 1000, 4), (T0_MS + 9000, 0)):
        assert reader.appended_since(["ends_counted"], since_ms) == {"ends_counted": count}


def test_a_topic_that_does_not_exist_is_left_out(kafka_bootstrap: str) -> None:
    assert EndOffsetReader(kafka_bootstrap).appended_since(["ends_missing"], T0_MS) == {}


def test_a_broker_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(StoreError):
        EndOffsetReader("127.0.0.1:1").appended_since(["any"], T0_MS, timeout_s=1.0)
