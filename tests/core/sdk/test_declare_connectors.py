"""A connector is a value with all of its parts; contradictions are reported at once."""

from datetime import UTC, datetime
from typing import Any

import pytest

from narthex._analysis.fingerprints import source_id
from narthex._authoring.error_collection import collecting
from narthex._connectors.bigquery import BigQueryDataset
from narthex._connectors.http import HttpPath
from narthex._connectors.kinesis import KinesisStream
from narthex._connectors.mongo import MongoDatabase
from narthex._connectors.pubsub import PubSubTopic
from narthex._connectors.redshift import RedshiftDatabase
from narthex._connectors.snowflake import SnowflakeDatabase
from narthex._ir.entities import (
    AwsSecretRef,
    Encoding,
    Files,
    JsonLines,
    RegistryFormat,
    SecretRef,
    SqlDatabase,
    Table,
)
from narthex.connectors import (
    HTTP,
    S3,
    Avro,
    BigQuery,
    Certificate,
    Kafka,
    Kinesis,
    Mongo,
    MySQL,
    Postgres,
    Protobuf,
    PubSub,
    Redshift,
    Secret,
    Snowflake,
    Webhook,
    at_timestamp,
)
from narthex.errors import ConnectorInvalid, CredentialInline, DefinitionError, DefinitionErrors
from narthex.integrations import aws
from tests.cases import every

USER, WORD = Secret("user"), Secret("password")
POSTGRES = Postgres("p", "db", "shop", USER, WORD)


def test_a_table_is_a_database_a_name_and_a_cursor() -> None:
    assert POSTGRES.table("orders", cursor="id") == Table(
        database=SqlDatabase(
            kind="postgres",
            name="p",
            host="db",
            port=5432,
            db_name="shop",
            username=USER,
            password=WORD,
        ),
        table="orders",
        cursor="id",
    )
    mysql = MySQL("m", "db", "shop", USER, WORD, jdbc_params="ssl=true").table("orders", "id")
    assert isinstance(mysql.database, SqlDatabase)
    assert (mysql.database.kind, mysql.database.port) == ("mysql", 3306)
    assert mysql.database.jdbc_params == "ssl=true"


def test_each_warehouse_has_its_own_parts() -> None:
    snowflake = Snowflake("s", "acc", "db", USER, WORD, "wh", "public", "reader").table("t")
    assert snowflake.database == SnowflakeDatabase(
        name="s",
        account="acc",
        db_name="db",
        schema="public",
        warehouse="wh",
        role="reader",
        username=USER,
        password=WORD,
    )
    assert snowflake.cursor is None
    assert BigQuery("b", "proj", "set", Secret("key")).table("t", "c").database == BigQueryDataset(
        name="b", project_id="proj", dataset_id="set", service_account_key=SecretRef("key")
    )
    redshift = Redshift(name="r", db_name="db", host="h", schema="s", s3_access_role_arn="arn:r")
    assert redshift.table("t", "c").database == RedshiftDatabase(
        name="r", host="h", port=5439, db_name="db", schema="s", role_arn="arn:r"
    )
    assert Mongo("m", "h", "db", USER, WORD).collection("t", "c") == Table(
        database=MongoDatabase(name="m", host="h", db_name="db", username=USER, password=WORD),
        table="t",
        cursor="c",
    )


@pytest.mark.parametrize(
    ("position", "start"),
    [
        ("latest", "latest"),
        ("TRIM_HORIZON", "trim_horizon"),
        (datetime(2020, 1, 1, tzinfo=UTC), 1_577_836_800_000_000),
        (datetime(2020, 1, 1), 1_577_836_800_000_000),  # noqa: DTZ001
        (1_577_836_800, 1_577_836_800_000_000),
        (1_577_836_800.5, 1_577_836_800_500_000),
        ("2020-01-01T00:00:00Z", 1_577_836_800_000_000),
        ("2020-01-01", 1_577_836_800_000_000),
        (at_timestamp(1_577_836_800), 1_577_836_800_000_000),
    ],
)
def test_a_stream_is_read_from_a_position(position: Any, start: str | int) -> None:
    assert Kinesis("k", "arn:role").stream("arn:stream", position, "json") == KinesisStream(
        name="k", role_arn="arn:role", stream_arn="arn:stream", start=start
    )


def test_topics_of_pub_sub_and_paths_of_http_are_values() -> None:
    assert PubSub("p", "proj", Secret("key")).topic("t", "json") == PubSubTopic(
        name="p", project_id="proj", topic="t", service_account_key=SecretRef("key")
    )
    http = HTTP("h", "https://h", "/ok", Certificate("-----BEGIN"))
    headers = {"Content-Type": "application/json", "Authorization": Secret("token")}
    assert http.path("/rows", limit=10, headers=headers) == HttpPath(
        name="h",
        host="https://h",
        healthz="/ok",
        endpoint="/rows",
        ca_cert="-----BEGIN",
        limit=10,
        headers=(("Content-Type", "application/json"), ("Authorization", SecretRef("token"))),
    )


def test_a_topic_can_have_a_registry() -> None:
    topic = Kafka("k", "b:9092").topic("t", format=Avro("confluent", "https://r", USER, WORD))
    assert topic.format == RegistryFormat(
        encoding=Encoding.AVRO,
        registry="confluent",
        url="https://r",
        username=USER,
        password=WORD,
    )
    proto = Protobuf(registry="confluent", url="https://r", token=Secret("t"))
    assert (proto.encoding, proto.token) == (Encoding.PROTOBUF, SecretRef("t"))
    assert Avro("confluent", "https://r").username is None


def test_files_have_credentials_of_their_own_by_reference() -> None:
    made = S3("s", Secret("key"), Secret("secret"), "arn:role").bucket(
        "b", path="x/%Y-%m-%d/*.json", format="json", spread="2d"
    )

    assert made == Files(
        name="s",
        path="s3://b/x/%Y-%m-%d/*.json",
        format=JsonLines(),
        access_key=SecretRef("key"),
        secret_key=SecretRef("secret"),
        role_arn="arn:role",
        spread_us=172_800_000_000,
    )


def test_a_secret_of_aws_leads_into_its_json() -> None:
    secret = aws.Secret("arn:s", role_arn="arn:r")["db"]["password"]

    assert secret == AwsSecretRef("arn:s", "arn:r", ("db", "password"))
    assert aws.Secret("arn:s", path=["db"]) == AwsSecretRef("arn:s", None, ("db",))
    made = Postgres("p", "db", "shop", secret["u"], secret).table("t", "c")
    assert isinstance(made.database, SqlDatabase)
    assert made.database.password == secret


@every(
    ("make", "error"),
    [
        (lambda: Webhook("w", retention="soon").endpoint("e"), DefinitionError),
        (lambda: Webhook("w").endpoint(""), ConnectorInvalid),
        (lambda: Avro("glue", "https://r"), ConnectorInvalid),
        (lambda: Avro("confluent", "https://u:hunter2@r"), CredentialInline),
        (lambda: Avro("confluent", "https://r", USER), ConnectorInvalid),
        (lambda: Avro("confluent", "https://r", USER, WORD, Secret("t")), ConnectorInvalid),
        (lambda: Protobuf("confluent", "https://r"), ConnectorInvalid),
        (lambda: Protobuf("confluent", "https://r", token="hunter2"), CredentialInline),  # type: ignore[arg-type]
        (lambda: Kinesis("k", "").stream("arn", "latest"), ConnectorInvalid),
        (lambda: Kinesis("k", "r").stream("arn", "yesterday"), ConnectorInvalid),
        (lambda: Kinesis("k", "r").stream("arn", None), ConnectorInvalid),  # type: ignore[arg-type]
        (lambda: Kinesis("k", "r").stream("arn", "latest", "csv"), ConnectorInvalid),
        (lambda: PubSub("p", "proj", {"a": "hunter2"}).topic("t"), CredentialInline),  # type: ignore[arg-type]
        (lambda: PubSub("p", "proj", Secret("k")).topic("t", "avro"), ConnectorInvalid),
        (lambda: BigQuery("b", "p", "d", {"a": "hunter2"}).table("t", "c"), CredentialInline),  # type: ignore[arg-type]
        (lambda: Postgres("p", "h", "d", "me", WORD).table("t", "c"), CredentialInline),  # type: ignore[arg-type]
        (lambda: Postgres("p", "h", "d", USER, None).table("t", "c"), ConnectorInvalid),  # type: ignore[arg-type]
        (lambda: Postgres("p", "u:hunter2@h", "d", USER, WORD).table("t", "c"), CredentialInline),
        (lambda: Postgres("p", "h", "d", USER, WORD, port=0).table("t", "c"), ConnectorInvalid),
        (
            lambda: Postgres("p", "h", "d", USER, WORD, jdbc_params="password=hunter2").table("t", "c"),  # noqa: E501
            CredentialInline,
        ),
        (lambda: POSTGRES.table("t", ""), ConnectorInvalid),
        (
            lambda: Snowflake("s", "acc", "db", USER, WORD, "wh", "public", "role").table("t", ""),
            ConnectorInvalid,
        ),
        (lambda: POSTGRES.table("", "c"), ConnectorInvalid),
        (
            lambda: Redshift(name="r", db_name="d", host="h", schema="s").table("t", "c"),
            ConnectorInvalid,
        ),
        (
            lambda: Redshift(
                name="r", db_name="d", host="h", schema="s", username=USER, s3_access_role_arn="a"
            ).table("t", "c"),
            ConnectorInvalid,
        ),
        (lambda: HTTP("h", "h:80", "/ok").path("/rows", limit=0), ConnectorInvalid),
        (
            lambda: HTTP("h", "h:80", "/ok").path("/", headers={"Authorization": "hunter2"}),
            CredentialInline,
        ),
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_is_refused(make: Any, error: type[DefinitionError]) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        make()

    (found,) = raised.value.exceptions_flat()
    assert isinstance(found, error)
    assert "hunter2" not in str(raised.value)
    assert found.origin.file.endswith("test_declare_connectors.py")


def test_all_mistakes_of_a_connector_are_reported_and_the_file_is_read_further() -> None:
    with collecting() as found:
        made = Postgres("", "", "d", "me", None).table("t", "")  # type: ignore[arg-type]

    assert isinstance(made, Table)
    assert [error.code for error in found] == ["NX504", "NX504", "NX503", "NX504", "NX504"]


def test_each_source_has_a_name_outside_of_us() -> None:
    redshift = Redshift(name="r", db_name="d", host="h", schema="s", s3_access_role_arn="a")
    connectors: list[Any] = [
        POSTGRES.table("t", "c"),
        Snowflake("s", "acc", "db", USER, WORD, "wh", "public", "reader").table("t", "c"),
        BigQuery("b", "p", "d", Secret("k")).table("t", "c"),
        redshift.table("t", "c"),
        Mongo("m", "h", "d", USER, WORD).collection("t", "c"),
        Kinesis("k", "r").stream("arn:s", "latest"),
        PubSub("p", "proj", Secret("k")).topic("t"),
    ]

    def named(connector: Any) -> str:
        return source_id(type("S", (), {"connector": connector})())  # type: ignore[arg-type]

    assert [named(one) for one in connectors] == [
        "postgres:db:5432/shop/t",
        "snowflake:acc/db/public/t",
        "bigquery:p/d/t",
        "redshift:h:5439/d/s/t",
        "mongo:h/d/t",
        "kinesis:arn:s",
        "pubsub:proj/t",
    ]


@pytest.mark.parametrize(
    "made",
    [
        Kafka("k", "b", sasl_plain_password="hunter2"),  # type: ignore[arg-type]
        S3("s", aws_secret_access_key="hunter2"),  # type: ignore[arg-type]
        Postgres("p", "h", "d", "hunter2", "hunter2"),  # type: ignore[arg-type]
        Mongo("m", "h", "d", "hunter2", "hunter2"),  # type: ignore[arg-type]
        BigQuery("b", "p", "d", "hunter2"),  # type: ignore[arg-type]
        PubSub("p", "q", "hunter2"),  # type: ignore[arg-type]
    ],
)
def test_a_credential_that_should_not_be_there_is_not_shown(made: object) -> None:
    assert "hunter2" not in repr(made)
