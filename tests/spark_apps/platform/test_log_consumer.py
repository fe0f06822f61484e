"""The reader of the feeds reports a topic that it cannot continue to read."""

import threading
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from narthex_spark_apps.platform.log_consumer import BrokerEnds, FeedReader
from narthex_stores import Broker, LogProducer
from tests.spark_apps.spark_jobs import wait_until

WITHIN_S = 60.0

pytestmark = pytest.mark.kafka


VALUES = [b"a", b"b", b"c"]


@pytest.fixture(scope="module")
def topic(kafka_bootstrap: str) -> str:
    """A topic with three records."""
    name = "feeds_of_records_that_are_gone"
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for made in admin.create_topics([NewTopic(name, 1)]).values():
        made.result(20)
    with LogProducer(kafka_bootstrap) as producer:
        for value in VALUES:
            producer.append(name, value=value).result(20)
    return name


def test_a_topic_with_deleted_records_is_reported_and_read_after_a_restart(
    kafka_bootstrap: str, topic: str
) -> None:
    reader = FeedReader(kafka_bootstrap)
    found: list[bytes | None] = []

    def poll_until(happens: Callable[[], bool]) -> None:
        def has_happened() -> bool:
            found.extend(r.value for r in reader.poll(max_records=10, timeout_s=0.1))
            return happens()

        wait_until(has_happened, within_s=WITHIN_S, so_far=found)

    reader.assign({topic: {0: 100}})
    poll_until(lambda: reader.wrong(topic) is not None)
    assert f"`{topic}` 0: " in str(reader.wrong(topic))
    assert found == []

    reader.assign({topic: {0: 0}})
    reader.restart(topic)
    assert reader.wrong(topic) is None
    poll_until(lambda: len(found) == len(VALUES))
    reader.close()
    assert found == VALUES


def test_a_broker_is_polled_while_a_job_uses_it(kafka_bootstrap: str, topic: str) -> None:
    before = set(threading.enumerate())
    broker, other = (
        Broker(bootstrap=kafka_bootstrap),
        Broker(bootstrap=f"{kafka_bootstrap},{kafka_bootstrap}"),
    )
    ends = BrokerEnds()

    known = ends.watch(1, broker, [topic])
    assert ends.watch(2, broker, [topic]) is known
    wait_until(lambda: known.known() == {topic: {0: len(VALUES)}}, within_s=WITHIN_S)
    ends.watch(3, other, [topic])
    ends.retain({2, 3})
    ends.watch(3, broker, [topic])
    asking = set(threading.enumerate()) - before
    wait_until(lambda: sum(thread.is_alive() for thread in asking) == 1, within_s=WITHIN_S)
    ends.retain({3})
    assert known.known() == {topic: {0: len(VALUES)}}
    ends.retain(())
    wait_until(lambda: not any(thread.is_alive() for thread in asking), within_s=WITHIN_S)
