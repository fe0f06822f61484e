"""Names of datasets follow the rules of OpenLineage, and have no login."""

from typing import Any

from narthex._connectors.bigquery import BigQueryDataset
from narthex._connectors.http import HttpPath
from narthex._connectors.kinesis import KinesisStream
from narthex._connectors.mongo import MongoDatabase
from narthex._connectors.pubsub import PubSubTopic
from narthex._connectors.redshift import RedshiftDatabase
from narthex._connectors.snowflake import SnowflakeDatabase
from narthex._ir import (
    Connector,
    Csv,
    Database,
    Files,
    KafkaTopic,
    SecretRef,
    SqlDatabase,
    Table,
    WebhookEndpoint,
)
from narthex_server.lineage_events.dataset_names import LineageNames
from tests.cases import every

NAMES = LineageNames(
    install_id="tests000",
    namespace="narthex",
    kafka="broker:9093,other:9092",
    files_root="/files/",
    history_dir="/var/history",
)
LOGIN: dict[str, Any] = {"username": SecretRef("user"), "password": SecretRef("password")}


def files(path: str) -> Files:
    return Files(name="lake", path=path, format=Csv())


def sql(kind: str, host: str = "db") -> SqlDatabase:
    return SqlDatabase(kind=kind, name="shop", host=host, port=5432, db_name="shop", **LOGIN)


def redshift(host: str) -> RedshiftDatabase:
    return RedshiftDatabase(name="r", host=host, port=5439, db_name="dev", schema="public", **LOGIN)


def table(database: Database, name: str) -> Table:
    return Table(database=database, table=name)


MONGO = MongoDatabase(name="m", host="mongodb://ann:secret@m:27017/?x=1", db_name="shop", **LOGIN)
STREAM = KinesisStream(
    name="k", role_arn="r", stream_arn="arn:aws:kinesis:eu:1:stream/orders", start="latest"
)
ENDPOINT = HttpPath(
    name="h", host="https://ann:secret@crm:8443", healthz="/h", endpoint="/in?key=1"
)


class NewPlace(Connector):
    """A connector that a package adds, with a secret in its settings."""

    name = "crm"
    url = "https://ann:secret@crm"


class NewDatabase(Database):
    name = "erp"


@every(
    ("connector", "namespace", "name"),
    [
        (WebhookEndpoint(webhook="w", endpoint="e"), "narthex://tests000", "webhook/w/e"),
        (
            KafkaTopic(name="k", bootstrap_servers="", topic="orders"),
            "kafka://broker:9093",
            "orders",
        ),
        (
            KafkaTopic(name="k", bootstrap_servers="kafka", topic="orders"),
            "kafka://kafka:9092",
            "orders",
        ),
        (files("orders/%Y/*.csv"), "file", "/files/orders/%Y/*.csv"),
        (files("/abs/orders"), "file", "/abs/orders"),
        (files("file:///abs/orders"), "file", "/abs/orders"),
        (files("s3://bucket/orders/x"), "s3://bucket", "orders/x"),
        (files("gs://bucket"), "gs://bucket", "/"),
        (files("abfss://ann:secret@acc/x"), "abfss://acc", "x"),
        (table(sql("postgres"), "orders"), "postgres://db:5432", "shop.public.orders"),
        (table(sql("postgres"), "eu.orders"), "postgres://db:5432", "shop.eu.orders"),
        (table(sql("mysql"), "orders"), "mysql://db:5432", "shop.orders"),
        (
            table(
                SnowflakeDatabase(
                    name="s",
                    account="org-acc",
                    db_name="DB",
                    schema="PUBLIC",
                    warehouse="w",
                    role="r",
                    **LOGIN,
                ),
                "ORDERS",
            ),
            "snowflake://org-acc",
            "DB.PUBLIC.ORDERS",
        ),
        (
            table(
                BigQueryDataset(
                    name="b", project_id="p", dataset_id="d", service_account_key=SecretRef("key")
                ),
                "orders",
            ),
            "bigquery",
            "p.d.orders",
        ),
        (
            table(redshift("cluster.abc.eu-west-1.redshift.amazonaws.com"), "orders"),
            "redshift://cluster.eu-west-1:5439",
            "dev.public.orders",
        ),
        (
            table(redshift("db.internal"), "orders"),
            "redshift://db.internal:5439",
            "dev.public.orders",
        ),
        (
            table(MONGO, "c"),
            "mongodb://m:27017",
            "shop.c",
        ),
        (
            STREAM,
            "arn:aws:kinesis:eu:1",
            "stream/orders",
        ),
        (
            PubSubTopic(name="p", project_id="p", topic="t", service_account_key=SecretRef("key")),
            "pubsub",
            "topic:p:t",
        ),
        (
            ENDPOINT,
            "https://crm:8443",
            "/in",
        ),
        (
            HttpPath(name="crm", host=SecretRef("crm"), healthz="/h", endpoint="/in"),
            "narthex://tests000",
            "connector/HttpPath/crm",
        ),
        (NewPlace(), "narthex://tests000", "connector/NewPlace/crm"),
        (table(NewDatabase(), "t"), "narthex://tests000", "connector/NewDatabase/erp"),
    ],
)
def test_a_place_has_the_name_that_other_tools_give_it(
    connector: Connector, namespace: str, name: str
) -> None:
    assert NAMES.connector(connector) == (namespace, name)


def test_a_history_is_a_table_below_its_directory() -> None:
    assert NAMES.history("nx_1") == ("file", "/var/history/nx_1")
    assert NAMES.dataset("dev", "Orders") == ("narthex://tests000", "dev.Orders")
