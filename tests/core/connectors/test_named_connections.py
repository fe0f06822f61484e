"""Code names a connection, and a commit gets what the platform stores under that name."""

from datetime import datetime
from typing import Any

import attrs
import pytest

from narthex._connectors.named import connection_of
from narthex._connectors.stored_connections import (
    Connection,
    ConnectionInvalidError,
    connection_kinds,
    parameters_of,
    resolve_connections,
)
from narthex._ir.connections import Connector, SecretRef, SqlDatabase, Table
from narthex._ir.entities import Definitions
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import (
    S3,
    BigQuery,
    Kafka,
    Kinesis,
    Mongo,
    MySQL,
    Postgres,
    PubSub,
    Redshift,
    Secret,
    Snowflake,
    Webhook,
    sink,
    source,
)
from narthex.datasets import Dataset, dataset, field, pipeline
from narthex.errors import ConnectorInvalid, DefinitionErrors
from narthex.lib import inputs

__owner__ = "shop@narthex.dev"

USER, PASSWORD = Secret("shop/user"), Secret("shop/password")
LOGIN = {"username": "shop/user", "password": "shop/password"}

KEPT: list[tuple[Any, str, tuple[str, ...], dict[str, Any], dict[str, str]]] = [
    (Postgres, "table", ("t", "c"), {"host": "h", "db_name": "d", "port": 5433}, LOGIN),
    (MySQL, "table", ("t", "c"), {"host": "h", "db_name": "d"}, LOGIN),
    (Mongo, "collection", ("t", "c"), {"host": "h", "db_name": "d"}, LOGIN),
    (
        Redshift,
        "table",
        ("t", "c"),
        {"host": "h", "db_name": "d", "schema": "s", "s3_access_role_arn": "arn:r"},
        {},
    ),
    (
        Snowflake,
        "table",
        ("t", "c"),
        {"account": "a", "db_name": "d", "warehouse": "w", "schema": "s", "role": "r"},
        LOGIN,
    ),
    (
        BigQuery,
        "table",
        ("t", "c"),
        {"project_id": "p", "dataset_id": "d"},
        {"service_account_key": "key"},
    ),
    (PubSub, "topic", ("t",), {"project_id": "p"}, {"service_account_key": "key"}),
    (Kinesis, "stream", ("arn:s", "latest"), {"role_arn": "arn:r"}, {}),
    (
        Kafka,
        "topic",
        ("t",),
        {"bootstrap_servers": "k:9092", "security_protocol": "SASL_SSL"},
        {"sasl_plain_username": "shop/user", "sasl_plain_password": "shop/password"},
    ),
    (
        S3,
        "bucket",
        ("b", "p"),
        {},
        {"aws_access_key_id": "lake/id", "aws_secret_access_key": "lake/key"},
    ),
]


def connection(of: type, arguments: dict[str, Any], secrets: dict[str, str]) -> Connection:
    return Connection(name="shop", kind=of.__name__, arguments=arguments, secrets=secrets)


def users_from(connector: Connector, *more: Connector) -> Dataset:
    @dataset(index=True)
    class Users:
        uid: int = field(key=True)
        name: str
        changed: datetime

    for one in (connector, *more):
        Users = source(one, disorder="1h", cdc="upsert")(Users)  # noqa: N806
    return Users


def committed(connector: Connector, *more: Connector) -> Definitions:
    return definitions([users_from(connector, *more)], [])


@pytest.mark.parametrize(("of", "method", "place", "arguments", "secrets"), KEPT)
def test_a_connection_by_name_becomes_the_one_that_is_kept(
    of: Any, method: str, place: tuple[str, ...], arguments: Any, secrets: Any
) -> None:
    by_name = getattr(of.get("shop"), method)(*place)
    credentials = {name: Secret(secret) for name, secret in secrets.items()}
    whole = getattr(of(name="shop", **arguments, **credentials), method)(*place)
    kept = connection(of, arguments, secrets)

    found, errors = resolve_connections(committed(by_name), {"shop": kept}.get)

    assert connection_of(by_name) == "shop"
    assert connection_of(whole) is None
    assert errors == ()
    (read,) = found.datasets[0].sources
    assert read.connector == whole
    assert repr(whole) not in repr(by_name)


def test_the_same_holds_for_every_kind_that_code_can_name() -> None:
    assert sorted(of.__name__ for of, *_ in KEPT) == sorted(connection_kinds())


def test_a_sink_by_name_becomes_the_one_that_is_kept() -> None:
    @source(Webhook("w").endpoint("users"), disorder="1h", cdc="append")
    @dataset
    class Users:
        uid: int
        changed: datetime

    @sink(Postgres.get("shop").table("users"), every="1m", how="incremental")
    @dataset
    class Copied:
        uid: int
        changed: datetime

        @pipeline
        @inputs(Users)
        def _copied(cls, users: Dataset) -> Any:  # noqa: N805
            return users.filter(lambda df: df["uid"] > 0)

    kept = connection(Postgres, {"host": "h", "db_name": "d"}, LOGIN)
    found, errors = resolve_connections(definitions([Users, Copied], []), {"shop": kept}.get)

    (written,) = found.datasets[1].sinks
    database = SqlDatabase(
        kind="postgres",
        name="shop",
        host="h",
        port=5432,
        db_name="d",
        username=SecretRef("shop/user"),
        password=SecretRef("shop/password"),
    )
    assert errors == ()
    assert written.target == Table(database=database, table="users")


def test_all_connections_that_are_missing_or_of_another_kind_are_reported_at_once() -> None:
    kept = connection(MySQL, {"host": "h", "db_name": "d"}, LOGIN)
    sent = committed(
        Postgres.get("shop").table("users", cursor="changed"),
        Postgres.get("crm").table("users", cursor="changed"),
        MySQL.get("shop").table("users", cursor="changed"),
    )

    found, errors = resolve_connections(sent, {"shop": kept}.get)

    assert sorted(error.message for error in errors) == [
        "the connection `shop` is of `MySQL`, and the definition says `Postgres`",
        "this branch has no connection `crm`",
    ]
    assert all(isinstance(error, ConnectorInvalid) for error in errors)
    assert all(error.origin.file.endswith("test_named_connections.py") for error in errors)
    assert any("`narthex connection set crm Postgres …`" in error.hint for error in errors)
    named = {connection_of(one.connector) for one in found.datasets[0].sources}
    assert named == {None, "shop", "crm"}


def test_definitions_without_connections_by_name_stay_as_they_are() -> None:
    sent = committed(Postgres("p", "h", "d", USER, PASSWORD).table("users", "changed"))

    def find(name: str) -> Connection | None:
        raise AssertionError(name)

    assert resolve_connections(sent, find) == (sent, ())


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "ü", "x" * 129])
def test_a_name_that_no_connection_has_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(DefinitionErrors) as raised:
        Kafka.get(name)

    (found,) = raised.value.exceptions_flat()
    assert found.origin.file.endswith("test_named_connections.py")
    assert "is not the name of a connection" in found.message


def test_a_source_of_a_whole_connection_names_the_missing_part() -> None:
    with pytest.raises(DefinitionErrors, match=r"`Postgres` has no `table`"):
        source(Postgres.get("shop"), disorder="1h", cdc="append")(
            users_from(Webhook("w").endpoint("users"))
        )


@pytest.mark.parametrize(
    ("kept", "messages"),
    [
        (
            connection(Postgres, {"host": 1, "nmae": "d", "password": "hunter2"}, {"host": "s"}),
            [
                "`host` got `1`; expected str",
                "`Postgres` has no `nmae`",
                "`password` is a credential; give the name of its secret",
                "`host` of `Postgres` is not a credential",
                "`db_name` is missing",
                "`username` is missing",
            ],
        ),
        (
            connection(Redshift, {"host": "h", "db_name": "d", "schema": "s"}, {}),
            ["`Redshift` needs `username` and `password`, or `s3_access_role_arn`"],
        ),
        (
            connection(Kafka, {"bootstrap_servers": "k:1", "security_protocol": "NONE"}, {}),
            ["`security_protocol` got `'NONE'`"],
        ),
        (
            attrs.evolve(connection(Postgres, {"host": "h", "db_name": "d"}, LOGIN), name="a b"),
            ["`a b` is not a name"],
        ),
        (connection(Webhook, {}, {}), ["`Webhook` is not a kind of connection; expected one of"]),
    ],
)
def test_all_mistakes_of_a_connection_are_named(kept: Connection, messages: list[str]) -> None:
    with pytest.raises(ConnectionInvalidError) as raised:
        kept.place()

    assert [message for message in messages if message not in str(raised.value)] == []
    assert "hunter2" not in str(raised.value)


def test_parameters_have_types_and_credentials_are_apart() -> None:
    plain, credentials = parameters_of("Kafka")

    assert plain["verify_cert"] is bool
    assert plain["bootstrap_servers"] is str
    assert credentials == ("sasl_plain_username", "sasl_plain_password")
    assert parameters_of("Postgres")[0]["port"] is int
