"""The commit refuses valid definitions that no job can run yet, with their lines."""

from datetime import UTC, datetime
from typing import Any

import pytest

from narthex._analysis.graph import check
from narthex._compiler.capability import not_carried_out
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import (
    HTTP,
    S3,
    Avro,
    BigQuery,
    Files,
    Kafka,
    Kinesis,
    Mongo,
    MySQL,
    Postgres,
    PubSub,
    Redshift,
    Sample,
    Secret,
    Snowflake,
    Webhook,
    eval,  # noqa: A004
    ref,
    sink,
    source,
)
from narthex.datasets import Count, Dataset, dataset, field, pipeline
from narthex.dtypes import Continuous
from narthex.errors import DefinitionErrors
from narthex.featuresets import extractor, feature, featureset
from narthex.integrations import aws
from narthex.lib import inputs, meta, outputs, secrets
from tests.cases import every

WEBHOOK = Webhook("w").endpoint("e")
USER, WORD = Secret("u"), Secret("p")
ARN = aws.Secret("arn:aws:secretsmanager:eu-1:1:secret:s")["m"]
REDSHIFT = Redshift(name="r", db_name="d", host="h", schema="s", s3_access_role_arn="arn")
SNOWFLAKE = Snowflake("s", "acc", "db", USER, WORD, "wh", "public", "writer")


def _users() -> Dataset:
    @meta(owner="a@b.co")
    @dataset(index=True)
    class Users:
        uid: int = field(key=True)
        name: str
        at: datetime

    return Users


def _sourced(*, conn: Any = WEBHOOK, cdc: str = "upsert", **options: Any) -> Definitions:
    return definitions([source(conn, disorder="1h", cdc=cdc, **options)(_users())], [])


@pytest.mark.parametrize(
    ("conn", "options", "says"),
    [
        (Kafka("k", "b", "SASL_SSL", "GSSAPI").topic("t"), {}, "brokers that want GSSAPI are"),
        (Kafka("k", "b", "SASL_SSL", "PLAIN", ARN, ARN).topic("t"), {}, "secrets of AWS are"),
        (Postgres("p", "h", "d", ARN, ARN).table("t", "c"), {}, "secrets of AWS are"),
        (BigQuery("p", "q", "d", ARN).table("t", "c"), {}, "secrets of AWS are"),
        (PubSub("p", "q", ARN).topic("t"), {}, "secrets of AWS are"),
        (
            Kinesis("k", "r").stream("a", "latest", Avro("confluent", "https://r", token=ARN)),
            {},
            "secrets of AWS are",
        ),
        (S3("s", role_arn="r").bucket("b", prefix="x"), {}, "files behind a role of AWS"),
        (S3("s", ARN, ARN).bucket("b", prefix="x"), {}, "secrets of AWS are"),
        (Files("f").path("x", format="hudi"), {"cdc": "native"}, "files in the format hudi"),
        (WEBHOOK, {"bounded": True, "idleness": "1h"}, "`bounded` is for files"),
        (Kafka("k", "b").topic("t"), {"bounded": True, "idleness": "1h"}, "`bounded` is for files"),
    ],
)
def test_an_unsupported_source_is_reported_with_its_line(
    conn: Any, options: dict[str, Any], says: str
) -> None:
    made = _sourced(conn=conn, **options)

    assert check(made) == ()
    (found,) = not_carried_out(made)
    assert says in found.message
    assert found.code == "NX901"
    assert found.hint
    assert found.origin.file.endswith("test_source_capability.py")


@every(
    "options",
    [
        {"preproc": {"name": ref("a[b]")}, "sample": Sample(0.5, using=["uid"])},
        {"cdc": "debezium"},
        {"conn": Files("f").path("x", format="delta"), "cdc": "native"},
        {"conn": S3("s", USER, WORD).bucket("b", path="x/%Y/*")},
        {"conn": Kafka("k", "b").topic("t", format=Avro("confluent", "https://r"))},
        {"conn": Kafka("k", "b", "SASL_SSL", "SCRAM-SHA-512", USER, WORD).topic("t")},
        {"conn": Postgres("p", "h", "d", USER, WORD).table("t", "c")},
        {"conn": MySQL("p", "h", "d", USER, WORD, jdbc_params="sslMode=REQUIRED").table("t", "c")},
        {"conn": Mongo("m", "h", "d", USER, WORD).collection("t", "c")},
        {"conn": SNOWFLAKE.table("t", "c")},
        {"conn": BigQuery("p", "q", "d", Secret("k")).table("t", "c")},
        {"conn": REDSHIFT.table("t", "c")},
        {"conn": Kinesis("k", "r").stream("a", "latest"), "cdc": "debezium"},
        {"conn": Kinesis("k", "r").stream("a", "latest", Avro("confluent", "https://r"))},
        {"conn": PubSub("p", "q", Secret("k")).topic("t")},
        {"where": lambda df: df["uid"] > 0, "preproc": {"name": eval(lambda df: df["name"])}},
    ],
)
def test_sources_that_the_row_parser_supports_are_accepted(options: dict[str, Any]) -> None:
    assert not_carried_out(_sourced(**options)) == ()


def _sunk(conn: Any, *, aggregate: bool = False, **options: Any) -> Definitions:
    users = source(WEBHOOK, disorder="1h", cdc="append")(_events())

    @meta(owner="a@b.co")
    @sink(conn, **options)
    @dataset(index=aggregate)
    class Copy:
        name: str = field(key=True)
        at: datetime

        if aggregate:
            count: int

        @pipeline
        @inputs(users)
        def copied(cls, users: Any) -> Any:  # noqa: N805
            if aggregate:
                return users.groupby("name").aggregate(count=Count(window=Continuous("1d")))
            return users.groupby("name").latest()

    return definitions([users, Copy], [])


@pytest.mark.parametrize(
    ("conn", "options"),
    [
        (Kafka("k", "b").topic("t"), {"cdc": "debezium"}),
        (HTTP("h", "h:80", "/ok").path("/rows"), {"cdc": "debezium"}),
        (S3("s").bucket("b", prefix="x", format="delta"), {"how": "incremental"}),
        (Postgres("p", "h", "d", USER, WORD).table("t"), {"how": "incremental"}),
        (SNOWFLAKE.table("t"), {"how": "incremental"}),
    ],
)
def test_sinks_that_can_be_written_are_not_refused(conn: Any, options: dict[str, Any]) -> None:
    made = _sunk(conn, **options)

    assert check(made) == ()
    assert not_carried_out(made) == ()


@pytest.mark.parametrize(
    ("conn", "options", "says"),
    [
        (
            HTTP("h", ARN, "/ok").path("/rows"),
            {"cdc": "debezium"},
            "a sink: secrets of AWS are not read yet",
        ),
        (
            Kafka("k", "b", "SASL_SSL", "GSSAPI").topic("t"),
            {"cdc": "debezium"},
            "a sink: brokers that want GSSAPI are not written yet",
        ),
        (
            Kafka("k", "b").topic("t"),
            {"cdc": "debezium", "aggregate": True},
            "a sink of `Copy`, which ends in an aggregate, is not written yet",
        ),
    ],
)
def test_unsupported_sinks_are_reported(conn: Any, options: dict[str, Any], says: str) -> None:
    made = _sunk(conn, **options)

    assert check(made) == ()
    assert [error.message for error in not_carried_out(made)] == [says]


def test_code_that_reads_secrets_is_reported_everywhere() -> None:
    events = source(Webhook("w").endpoint("f"), disorder="1h", cdc="append")(_events())

    @meta(owner="a@b.co")
    @dataset
    class Named:
        name: str
        token: str
        at: datetime

        @pipeline
        @inputs(events)
        def named(cls, events: Any) -> Any:  # noqa: N805
            return events.assign("token", str, lambda df: df["name"].apply(secrets.get))

    @meta(owner="a@b.co")
    @featureset
    class F:
        name: str
        token: str = feature()

        @extractor
        @inputs("name")
        @outputs("token")
        def tokens(cls, ts: Any, name: Any) -> Any:  # noqa: ARG002, N805
            return name.apply(secrets.get)

    made = definitions([events, Named], [F])

    assert check(made) == ()
    assert [error.message for error in not_carried_out(made)] == [
        "pipeline `Named.named` reads a secret; author code in jobs cannot read secrets yet",
        "extractor `tokens` reads a secret; author code in jobs cannot read secrets yet",
    ]


def _events() -> Dataset:
    @meta(owner="a@b.co")
    @dataset
    class Events:
        name: str
        at: datetime

    return Events


def test_every_connector_and_sink_travels_without_loss() -> None:
    connectors: list[Any] = [
        Kafka("k", "b").topic("t", format=Avro("confluent", "https://r", USER, WORD)),
        Postgres("p", "h", "d", USER, WORD).table("t", "c"),
        SNOWFLAKE.table("t", "c"),
        Kinesis("k", "r").stream("a", 5),
        PubSub("p", "q", Secret("k")).topic("t"),
    ]
    made = _users()
    for connector in connectors:
        source(connector, disorder="1h", cdc="upsert")(made)
    dated = S3("s", USER, WORD).bucket("b", path="x/%Y/*", spread="1d")
    source(dated, disorder="1h", cdc="upsert", since=datetime(2020, 1, 1, tzinfo=UTC))(made)
    source(
        WEBHOOK,
        disorder="1h",
        cdc="debezium",
        preproc={"name": eval(lambda df: df["name"])},
        where=lambda df: df["uid"] > 0,
        sample=0.5,
    )(made)
    sink(SNOWFLAKE.table("t"), how="incremental", renames={"name": "n"})(made)
    whole = CommitPayload(message="m", definitions=definitions([made], []))

    assert decode_commit(encode_commit(whole)) == whole
    assert b"hunter2" not in encode_commit(whole)


def test_unsupported_parts_of_three_entities_are_reported_together_with_their_lines() -> None:
    keyless = source(Webhook("w").endpoint("a"), disorder="1h", cdc="upsert")(_events())
    users = source(Webhook("w").endpoint("b"), disorder="1h", cdc="append")(_users())

    @featureset
    class Ownerless:
        name: str

    errors = check(definitions([keyless, users], [Ownerless]))

    assert [error.code for error in errors] == ["NX806", "NX806", "NX804"]
    assert len({error.origin.line for error in errors}) == 3
    assert all(error.origin.file.endswith("test_source_capability.py") for error in errors)


def test_a_misplaced_secret_is_in_no_message() -> None:
    with pytest.raises(DefinitionErrors) as raised:
        Postgres("p", "h", "d", "hunter2", "hunter2").table("t", "c")  # type: ignore[arg-type]

    assert "hunter2" not in repr(raised.value)
