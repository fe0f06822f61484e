"""Copies of topics without some content, on a real broker."""

import json
from collections.abc import Iterator

import pytest

from narthex._ir import TopicRole, TopicSpec
from narthex_stores import (
    CopiedLog,
    LogProducer,
    LogReader,
    Needle,
    PermanentError,
    Record,
    TopicAdapter,
    compare_logs,
    copy_log,
    delete_records,
    seal_topic,
    search_topic,
)
from narthex_stores.kafka.copying import read_log

pytestmark = pytest.mark.kafka

SPEC = TopicSpec(role=TopicRole.INGEST, partitions=1, identity="copies")
PROBE = b'{"rows": []}'
NAME = "hedwig-7031"


def without(value: bytes | None) -> bytes | None:
    """Remove the rows of one person."""
    rows = json.loads(value or b"{}")["rows"]
    kept = [row for row in rows if row["person"] != NAME]
    return value if len(kept) == len(rows) else json.dumps({"rows": kept}).encode()


def records(kafka: str, topic: str) -> list[Record]:
    with LogReader(kafka) as reader:
        end = reader.end_offsets([topic])[topic, 0]
        return list(read_log(reader, topic, 0, end))


def appended(kafka: str, topic: str, *persons: str) -> None:
    with LogProducer(kafka) as producer:
        for number, person in enumerate(persons):
            producer.append(
                topic,
                value=json.dumps({"rows": [{"person": person}, {"person": "bea-11"}]}).encode(),
                headers={"idempotency_key": f"key-{number}"},
                timestamp_ms=1_700_000_000_000 + number,
            ).result(30)


@pytest.fixture
def kafka(kafka_bootstrap: str) -> str:
    return kafka_bootstrap


@pytest.fixture
def topics(kafka_bootstrap: str, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    adapter = TopicAdapter.connect(kafka_bootstrap)
    name = f"nx_{request.node.name[5:60]}"
    made = (name, f"{name}_new")
    for topic in made:
        adapter.create(topic, SPEC, asset_id=1, timeout_s=20.0)
    yield made
    for topic in made:
        adapter.destroy(topic, external_id=None, timeout_s=20.0)


def test_a_copy_has_the_same_records_without_the_rows(kafka: str, topics: tuple[str, str]) -> None:
    old, new = topics
    appended(kafka, old, "ann-1", NAME, "cat-3")

    assert copy_log(kafka, old, new, without) == CopiedLog(records=3, changed=1, end=3)

    before, after = records(kafka, old), records(kafka, new)
    assert [one.offset for one in after] == [0, 1, 2]
    assert [one.timestamp_ms for one in after] == [one.timestamp_ms for one in before]
    assert [one.headers for one in after] == [one.headers for one in before]
    assert json.loads(after[1].value or b"") == {"rows": [{"person": "bea-11"}]}
    assert after[0].value == before[0].value
    needles = [Needle(cells={"person": NAME})]
    assert search_topic(kafka, old, needles).found == (f"{old}/0/1",)
    assert search_topic(kafka, new, needles).found == ()
    assert search_topic(kafka, "nx_nowhere", needles).items == 0


def test_a_copy_continues_at_the_end_of_its_target(kafka: str, topics: tuple[str, str]) -> None:
    old, new = topics
    appended(kafka, old, "ann-1")
    copy_log(kafka, old, new, without)
    appended(kafka, old, NAME)
    with pytest.raises(PermanentError, match="ends at 1"):
        compare_logs(kafka, old, new, without)

    assert copy_log(kafka, old, new, without) == CopiedLog(records=1, changed=1, end=2)

    assert compare_logs(kafka, old, new, without) == CopiedLog(records=2, changed=1, end=2)


def test_a_copy_that_differs_is_noticed(kafka: str, topics: tuple[str, str]) -> None:
    old, new = topics
    appended(kafka, old, "ann-1")
    appended(kafka, new, "dan-4")

    with pytest.raises(PermanentError, match="differs"):
        compare_logs(kafka, old, new, without)


def test_a_sealed_topic_refuses_every_producer_and_can_be_read(
    kafka: str, topics: tuple[str, str]
) -> None:
    old, new = topics
    appended(kafka, old, "ann-1")
    with LogProducer(kafka) as known:
        known.append(old, value=PROBE).result(30)

        seal_topic(kafka, old, probe=PROBE)
        seal_topic(kafka, old, probe=PROBE)

        with pytest.raises(PermanentError):
            known.append(old, value=b"late").result(30)
    copied = copy_log(kafka, old, new, without)
    assert copied.end >= 2
    assert compare_logs(kafka, old, new, without).changed == 0


def test_deleted_records_are_not_read_any_more(kafka: str, topics: tuple[str, str]) -> None:
    old, _ = topics
    appended(kafka, old, "ann-1", NAME)

    delete_records(kafka, old)

    assert search_topic(kafka, old, [Needle(cells={"person": NAME})]).items == 0
    appended(kafka, old, "cat-3")
    assert search_topic(kafka, old, []).items == 1
