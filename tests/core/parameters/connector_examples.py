# mypy: disable-error-code="valid-type"
"""The examples of connectors, sources and sinks, by the name of the public call."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from narthex import connectors
from narthex._ir.entities import Definitions
from narthex.connectors import Kafka, at_timestamp, eval, ref, sink, source  # noqa: A004
from narthex.datasets import Rows, pipeline
from narthex.expr import col
from narthex.lib import inputs
from tests.core.parameters.examples import (
    OTHER,
    PUSHED,
    SEEN,
    USER,
    WORD,
    Call,
    Change,
    Example,
    events,
    filled,
    of_datasets,
    optional,
    plain_users,
    read_from,
    written_to,
)

SINCE: Final = datetime(2024, 1, 1, tzinfo=UTC)
FILES: Final = connectors.Files("f").path("users/*.json", format="json")
TABLE: Final = connectors.Postgres("p", "h", "d", USER, WORD).table("users", "changed_at")
SINK_TABLE: Final = connectors.Postgres("p", "h", "d", USER, WORD).table("copies")
TOPIC: Final = Kafka("k", "b:9").topic("t")


def _sunk(call: Call) -> Definitions:
    """Return the definitions of a dataset with a sink that has the arguments of the example."""
    rows_of = events()

    @pipeline
    @inputs(rows_of)
    def copied(cls: object, rows: Rows) -> Rows:  # noqa: ARG001
        return rows.select("uid")

    return of_datasets(rows_of, call(sink)(filled({"uid": int, **SEEN}, copied)))


def _connection(make: type, method: str, *arguments: object, **options: Any) -> Any:
    """Return the examples of a connector: of its class, by name, and of what completes it."""
    through = options.pop("through", read_from)
    base, changes = options.pop("base"), options.pop("changes")
    of_method, rest = options.pop("method_base"), options.pop("method_changes")

    def built(call: Call) -> Definitions:
        return through(getattr(call(make), method)(*arguments), **options)

    def completed(call: Call) -> Definitions:
        return through(call(getattr(make(**base), method)), **options)

    by_name = getattr(make, "get", None)

    def named(call: Call) -> Definitions:
        return through(getattr(call(by_name), method)(*arguments), **options)

    named_example = Example(build=named, base={"name": "shop"}, changes={"name": "other"})
    return {
        **(
            {f"{make.__name__}.get": named_example} if by_name and make is not connectors.S3 else {}
        ),
        make.__name__: Example(build=built, base=base, changes=changes),
        f"{make.__name__}.{method}": Example(build=completed, base=of_method, changes=rest),
    }


_SASL: Final = {
    "security_protocol": "SASL_SSL",
    "sasl_plain_username": USER,
    "sasl_plain_password": WORD,
}
_SQL: Final = {"name": "p", "host": "h", "db_name": "d", "username": USER, "password": WORD}
_SQL_CHANGES: Final = {
    "name": "q",
    "host": "g",
    "db_name": "e",
    "username": OTHER,
    "password": OTHER,
    "port": 99,
}
_ROWS: Final = {"table_name": "t", "cursor": "c"}
_OTHER_ROWS: Final = {"table_name": "u", "cursor": "d"}
_REGISTRY: Final = {"registry": "confluent", "url": "https://r", "username": USER, "password": WORD}
_REGISTRY_CHANGES: Final = {
    "registry": "glue",
    "url": "https://s",
    "username": OTHER,
    "password": OTHER,
    "token": Change(OTHER),
}


def _registered(make: Callable[..., Any]) -> Example:
    return Example(
        build=lambda call: read_from(Kafka("k", "b:9").topic("t", format=call(make))),
        base=_REGISTRY,
        changes=_REGISTRY_CHANGES,
    )


CONNECTORS: Final[Mapping[str, Example]] = {
    **_connection(
        connectors.Webhook,
        "endpoint",
        "e",
        base={"name": "w"},
        changes={"name": "x", "retention": "3d"},
        method_base={"endpoint": "e"},
        method_changes={"endpoint": "f"},
    ),
    **_connection(
        connectors.Kafka,
        "topic",
        "t",
        base={"name": "k", "bootstrap_servers": "b:9"},
        changes={
            "name": "j",
            "bootstrap_servers": "c:9",
            "security_protocol": "SSL",
            "sasl_mechanism": Change("SCRAM-SHA-256", _SASL),
            "sasl_plain_username": Change(OTHER, _SASL),
            "sasl_plain_password": Change(OTHER, _SASL),
            "verify_cert": False,
        },
        method_base={"topic": "t"},
        method_changes={"topic": "u", "format": connectors.Avro("confluent", "https://r")},
    ),
    **_connection(
        connectors.Files,
        "path",
        "x/*.csv",
        base={"name": "f"},
        changes={"name": "g"},
        method_base={"path": "x/*"},
        method_changes={"path": "y/*", "format": "json"},
    ),
    **_connection(
        connectors.S3,
        "bucket",
        "b",
        "x",
        base={"name": "s"},
        changes={
            "name": "r",
            "aws_access_key_id": Change(
                OTHER, {"aws_access_key_id": USER, "aws_secret_access_key": WORD}
            ),
            "aws_secret_access_key": Change(
                OTHER, {"aws_access_key_id": USER, "aws_secret_access_key": WORD}
            ),
            "role_arn": Change("arn:r", says="files behind a role of AWS"),
        },
        method_base={"bucket_name": "b", "path": "x/%Y/*"},
        method_changes={
            "bucket_name": "c",
            "prefix": "y",
            "path": "z/%Y/*",
            "format": "json",
            "presorted": True,
            "spread": "1d",
        },
        since=SINCE,
    ),
    **_connection(
        connectors.Postgres,
        "table",
        "t",
        "c",
        base=_SQL,
        changes={**_SQL_CHANGES, "jdbc_params": "sslmode=require"},
        method_base=_ROWS,
        method_changes=_OTHER_ROWS,
    ),
    **_connection(
        connectors.MySQL,
        "table",
        "t",
        "c",
        base=_SQL,
        changes={**_SQL_CHANGES, "jdbc_params": "sslMode=REQUIRED"},
        method_base=_ROWS,
        method_changes=_OTHER_ROWS,
    ),
    **_connection(
        connectors.Mongo,
        "collection",
        "t",
        "c",
        base=_SQL,
        changes={one: value for one, value in _SQL_CHANGES.items() if one != "port"},
        method_base={"collection_name": "t", "cursor": "c"},
        method_changes={"collection_name": "u", "cursor": "d"},
    ),
    **_connection(
        connectors.Snowflake,
        "table",
        "t",
        "c",
        base={
            "name": "s",
            "account": "a",
            "db_name": "d",
            "username": USER,
            "password": WORD,
            "warehouse": "wh",
            "schema": "public",
            "role": "reader",
        },
        changes={
            "name": "r",
            "account": "b",
            "db_name": "e",
            "username": OTHER,
            "password": OTHER,
            "warehouse": "x",
            "schema": "private",
            "role": "writer",
        },
        method_base=_ROWS,
        method_changes=_OTHER_ROWS,
    ),
    **_connection(
        connectors.BigQuery,
        "table",
        "t",
        "c",
        base={"name": "b", "project_id": "p", "dataset_id": "d", "service_account_key": USER},
        changes={"name": "c", "project_id": "q", "dataset_id": "e", "service_account_key": OTHER},
        method_base=_ROWS,
        method_changes=_OTHER_ROWS,
    ),
    **_connection(
        connectors.Redshift,
        "table",
        "t",
        "c",
        base={
            "name": "r",
            "db_name": "d",
            "host": "h",
            "schema": "s",
            "username": USER,
            "password": WORD,
        },
        changes={
            "name": "q",
            "db_name": "e",
            "host": "g",
            "schema": "t",
            "port": 99,
            "s3_access_role_arn": "arn",
            "username": OTHER,
            "password": OTHER,
        },
        method_base=_ROWS,
        method_changes=_OTHER_ROWS,
    ),
    **_connection(
        connectors.Kinesis,
        "stream",
        "arn:s",
        "latest",
        base={"name": "k", "role_arn": "arn:r"},
        changes={"name": "j", "role_arn": "arn:q"},
        method_base={"stream_arn": "arn:s", "init_position": "latest"},
        method_changes={
            "stream_arn": "arn:t",
            "init_position": "trim_horizon",
            "format": connectors.Avro("confluent", "https://r"),
        },
    ),
    **_connection(
        connectors.PubSub,
        "topic",
        "t",
        base={"name": "p", "project_id": "q", "service_account_key": USER},
        changes={"name": "o", "project_id": "r", "service_account_key": OTHER},
        method_base={"topic_id": "t"},
        method_changes={"topic_id": "u", "format": "avro"},
    ),
    **_connection(
        connectors.HTTP,
        "path",
        "/rows",
        through=written_to,
        cdc="debezium",
        base={"name": "h", "host": "h:80", "healthz": "/ok"},
        changes={
            "name": "g",
            "host": "g:80",
            "healthz": "/up",
            "ca_cert": connectors.Certificate("-----BEGIN CERTIFICATE-----"),
        },
        method_base={"endpoint": "/rows"},
        method_changes={"endpoint": "/others", "limit": 5, "headers": {"x": "y"}},
    ),
    "Certificate": Example(
        build=lambda call: written_to(
            connectors.HTTP("h", "h:80", "/ok", ca_cert=call(connectors.Certificate)).path("/r"),
            cdc="debezium",
        ),
        base={"cert": "-----BEGIN CERTIFICATE-----"},
        changes={"cert": OTHER},
    ),
    "Avro": _registered(connectors.Avro),
    "Protobuf": _registered(connectors.Protobuf),
    "CSV": Example(
        build=lambda call: read_from(connectors.Files("f").path("x", format=call(connectors.CSV))),
        changes={"delimiter": ";", "headers": ["uid"], "null": "NA"},
    ),
    "Secret": Example(
        build=lambda call: read_from(
            connectors.Postgres("p", "h", "d", call(connectors.Secret), WORD).table("t", "c")
        ),
        base={"name": "user"},
        changes={"name": "reader"},
    ),
    "at_timestamp": Example(
        build=lambda call: read_from(
            connectors.Kinesis("k", "arn:r").stream("arn:s", call(at_timestamp))
        ),
        base={"timestamp": SINCE},
        changes={"timestamp": SINCE.replace(year=2025)},
    ),
    "ref": Example(
        build=lambda call: read_from(PUSHED, preproc={"name": call(ref)}),
        base={"ref_name": "a"},
        changes={"ref_name": "b"},
    ),
    "eval": Example(
        build=lambda call: read_from(PUSHED, preproc={"name": call(eval)}),
        base={"expression": col("a"), "schema": {"a": str, "b": str}},
        changes={
            "expression": col("b"),
            "schema": Change(
                {"a": optional(str)}, {"expression": col("a").fillnull("x"), "schema": {"a": str}}
            ),
        },
    ),
    "Sample": Example(
        build=lambda call: read_from(PUSHED, sample=call(connectors.Sample)),
        base={"rate": 0.5, "using": ["uid"]},
        changes={"rate": 0.25, "using": ["name"]},
    ),
    "SnapshotData": Example(
        build=lambda call: written_to(SINK_TABLE, how=call(connectors.SnapshotData)),
        base={"marker": "_DONE", "num_retain": 2},
        refused='a sink into a table needs `how="incremental"`',
    ),
    "source": Example(
        build=lambda call: of_datasets(call(source)(plain_users())),
        base={"conn": TABLE, "disorder": "1h", "cdc": "upsert"},
        changes={
            "conn": FILES,
            "disorder": "2h",
            "cdc": "append",
            "every": "5m",
            "since": SINCE,
            "until": SINCE,
            "env": "dev",
            "preproc": {"name": "x"},
            "bounded": Change(True, {"conn": FILES, "idleness": "1h"}),
            "idleness": "1h",
            "where": eval(col("uid") > 1, schema={"uid": int}),
            "sample": connectors.Sample(0.5, using=["uid"]),
        },
    ),
    "sink": Example(
        build=_sunk,
        base={"conn": SINK_TABLE, "how": "incremental"},
        changes={
            "conn": connectors.S3("s").bucket("b", prefix="x", format="delta"),
            "cdc": "debezium",
            "every": "5m",
            "how": connectors.SnapshotData("_DONE", 2),
            "renames": {"uid": "user"},
            "since": SINCE,
            "until": SINCE,
            "env": "dev",
        },
    ),
}
