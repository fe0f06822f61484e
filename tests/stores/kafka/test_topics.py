import ctypes
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from typing_extensions import override

from narthex._ir.assets import AssetSpec, TopicRole, TopicSpec
from narthex_stores import (
    GREATEST_RECORD_BYTES,
    Adapter,
    LogProducer,
    LogReader,
    Mismatch,
    PermanentError,
    Record,
    TopicAdapter,
    TransientError,
    Unknown,
    topic_config,
)
from tests.stores.adapters.adapter_suite import TIMEOUT_S, AdapterSuite

LOG = TopicSpec(role=TopicRole.DATASET, partitions=3)
NOBODY = "127.0.0.1:1"


@pytest.mark.kafka
class TestTopicAdapter(AdapterSuite):
    @pytest.fixture
    @override
    def adapter(self, kafka_bootstrap: str, prefix: str) -> Iterator[Adapter]:  # type: ignore[override]
        adapter = TopicAdapter.connect(kafka_bootstrap)
        yield adapter
        for start in (prefix, f"x{prefix}"):
            for topic in adapter.list(start, timeout_s=TIMEOUT_S):
                adapter.destroy(topic.name, external_id=None, timeout_s=TIMEOUT_S)

    @pytest.fixture
    @override
    def spec(self) -> AssetSpec:
        return LOG

    @pytest.fixture
    @override
    def other_spec(self) -> AssetSpec:
        return TopicSpec(role=TopicRole.INGEST, partitions=1, retention_ms=1000)

    def test_a_mismatch_names_the_difference(
        self, adapter: Adapter, spec: AssetSpec, other_spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=1, timeout_s=TIMEOUT_S)

        probe = adapter.probe(f"{prefix}a_i1", other_spec, timeout_s=TIMEOUT_S)

        assert isinstance(probe, Mismatch)
        assert "3 partitions, not 1" in probe.difference
        assert "retention.ms is -1, not 1000" in probe.difference


@pytest.fixture
def topic(kafka_bootstrap: str, request: pytest.FixtureRequest) -> Iterator[str]:
    adapter = TopicAdapter.connect(kafka_bootstrap)
    name = f"t_{abs(hash(request.node.nodeid))}"
    adapter.create(name, LOG, asset_id=1, timeout_s=TIMEOUT_S)
    yield name
    adapter.destroy(name, external_id=None, timeout_s=TIMEOUT_S)


@pytest.fixture
def producer(kafka_bootstrap: str) -> Iterator[LogProducer]:
    with LogProducer(kafka_bootstrap) as producer:
        yield producer


def read(reader: LogReader, count: int) -> list[Record]:
    records: list[Record] = []
    while len(records) < count:
        more = reader.poll(max_records=1000, timeout_s=TIMEOUT_S)
        assert more, f"{len(records)} of {count} records came; {reader.events()}"
        records += more
    return records


def test_topics_retain_records_forever_by_default() -> None:
    assert topic_config(LOG)["retention.ms"] == "-1"


def test_a_broker_that_does_not_answer_is_unknown_and_never_absent() -> None:
    adapter = TopicAdapter.connect(NOBODY)

    assert isinstance(adapter.probe("nx_a", LOG, timeout_s=0.2), Unknown)
    with pytest.raises(TransientError):
        adapter.list("nx_", timeout_s=0.2)


@pytest.mark.kafka
def test_a_record_comes_back_as_it_was_appended(
    kafka_bootstrap: str, topic: str, producer: LogProducer
) -> None:
    delivered = producer.append(
        topic, key=b"k", value=b"v", headers={"received_at": "12"}, partition=2
    ).result(TIMEOUT_S)

    with LogReader(kafka_bootstrap, {(topic, 2): 0}) as reader:
        (record,) = read(reader, 1)

    assert (delivered.partition, delivered.offset) == (2, 0)
    assert (record.topic, record.partition, record.offset) == (topic, 2, 0)
    assert (record.key, record.value) == (b"k", b"v")
    assert record.headers == (("received_at", b"12"),)


def break_for_good(producer: LogProducer) -> None:
    """Let the client meet an error after which it delivers nothing: its library's own call."""
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob(
        "librdkafka*"
    )
    fail = ctypes.CDLL(str(library)).rd_kafka_test_fatal_error
    fail.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    # The handle of the library is the first member of the object, after the object header.
    address = id(producer._client) + object.__basicsize__  # noqa: SLF001
    handle = ctypes.c_void_p.from_address(address).value
    assert fail(handle, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"by a test") == 0


@pytest.mark.kafka
def test_a_client_that_can_deliver_nothing_any_more_is_replaced(
    kafka_bootstrap: str, topic: str
) -> None:
    # Nothing leaves the client before it breaks.
    with LogProducer(kafka_bootstrap, linger_ms=20_000) as producer:
        waiting = producer.append(topic, value=b"lost", partition=0)
        producer.post(topic, value=b"lost too", key=b"k")
        break_for_good(producer)

        with pytest.raises(TransientError, match="_PURGE_QUEUE"):
            waiting.result(TIMEOUT_S)
        with pytest.raises(TransientError, match="_PURGE_QUEUE"):
            producer.flush()
        again = producer.append(topic, value=b"again", partition=0)
        producer.flush()

        assert again.result(TIMEOUT_S).offset == 0
        assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in {event.code for event in producer.events()}


@pytest.mark.kafka
def test_a_key_has_the_partition_that_the_jvm_gives_it(topic: str, producer: LogProducer) -> None:
    # Kafka's own test vectors of murmur2, positive and modulo three.
    vectors = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}

    found = {key: producer.append(topic, key=key, value=b"").result(TIMEOUT_S) for key in vectors}

    assert {key: place.partition for key, place in found.items()} == {
        key: (murmur2 & 0x7FFFFFFF) % 3 for key, murmur2 in vectors.items()
    }


@pytest.mark.kafka
def test_the_greatest_record_passes_an_ingest_topic(
    kafka_bootstrap: str, producer: LogProducer
) -> None:
    adapter = TopicAdapter.connect(kafka_bootstrap)
    spec = TopicSpec(role=TopicRole.INGEST, partitions=1)
    adapter.create("nx_great", spec, asset_id=1, timeout_s=TIMEOUT_S)
    value = bytes(range(256)) * (GREATEST_RECORD_BYTES // 256)

    producer.append("nx_great", value=value).result(TIMEOUT_S)

    with LogReader(kafka_bootstrap, {("nx_great", 0): 0}) as reader:
        assert read(reader, 1)[0].value == value
    with pytest.raises(PermanentError):
        producer.append("nx_great", value=value * 2).result(TIMEOUT_S)


@pytest.mark.kafka
def test_an_assignment_changes_without_gap_or_repetition(
    kafka_bootstrap: str, topic: str, producer: LogProducer
) -> None:
    for number in range(10):
        for partition in range(3):
            producer.append(topic, value=b"%d" % number, partition=partition)
    producer.flush()

    with LogReader(kafka_bootstrap, {(topic, 0): 0}) as reader:
        first = reader.poll(max_records=4, timeout_s=TIMEOUT_S)
        reader.assign(reader.positions | {(topic, 1): 7})
        rest = read(reader, 10 - len(first) + 3)
        reader.assign({(topic, 2): 9})
        last = read(reader, 1)

    zero = [one.offset for one in (*first, *rest) if one.partition == 0]
    assert zero == list(range(10))
    assert [one.offset for one in rest if one.partition == 1] == [7, 8, 9]
    assert [(one.partition, one.offset) for one in last] == [(2, 9)]


@pytest.mark.kafka
def test_a_partition_can_seek_back(kafka_bootstrap: str, topic: str, producer: LogProducer) -> None:
    for _ in range(3):
        producer.append(topic, value=b"", partition=0)
    producer.flush()

    with LogReader(kafka_bootstrap, {(topic, 0): 0}) as reader:
        read(reader, 3)
        reader.assign({(topic, 0): 1})
        again = read(reader, 2)

    assert [one.offset for one in again] == [1, 2]


@pytest.mark.kafka
def test_a_topic_that_comes_later_is_waited_for(
    kafka_bootstrap: str, producer: LogProducer
) -> None:
    adapter = TopicAdapter.connect(kafka_bootstrap)
    with LogReader(kafka_bootstrap, {("nx_later", 0): 0}) as reader:
        assert reader.poll(max_records=1, timeout_s=0.5) == []
        adapter.create("nx_later", LOG, asset_id=1, timeout_s=TIMEOUT_S)
        producer.append("nx_later", value=b"v", partition=0).result(TIMEOUT_S)

        (record,) = read(reader, 1)

        assert record.value == b"v"
        assert {event.code for event in reader.events()} == {"UNKNOWN_TOPIC_OR_PART"}


@pytest.mark.kafka
def test_an_offset_that_is_not_there_is_an_event_and_no_jump(
    kafka_bootstrap: str, topic: str, producer: LogProducer
) -> None:
    producer.append(topic, value=b"v", partition=0).result(TIMEOUT_S)

    with LogReader(kafka_bootstrap, {(topic, 0): 50}) as reader:
        records = reader.poll(max_records=1, timeout_s=TIMEOUT_S)
        (event,) = [one for one in reader.events() if one.topic == topic]

    assert records == []
    assert not event.transient


@pytest.mark.kafka
def test_end_offsets_exist_for_existing_topics_only(
    kafka_bootstrap: str, topic: str, producer: LogProducer
) -> None:
    producer.append(topic, value=b"v", partition=1).result(TIMEOUT_S)

    with LogReader(kafka_bootstrap) as reader:
        ends = reader.end_offsets([topic, "nx_nowhere"])
        assert reader.partitions("nx_nowhere") == 0

    assert ends == {(topic, 0): 0, (topic, 1): 1, (topic, 2): 0}


@pytest.mark.kafka
def test_offsets_since_an_instant_are_those_of_the_first_record_that_arrived_then(
    kafka_bootstrap: str, topic: str, producer: LogProducer
) -> None:
    for _ in range(2):
        producer.append(topic, value=b"v", partition=1).result(TIMEOUT_S)
    with LogReader(kafka_bootstrap, {(topic, 1): 0}) as reader:
        first, second = read(reader, 2)

        since = [
            reader.offsets_since(topic, since_ms=at)
            for at in (0, first.timestamp_ms, second.timestamp_ms + 1)
        ]

    assert since == [{0: 0, 1: 0, 2: 0}, {0: 0, 1: 0, 2: 0}, {0: 0, 1: 2, 2: 0}]


def test_a_reader_without_a_broker_reports_the_error() -> None:
    with LogReader(NOBODY, {("t", 0): 0}) as reader:
        assert reader.poll(max_records=1, timeout_s=0.3) == []
        assert "_TRANSPORT" in {event.code for event in reader.events()}
        with pytest.raises(TransientError):
            reader.partitions("t", timeout_s=0.1)


def test_an_unacknowledged_record_is_an_error() -> None:
    producer = LogProducer(NOBODY)
    delivered = producer.append("t", value=b"v")

    with pytest.raises(TransientError):
        producer.flush(timeout_s=0.1)
    producer.close(timeout_s=0.1)

    with pytest.raises(TransientError):
        delivered.result(TIMEOUT_S)
