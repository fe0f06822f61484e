"""Counts of records, while the broker answers and while it does not."""

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from narthex_server.services.record_counts import RecordCounts
from narthex_stores import EndOffsetReader
from tests.server.conftest import NOBODY


@pytest.mark.kafka
def test_the_records_of_all_partitions_are_counted(kafka_bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic("counted", num_partitions=2)])["counted"].result(30.0)
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    for partition in (0, 1, 1):
        producer.produce("counted", b"record", partition=partition)
    assert producer.flush(30.0) == 0
    counts = RecordCounts(EndOffsetReader(kafka_bootstrap))

    assert counts.of(["counted", "missing"]) == {"counted": 3, "missing": 0}
    assert counts.of([]) == {}


def test_a_broker_that_did_not_answer_is_not_asked_by_the_next_page() -> None:
    counts = RecordCounts(EndOffsetReader(NOBODY), ask_s=2.0)
    took_s: list[float] = []
    for _ in range(2):
        began = time.monotonic()
        assert counts.of(["topic"]) == {}
        took_s.append(time.monotonic() - began)

    first_s, second_s = took_s
    assert second_s < first_s / 2
