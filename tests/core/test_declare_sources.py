# ruff: noqa: E501
"""Sources say where rows enter; what contradicts itself or the dataset is told together."""

from datetime import UTC, datetime
from typing import Any

import pytest

from narthex.connectors import CSV, S3, Files, Kafka, Secret, Webhook, eval, ref, source  # noqa: A004
from narthex.datasets import Dataset, dataset, field
from narthex.declare.datasets import dataset_entity
from narthex.definitions import definitions
from narthex.entities import (
    Cdc,
    ColumnRef,
    Computed,
    Constant,
    Csv,
    JsonLines,
    KafkaTopic,
    Parquet,
    SecretRef,
    WebhookEndpoint,
)
from narthex.entities import Files as FilesEntity
from narthex.errors import (
    ConnectorInvalid,
    CredentialInline,
    DefinitionError,
    DefinitionErrors,
    EnvInvalid,
    NotYetSupported,
)
from narthex.expr import col

WEBHOOK = Webhook("shop").endpoint("orders")


def _orders() -> Dataset:
    made = type(
        "Orders",
        (),
        {"__annotations__": {"uid": int, "amount": float, "kind": str, "at": datetime}},
    )
    return dataset(made)


def _sourced(**options: Any) -> Dataset:
    given = {"disorder": "1h", "cdc": "append", **options}
    return source(given.pop("conn", WEBHOOK), **given)(_orders())


def test_every_parameter_of_a_source_is_kept() -> None:
    made = _sourced(
        every="5m",
        since=datetime(2020, 1, 1, tzinfo=UTC),
        until=datetime(2021, 1, 1, tzinfo=UTC),
        bounded=True,
        idleness="2h",
        env="prod",
        preproc={
            "kind": "web",
            "uid": ref("user"),
            "amount": eval(col("cents") / 100, schema={"cents": int}),
        },
        where=eval(col("test") == False, schema={"test": bool}),  # noqa: E712
    )

    (found,) = dataset_entity(made).sources

    assert found.connector == WebhookEndpoint(webhook="shop", endpoint="orders")
    assert (found.disorder_us, found.every_us, found.idleness_us) == (
        3_600_000_000,
        300_000_000,
        7_200_000_000,
    )
    assert found.since_us == 1_577_836_800_000_000
    assert (found.cdc, found.bounded, found.env) == (Cdc.APPEND, True, ("prod",))
    kinds = {name: type(value) for name, value in found.preproc}
    assert kinds == {"kind": Constant, "uid": ColumnRef, "amount": Computed}
    assert found.where is not None
    assert found.where.schema[-1].name == "test"
    assert found.origin.file.endswith("test_declare_sources.py")


def test_sources_stack_in_the_order_in_which_they_are_read() -> None:
    @source(Webhook("a").endpoint("one"), disorder="1h", cdc="append")
    @source(Webhook("a").endpoint("two"), disorder="1h", cdc="append")
    @dataset
    class D:
        at: datetime

    names = [s.connector.endpoint for s in dataset_entity(D).sources]  # type: ignore[union-attr]
    assert names == ["one", "two"]


def test_a_commit_takes_the_sources_of_its_env() -> None:
    made = _sourced(env="prod")
    source(Webhook("w").endpoint("e"), disorder="1h", cdc="append", env=["~prod"])(made)

    def endpoints(env: str | None) -> int:
        return len(definitions([made], [], env=env).datasets[0].sources)

    assert (endpoints(None), endpoints("prod"), endpoints("dev")) == (2, 1, 1)
    with pytest.raises(EnvInvalid):
        definitions([made], [], env="~prod")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"disorder": "1 fortnight"}, "`disorder`"),
        ({"cdc": "sometimes"}, "`cdc` found `'sometimes'`"),
        ({"cdc": "debezium"}, "not supported yet"),
        ({"bounded": True}, "does not say after how long"),
        ({"idleness": "1h"}, "goes with `bounded=True`"),
        ({"since": "2020"}, "wants a datetime"),
        ({"since": datetime(2021, 1, 1), "until": datetime(2020, 1, 1)}, "is not before"),  # noqa: DTZ001
        ({"sample": 0.5}, "`sample` is not supported yet"),
        ({"conn": Webhook("w")}, "does not say which `endpoint`"),
        ({"conn": Kafka("k", "b:9092")}, "does not say which `topic`"),
        ({"conn": 5}, "wants a connector"),
        ({"env": ["a", "~b"]}, "mixes names and negated names"),
        ({"preproc": {"knid": "x"}}, "did you mean `kind`?"),
        ({"preproc": {"uid": "x"}}, "does not fit"),
        ({"preproc": {"uid": True}}, "does not fit"),
        ({"preproc": {"uid": ref("a[b]")}}, "not supported yet"),
        ({"preproc": {"uid": eval(col("kind"))}}, "of type `str`, not `int`"),
        ({"preproc": {"uid": eval(lambda df: df["x"])}}, "Python function"),
        ({"preproc": {"at": eval(col("at"))}}, "cannot be computed by `eval`"),
        ({"where": eval(col("amount"))}, "not `Optional[bool]`"),
        ({"where": lambda df: df["x"]}, "Python function"),
    ],
)
def test_a_source_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _sourced(**options)

    assert says in str(raised.value)
    assert len(raised.value.exceptions) == 1


def test_all_mistakes_of_a_source_are_told_together() -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _sourced(disorder="x", cdc="y", bounded=True, preproc={"no": 1, "uid": "x"})

    assert [error.code for error in raised.value.exceptions_flat()] == [
        "NX102",
        "NX501",
        "NX501",
        "NX502",
        "NX502",
    ]


def test_a_topic_is_a_topic_with_secrets_by_name() -> None:
    topic = Kafka(
        "bus",
        "a:9092,b:9092",
        "SASL_SSL",
        "SCRAM-SHA-512",
        sasl_plain_username=Secret("bus-user"),
        sasl_plain_password=Secret("bus-password"),
    ).topic("orders")

    assert topic == KafkaTopic(
        name="bus",
        bootstrap_servers="a:9092,b:9092",
        topic="orders",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        username=SecretRef("bus-user"),
        password=SecretRef("bus-password"),
    )


@pytest.mark.parametrize(
    ("make", "format_of"),
    [
        (lambda: Files("f").path("a/*.csv"), Csv()),
        (lambda: Files("f").path("a/*.csv", format=CSV(delimiter=";", null="NA")), Csv(delimiter=";", null="NA")),
        (lambda: Files("f").path("a/*.csv", format="parquet"), Parquet()),
        (lambda: Files("f").path("a/*.csv", format="json"), JsonLines()),
    ],
)  # fmt: skip
def test_files_have_a_format(make: Any, format_of: object) -> None:
    assert make() == FilesEntity(name="f", path="a/*.csv", format=format_of)  # type: ignore[arg-type]


def test_a_bucket_is_files_below_its_name() -> None:
    assert S3("s").bucket("b", path="x/*.json", format="json").path == "s3://b/x/*.json"
    assert S3("s").bucket("b", prefix="x/").path == "s3://b/x/**"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Kafka("k", "b", sasl_plain_password="hunter2").topic("t"), CredentialInline),
        (lambda: S3("s", aws_secret_access_key="hunter2").bucket("b", path="x"), CredentialInline),
        (lambda: Kafka("k", "b", "TLS").topic("t"), ConnectorInvalid),
        (lambda: Kafka("k", "b", sasl_mechanism="X").topic("t"), ConnectorInvalid),
        (lambda: Kafka("k", "b").topic("t", format="avro"), NotYetSupported),
        (lambda: S3("s").bucket("b"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x", prefix="y"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", prefix="x", spread="1d"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x/%Y/"), NotYetSupported),
        (lambda: S3("s").bucket("b", path="x", format="delta"), NotYetSupported),
        (lambda: S3("s", role_arn="arn:aws:iam::1:role/r").bucket("b", path="x"), NotYetSupported),
        (lambda: S3("s", Secret("k"), Secret("s")).bucket("b", path="x"), NotYetSupported),
        (lambda: Files("f").path("gs://b/x"), NotYetSupported),
        (lambda: Files("f").path(""), ConnectorInvalid),
        (lambda: Files("f").path("x", format="xml"), ConnectorInvalid),
        (lambda: CSV(delimiter=";;"), ConnectorInvalid),
        (lambda: Webhook("").endpoint("e"), ConnectorInvalid),
    ],
)
def test_a_connector_that_cannot_be_is_refused(make: Any, error: type[DefinitionError]) -> None:
    with pytest.raises(error) as raised:
        make()

    assert "hunter2" not in str(raised.value)
    assert raised.value.origin.file.endswith("test_declare_sources.py")


def test_a_source_stands_above_a_dataset() -> None:
    @dataset
    class Keyed:
        k: int = field(key=True)
        at: datetime

    with pytest.raises(DefinitionError, match="stands above `@dataset`"):
        source(WEBHOOK, disorder="1h", cdc="append")(int)  # type: ignore[arg-type]
    assert source(WEBHOOK, disorder="1h", cdc="upsert")(Keyed) is Keyed
