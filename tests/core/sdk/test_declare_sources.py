# ruff: noqa: E501
"""Sources declare where rows enter; all contradictions are reported together."""

from datetime import UTC, datetime
from typing import Any

import pytest

from narthex._analysis.graph import check
from narthex._ir.entities import (
    Cdc,
    ColumnRef,
    Computed,
    ComputedByCode,
    Constant,
    Csv,
    JsonLines,
    KafkaTopic,
    Parquet,
    SecretRef,
    WebhookEndpoint,
    WhereByCode,
)
from narthex._ir.entities import Files as FilesEntity
from narthex._ir.entities import Sample as SampleEntity
from narthex._sdk.commit_definitions import definitions
from narthex._sdk.datasets.datasets import dataset_entity
from narthex.connectors import (
    CSV,
    HTTP,
    S3,
    Files,
    Kafka,
    Postgres,
    Sample,
    Secret,
    Snowflake,
    Webhook,
    eval,  # noqa: A004
    ref,
    source,
)
from narthex.datasets import Dataset, dataset, field
from narthex.errors import (
    ConnectorInvalid,
    CredentialInline,
    DefinitionError,
    DefinitionErrors,
    EnvInvalid,
)
from narthex.expr import col
from tests.cases import every

WEBHOOK = Webhook("shop").endpoint("orders")
DATED = S3("s").bucket("b", path="%Y/*.csv", spread="1d")
TABLE = Postgres("p", "db", "shop", Secret("u"), Secret("p")).table("orders", cursor="id")
SNOWFLAKE = Snowflake("s", "acc", "db", Secret("u"), Secret("p"), "wh", "public", "reader")


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


def test_every_parameter_of_a_source_is_recorded() -> None:
    made = _sourced(
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
    assert (found.disorder_us, found.idleness_us) == (3_600_000_000, 7_200_000_000)
    assert found.since_us == 1_577_836_800_000_000
    assert (found.cdc, found.bounded, found.env) == (Cdc.APPEND, True, ("prod",))
    kinds = {name: type(value) for name, value in found.preproc}
    assert kinds == {"kind": Constant, "uid": ColumnRef, "amount": Computed}
    assert found.where is not None
    assert found.where.schema[-1].name == "test"
    assert found.origin.file.endswith("test_declare_sources.py")


def test_an_interval_of_a_polled_source_is_recorded() -> None:
    files = Files("f").path("orders/*.json", format="json")

    (found,) = dataset_entity(_sourced(conn=files, every="5m", idleness="1h")).sources

    assert (found.every_us, found.idleness_us) == (300_000_000, 3_600_000_000)
    assert not found.bounded


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


@every(
    ("options", "says"),
    [
        ({"disorder": "1 fortnight"}, "`disorder`"),
        ({"cdc": "sometimes"}, "`cdc` got `'sometimes'`"),
        ({"cdc": "native"}, "only files in the format `delta` or `hudi`"),
        ({"conn": Files("f").path("x", format="delta")}, "want `native`"),
        (
            {"conn": TABLE, "cdc": "debezium"},
            "only Kafka, Kinesis, Files and Webhook bring envelopes",
        ),
        ({"conn": TABLE, "preproc": {"uid": ref("a[b]")}}, "rows of a table have no envelope"),
        ({"conn": Files("f").path("x"), "preproc": {"uid": ref("a[b]")}}, "only JSON has them"),
        ({"conn": HTTP("h", "h:80", "/ok").path("/rows")}, "HTTP can only be written to"),
        ({"conn": HTTP("h", "h:80", "/ok")}, "HTTP can only be written to"),
        ({"conn": SNOWFLAKE.table("t")}, "is read by a cursor"),
        ({"bounded": True}, "needs the time without rows"),
        ({"idleness": "0s"}, "`idleness` must be above zero"),
        ({"every": "1m"}, "is read as rows arrive; such a source has no `every`"),
        ({"bounded": True, "idleness": "1h", "every": "1m"}, "is read once; it has no `every`"),
        ({"since": "2020"}, "expected a datetime"),
        ({"since": datetime(2021, 1, 1), "until": datetime(2020, 1, 1)}, "is not before"),  # noqa: DTZ001
        ({"conn": DATED}, "`spread` requires `since` or `until`"),
        ({"sample": 1}, "expected a float or a `Sample`"),
        ({"sample": 1.5}, "expected 0 to 1"),
        ({"sample": Sample(-0.1, using=["uid"])}, "expected 0 to 1"),
        ({"sample": Sample(0.1, using=[])}, "needs a rate and the fields to draw by"),
        ({"sample": Sample(0.1, using=["at"])}, "by the timestamp"),
        ({"sample": Sample(0.1, using=["udi"])}, "not a field of the dataset"),
        ({"sample": Sample(0.1, using=["uid"]), "preproc": {"uid": 1}}, "which `preproc` computes"),
        ({"sample": 0.1, "preproc": {"uid": 1, "amount": 1.0, "kind": "x"}}, "no field to draw by"),
        ({"conn": Webhook("w")}, "has no `endpoint`"),
        ({"conn": Kafka("k", "b:9092")}, "has no `topic`"),
        ({"conn": 5}, "expected a connector"),
        ({"env": ["a", "~b"]}, "mixes names and negated names"),
        ({"preproc": {"knid": "x"}}, "did you mean `kind`?"),
        ({"preproc": {"uid": "x"}}, "does not fit"),
        ({"preproc": {"uid": True}}, "does not fit"),
        ({"preproc": {"uid": ref("")}}, "has an empty name"),
        ({"preproc": {"uid": ref("a[]")}}, "has an empty name"),
        ({"preproc": {"uid": ref("a[b")}}, "a bracket does not close"),
        ({"preproc": {"uid": ref("a[b]c]")}}, "a bracket does not close"),
        ({"preproc": {"uid": eval(col("kind"))}}, "of type `str`, not `int`"),
        ({"preproc": {"uid": eval(lambda df: open(df["x"]))}}, "reaches a file"),  # noqa: PTH123, SIM115
        ({"preproc": {"uid": eval(5)}}, "expected an expression or a function"),
        ({"preproc": {"at": eval(col("at"))}}, "cannot be computed by `eval`"),
        ({"where": eval(col("amount"))}, "not `Optional[bool]`"),
        ({"where": lambda df: hash(df["x"])}, "differs between processes"),
        ({"where": 5}, "expected an expression or a function"),
    ],
)
def test_a_source_that_cannot_be_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _sourced(**options)

    assert says in str(raised.value)
    assert len(raised.value.exceptions) == 1


def test_all_mistakes_of_a_source_are_reported_together() -> None:
    with pytest.raises(DefinitionErrors) as raised:
        _sourced(disorder="x", cdc="y", bounded=True, preproc={"no": 1, "uid": "x"})

    assert [error.code for error in raised.value.exceptions_flat()] == [
        "NX102",
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


@every(
    ("make", "error"),
    [
        (lambda: Kafka("k", "b", sasl_plain_password="hunter2").topic("t"), CredentialInline),
        (
            lambda: S3("s", Secret("k"), aws_secret_access_key="hunter2").bucket("b", path="x"),
            CredentialInline,
        ),
        (lambda: S3("s", Secret("k")).bucket("b", path="x"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="a*/x"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x/*y"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x/%Q/y"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x/a b"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x//y"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="/x"), ConnectorInvalid),
        (lambda: Kafka("k", "b", "TLS").topic("t"), ConnectorInvalid),
        (lambda: Kafka("k", "b", sasl_mechanism="X").topic("t"), ConnectorInvalid),
        (lambda: Kafka("k", "b").topic("t", format="avro"), ConnectorInvalid),
        (lambda: S3("s").bucket("b"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x", prefix="y"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", prefix="x", spread="1d"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="x/*.csv", spread="1d"), ConnectorInvalid),
        (lambda: S3("s").bucket("b", path="%Y", format="hudi", spread="1d"), ConnectorInvalid),
        (lambda: Files("f").path(""), ConnectorInvalid),
        (lambda: Files("f").path("x", format="xml"), ConnectorInvalid),
        (lambda: CSV(delimiter=";;"), ConnectorInvalid),
        (lambda: Webhook("").endpoint("e"), ConnectorInvalid),
    ],
)
def test_a_connector_that_cannot_be_is_refused(make: Any, error: type[DefinitionError]) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        make()

    (found,) = raised.value.exceptions_flat()
    assert type(found) is error
    assert "hunter2" not in str(raised.value)
    assert found.origin.file.endswith("test_declare_sources.py")


def test_a_source_decorates_a_dataset() -> None:
    @dataset
    class Keyed:
        k: int = field(key=True)
        at: datetime

    with pytest.raises(DefinitionError, match="above `@dataset`"):
        source(WEBHOOK, disorder="1h", cdc="append")(int)  # type: ignore[arg-type]
    assert source(WEBHOOK, disorder="1h", cdc="upsert")(Keyed) is Keyed


def test_a_source_decorator_may_be_below_dataset() -> None:
    @dataset
    @source(Webhook("a").endpoint("one"), disorder="1h", cdc="append")
    @source(Webhook("a").endpoint("two"), disorder="1h", cdc="append")
    class D:
        at: datetime

    names = [s.connector.endpoint for s in dataset_entity(D).sources]  # type: ignore[union-attr]
    assert names == ["one", "two"]


def test_mistakes_of_a_source_below_its_dataset_are_reported_with_the_datasets() -> None:
    with pytest.raises(DefinitionErrors) as raised:

        @dataset(version=0)
        @source(Webhook("a").endpoint("one"), disorder="soon", cdc="append")
        class D:
            at: datetime

    assert [e.code for e in raised.value.exceptions_flat()] == ["NX102", "NX107"]


def test_a_reference_leads_into_nested_values() -> None:
    made = _sourced(preproc={"uid": ref("user[id]"), "kind": ref("meta[a][b]")})

    (found,) = dataset_entity(made).sources
    assert dict(found.preproc) == {
        "uid": ColumnRef("user", ("id",)),
        "kind": ColumnRef("meta", ("a", "b")),
    }


def test_a_function_has_the_columns_that_it_names_and_is_offered_the_others() -> None:
    made = _sourced(
        preproc={
            "kind": eval(
                lambda df: df["kind"] + df["uid"].astype(str) + df["more"], schema={"more": str}
            )
        },
        where=lambda df: df["amount"] > 0,
    )

    (found,) = dataset_entity(made).sources
    computed, where = dict(found.preproc)["kind"], found.where
    assert isinstance(computed, ComputedByCode)
    assert isinstance(where, WhereByCode)
    assert [c.name for c in computed.required] == ["uid", "more"]
    assert [c.name for c in computed.offered] == ["amount", "kind", "at"]
    assert [c.name for c in where.required] == ["amount"]


@pytest.mark.parametrize(
    ("sample", "preproc", "using"),
    [
        (0.5, {}, ("amount", "kind", "uid")),
        (0.5, {"uid": 1}, ("amount", "kind")),
        (Sample(0.5, using=["uid", "kind"]), {}, ("kind", "uid")),
        (Sample(1, using=["uid"]), {}, ("uid",)),
    ],
)
def test_a_sample_is_drawn_by_the_fields_that_it_names_or_by_all(
    sample: Any, preproc: dict[str, Any], using: tuple[str, ...]
) -> None:
    (found,) = dataset_entity(_sourced(sample=sample, preproc=preproc)).sources

    assert found.sample is not None
    assert found.sample.using == using


def test_a_sample_of_a_keyed_dataset_is_drawn_by_its_keys() -> None:
    @source(WEBHOOK, disorder="1h", cdc="upsert", sample=0.5)
    @dataset
    class Keyed:
        b: int = field(key=True)
        a: int = field(key=True)
        v: int
        at: datetime

    (found,) = dataset_entity(Keyed).sources
    assert found.sample == SampleEntity(0.5, ("a", "b"))


@pytest.mark.parametrize("cdc", ["debezium", "native"])
def test_changes_of_rows_want_a_key(cdc: str) -> None:
    conn: object = WEBHOOK if cdc == "debezium" else Files("f").path("x", format="delta")

    codes = [error.code for error in check(definitions([_sourced(conn=conn, cdc=cdc)], []))]

    assert "NX806" in codes
