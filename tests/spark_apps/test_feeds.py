"""What the reader of the feeds does with a topic that cannot be read on."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from narthex_spark_apps.feeds import FeedReader
from narthex_stores import LogProducer

WITHIN_S = 60.0

pytestmark = pytest.mark.kafka


VALUES = [b"a", b"b", b"c"]


@pytest.fixture
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


def test_a_topic_whose_records_are_gone_is_told_and_read_again_when_it_is_restarted(
    kafka_bootstrap: str, topic: str
) -> None:
    reader = FeedReader(kafka_bootstrap)
    found: list[bytes | None] = []

    def poll_until(happens: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + WITHIN_S
        while not happens():
            assert time.monotonic() < ends_at, f"not within {WITHIN_S:g} s; {found}"
            found.extend(r.value for r in reader.poll(max_records=10, timeout_s=0.1))

    reader.assign({topic: {0: 100}})
    poll_until(lambda: reader.wrong(topic) is not None)
    assert f"`{topic}` 0: " in str(reader.wrong(topic))
    assert found == []

    reader.assign({topic: {0: 0}})
    reader.restart(topic)
    assert reader.wrong(topic) is None
    poll_until(lambda: len(found) == len(VALUES))
    assert found == VALUES
