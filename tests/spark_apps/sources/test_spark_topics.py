"""Topics of authors: records of Avro and Protobuf, brokers with authentication."""

import base64
import io
import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import ResolvedNeed
from narthex._ir.connections import Encoding, KafkaTopic, RegistryFormat, SecretRef
from narthex._ir.entities import ColumnRef
from narthex._ir.facts import Fact
from narthex.errors import ConnectionDenied, SecretMissing, SecretWithheld
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import input_broker
from narthex_spark_apps.sources.row_rendering import RawRowPosition
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.schema_registry import RegistryError
from tests.mounted_secrets import grant, mount
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log
from tests.spark_apps.sources.guarded_broker import USER, WORD, BrokerListeners, guarded_broker
from tests.spark_apps.sources.registry import Registry, running_registry

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

T0 = 1_357_000_000_000_000


def needs(log: Log) -> tuple[ResolvedNeed, ...]:
    return (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )


def facts(job: SourceJob, records: list[tuple[bytes, bytes]]) -> list[Fact]:
    return fact_codec(job.spec.log).decode_many([value for _, value in records])


@pytest.fixture
def registry(platform: Settings) -> Iterator[Registry]:
    """Run a registry, and keep the secrets that let the platform in."""
    mount(platform.secrets_dir, {"registry-user": "reader", "registry-word": "hunter2"})
    with running_registry("reader", "hunter2") as running:
        at = running.url.removeprefix("http://")
        grant(platform.policy_file, at, secrets=["registry-user", "registry-word"])
        yield running


def of_registry(registry: Registry, encoding: Encoding, log: Log) -> KafkaTopic:
    kept = RegistryFormat(
        encoding=encoding,
        registry="confluent",
        url=registry.url,
        username=SecretRef("registry-user"),
        password=SecretRef("registry-word"),
    )
    return KafkaTopic(name="k", bootstrap_servers="", topic=log.topic("theirs"), format=kept)


WHO = {"type": "enum", "name": "shop.Who", "symbols": ["ann", "bob"]}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "who", "type": ["null", "shop.Who"]},
        {
            "name": "amount",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
    ],
}


def avro(schema_id: int, row: dict[str, object]) -> bytes:
    named: dict[str, object] = {}
    fastavro.parse_schema(WHO, named_schemas=named)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(ORDER, named_schemas=named), row)
    return struct.pack(">bI", 0, schema_id) + written.getvalue()


def test_records_of_avro_are_read_by_the_schema_that_the_registry_keeps(
    work: spark_jobs.Work, platform: Settings, log: Log, registry: Registry
) -> None:
    registry.keep(7, json.dumps(WHO), subject="shop-who")
    registry.keep(8, json.dumps(ORDER), references=(("shop.Who", "shop-who"),))
    job = spark_jobs.source_job(of_registry(registry, Encoding.AVRO, log), needs=needs(log))
    row = {"id": 1, "at": T0 + 1, "who": "bob", "amount": Decimal("2.50")}
    unknown = avro(99, row)
    for value in (
        avro(8, row),
        avro(8, row | {"id": 2, "who": None}),
        unknown,
        avro(8, row)[:-2],
        avro(8, row | {"id": 3, "amount": Decimal(5000)}),
        b"{}",
    ):
        log.send(job.topic(), value)

    work(job, platform, 6)

    found = facts(job, log.records(job.output, count=2))
    assert [(fact.key, fact.event_time, fact.values) for fact in found] == [
        ((1,), T0 + 1, ("bob", 2.5)),
        ((2,), T0 + 1, (None, 2.5)),
    ]
    refused = [json.loads(value) for _, value in log.records(job.quarantine, count=4)]
    assert [(one["offset"], one["kind"]) for one in refused] == [
        (2, "base64"),
        (3, "base64"),
        (4, "row"),
        (5, "base64"),
    ]
    assert base64.b64decode(refused[0]["payload"]) == unknown
    assert refused[0]["reason"] == f"`{registry.url}` has no `schemas/ids/99`"
    assert refused[3]["reason"] == "the record does not begin with a schema id"
    assert "hunter2" not in json.dumps(refused)


def files() -> tuple[FileDescriptorProto, FileDescriptorProto]:
    price = FileDescriptorProto(name="price.proto", package="shop", syntax="proto3")
    field = FieldDescriptorProto
    units = price.message_type.add(name="Price").field.add(name="units", number=1)
    units.type, units.label = field.TYPE_DOUBLE, field.LABEL_OPTIONAL
    order = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order.dependency.extend(["price.proto", "google/protobuf/timestamp.proto"])
    order.message_type.add(name="Nothing")
    message = order.message_type.add(name="Order")
    for number, (name, kind, named) in enumerate(
        [
            ("id", field.TYPE_INT64, ""),
            ("at", field.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            ("who", field.TYPE_STRING, ""),
            ("price", field.TYPE_MESSAGE, ".shop.Price"),
        ],
        start=1,
    ):
        message.field.add(
            name=name, number=number, type=kind, type_name=named or None, label=field.LABEL_OPTIONAL
        )
    return price, order


def protobuf(schema_id: int, number: int) -> bytes:
    pool = DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP.serialized_pb)
    for file in files():
        pool.Add(file)
    made: Any = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(id=number)
    made.at.FromMicroseconds(T0 + number)
    made.price.units = number + 0.5
    # The second message of its file: one step, both numbers zigzag.
    return struct.pack(">bI", 0, schema_id) + b"\x02\x02" + made.SerializeToString()


def test_records_of_protobuf_are_read_with_what_their_schema_imports(
    work: spark_jobs.Work, platform: Settings, log: Log, registry: Registry
) -> None:
    price, order = (base64.b64encode(one.SerializeToString()).decode() for one in files())
    registry.keep(3, price, kind="PROTOBUF", subject="price")
    registry.keep(4, order, kind="PROTOBUF", references=(("price.proto", "price"),))
    registry.keep(5, json.dumps(ORDER))
    job = spark_jobs.source_job(
        of_registry(registry, Encoding.PROTOBUF, log),
        needs=needs(log),
        preproc=(("amount", ColumnRef("price", ("units",))),),
    )
    for value in (protobuf(4, 1), protobuf(4, 2), protobuf(5, 3), protobuf(4, 4)[:-3]):
        log.send(job.topic(), value)

    work(job, platform, 4)

    found = facts(job, log.records(job.output, count=2))
    assert [(fact.key, fact.event_time, fact.values) for fact in found] == [
        ((1,), T0 + 1, ("", 1.5)),
        ((2,), T0 + 2, ("", 2.5)),
    ]
    refused = [json.loads(value) for _, value in log.records(job.quarantine, count=2)]
    assert [one["reason"] for one in refused] == [
        "the schema 5 is of AVRO; the source declares PROTOBUF",
        "the record is not of schema 4",
    ]


def test_a_registry_that_refuses_access_rejects_no_row(
    platform: Settings, log: Log, registry: Registry
) -> None:
    mount(platform.secrets_dir, {"registry-word": "wrong"})
    job = spark_jobs.source_job(of_registry(registry, Encoding.AVRO, log), needs=needs(log))
    reader = job.format(platform).open()

    with pytest.raises(RegistryError, match="returned 401"):
        reader.rows(
            avro(8, {"id": 1, "at": 1, "who": None, "amount": Decimal(1)}),
            place=RawRowPosition(),
            now_us=0,
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerListeners]:
    """Run a broker with authentication."""
    with guarded_broker(tmp_path_factory.mktemp("guarded")) as doors:
        yield doors


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_broker_behind_tls_gets_credentials_from_secrets(
    work: spark_jobs.Work, platform: Settings, log: Log, guarded: BrokerListeners, mechanism: str
) -> None:
    theirs = Log(guarded.open)
    connector = KafkaTopic(
        name="k",
        bootstrap_servers=guarded.guarded,
        topic=theirs.topic("guarded"),
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        username=SecretRef("bus/user"),
        password=SecretRef("bus/word"),
    )
    settings = attrs.evolve(platform, ca_file=str(guarded.ca_file))
    mount(settings.secrets_dir, {"bus/user": USER, "bus/word": WORD})
    grant(settings.policy_file, guarded.guarded, secrets=["bus/user", "bus/word"])
    job = spark_jobs.source_job(connector, needs=needs(log))
    theirs.send(connector.topic, {"id": 1, "at": T0, "who": "ann", "amount": 2.5})

    work(job, settings, 1)

    assert [fact.key for fact in facts(job, log.records(job.output, count=1))] == [(1,)]
    assert WORD not in repr(input_broker(job.asset, settings))


def test_a_cluster_that_sends_its_clients_to_a_broker_that_is_denied_is_not_read(
    platform: Settings, log: Log
) -> None:
    port = log.bootstrap.rpartition(":")[2]
    topic = KafkaTopic(name="k", bootstrap_servers=f"localhost:{port}", topic=log.topic("theirs"))
    job = spark_jobs.source_job(topic, needs=())
    with pytest.raises(ConnectionDenied, match="`localhost"):
        input_broker(job.asset, platform)
    grant(platform.policy_file, f"localhost:{port}")

    with pytest.raises(ConnectionDenied, match=rf"`127\.0\.0\.1:{port}`"):
        input_broker(job.asset, platform)
    grant(platform.policy_file, f"127.0.0.1:{port}")

    assert input_broker(job.asset, platform).bootstrap == f"localhost:{port}"


@pytest.mark.slow
def test_a_broker_does_not_get_a_secret_of_another_host(
    platform: Settings, guarded: BrokerListeners
) -> None:
    topic = KafkaTopic(
        name="k",
        bootstrap_servers=guarded.guarded,
        topic="t",
        security_protocol="SASL_SSL",
        username=SecretRef("bus/user"),
        password=SecretRef("bus/word"),
    )
    mount(platform.secrets_dir, {"bus/user": USER, "bus/word": WORD})
    grant(platform.policy_file, "127.0.0.1:9", secrets=["bus/user", "bus/word"])

    with pytest.raises(SecretWithheld):
        input_broker(spark_jobs.source_job(topic, needs=()).asset, platform)


def test_a_secret_that_is_not_there_is_named(platform: Settings) -> None:
    connector = KafkaTopic(
        name="k",
        bootstrap_servers="b:1",
        topic="t",
        security_protocol="SASL_SSL",
        username=SecretRef("not/stored"),
        password=SecretRef("not/stored"),
    )
    job = spark_jobs.source_job(connector, needs=())
    grant(platform.policy_file, "b:1", secrets=["not/stored"])

    with pytest.raises(SecretMissing, match="there is no secret `not/stored`"):
        input_broker(job.asset, platform)
