"""The ends of topics, and the records that they got since an instant."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

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


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, *, times: int) -> None:
    """Let the cluster refuse the next requests for offsets with an error."""
    left = [KafkaException(KafkaError(getattr(KafkaError, name)))] * times
    asked = AdminClient.list_offsets

    def list_offsets(
        self: AdminClient, places: dict[TopicPartition, OffsetSpec], **options: float
    ) -> dict[TopicPartition, Future[Any]]:
        if not left:
            return asked(self, places, **options)
        answer: Future[Any] = Future()
        answer.set_exception(left.pop())
        return dict.fromkeys(places, answer)

    monkeypatch.setattr(AdminClient, "list_offsets", list_offsets)


def test_a_restarted_broker_is_asked_until_it_leads_its_partitions(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(kafka_bootstrap, "ends_restarted", {0: [T0_MS]})
    reader = EndOffsetReader(kafka_bootstrap)
    ends = {"ends_restarted": {0: 1, 1: 0, 2: 0}}
    for name in ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH"):
        refuse(monkeypatch, name, times=5)
        assert reader.ends(["ends_restarted"]) == ends

    refuse(monkeypatch, "NOT_LEADER_FOR_PARTITION", times=1000)
    with pytest.raises(StoreError, match=r"ends of `ends_restarted`: NOT_LEADER_FOR_PARTITION"):
        reader.ends(["ends_restarted"], timeout_s=0.3)


def test_a_topic_without_rights_is_asked_for_twice(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(kafka_bootstrap, "ends_anew", {0: [T0_MS]})
    reader = EndOffsetReader(kafka_bootstrap)

    refuse(monkeypatch, "UNKNOWN_TOPIC_OR_PART", times=1)
    assert reader.ends(["ends_anew"]) == {"ends_anew": {0: 1, 1: 0, 2: 0}}
    refuse(monkeypatch, "TOPIC_AUTHORIZATION_FAILED", times=2)
    with pytest.raises(StoreError, match="TOPIC_AUTHORIZATION_FAILED"):
        reader.ends(["ends_anew"])
