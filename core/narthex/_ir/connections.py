"""Where rows come from and go to, as values: connectors, their formats, secrets by reference."""

import enum
from typing import TypeAlias

import attrs

from narthex._base.records import LATER, record


@record
@attrs.frozen
class SecretRef:
    """A secret by name; its value is never in a definition."""

    name: str


@record
@attrs.frozen
class AwsSecretRef:
    """A secret in AWS Secrets Manager; its value is never in a definition.

    Attributes:
        role_arn: The role in which it is read; None is the platform's own.
        path: The members that lead into it, if it is a JSON object.
    """

    arn: str
    role_arn: str | None = None
    path: tuple[str, ...] = ()

    def __getitem__(self, member: str) -> "AwsSecretRef":
        """Return a reference to one member of the secret."""
        return attrs.evolve(self, path=(*self.path, member))


Credential: TypeAlias = SecretRef | AwsSecretRef


@record
class Encoding(enum.Enum):
    """How records are written whose schema a registry keeps."""

    AVRO = "avro"
    PROTOBUF = "protobuf"


@record
@attrs.frozen(kw_only=True)
class RegistryFormat:
    """Records whose schema a registry keeps; a name with a password, a token, or neither.

    Attributes:
        registry: Whose protocol it speaks: `confluent`.
    """

    encoding: Encoding
    registry: str
    url: str
    username: Credential | None = None
    password: Credential | None = None
    token: Credential | None = None


@record
@attrs.frozen(kw_only=True)
class WebhookEndpoint:
    """Rows that are pushed to `/log`; one ingest topic per (webhook, endpoint)."""

    webhook: str
    endpoint: str


@record
@attrs.frozen(kw_only=True)
class KafkaTopic:
    """Rows in a topic that somebody else owns, one a record.

    Attributes:
        bootstrap_servers: Addresses; empty is the platform's own broker.
        format: `json`, or what a registry keeps the schema of.
    """

    name: str
    bootstrap_servers: str
    topic: str
    format: str | RegistryFormat = "json"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    username: Credential | None = None
    password: Credential | None = None


@record
@attrs.frozen(kw_only=True)
class Csv:
    """Delimited text with a header line, or with the headers given."""

    delimiter: str = ","
    headers: tuple[str, ...] | None = None
    null: str = ""


@record
@attrs.frozen(kw_only=True)
class Parquet:
    """Apache Parquet."""


@record
@attrs.frozen(kw_only=True)
class JsonLines:
    """One JSON object a line."""


@record
@attrs.frozen(kw_only=True)
class TableFormat:
    """Files that are a table with a log of its own changes: `delta` or `hudi`."""

    kind: str


FileFormat: TypeAlias = Csv | Parquet | JsonLines | TableFormat


@record
@attrs.frozen(kw_only=True)
class Files:
    """Files below a path, local or `s3://`; a glob may stand in it, and parts of dates (`%Y`).

    A path that is no address is relative to the platform's files root.

    Attributes:
        access_key: With `secret_key`, or a role, what opens the store; else the platform's own.
        spread_us: How far the dates of a path may lie from the event times of its rows.
    """

    name: str
    path: str
    format: FileFormat
    access_key: Credential | None = attrs.field(default=None, metadata=LATER)
    secret_key: Credential | None = attrs.field(default=None, metadata=LATER)
    role_arn: str | None = attrs.field(default=None, metadata=LATER)
    spread_us: int | None = attrs.field(default=None, metadata=LATER)


@record
@attrs.frozen(kw_only=True)
class SqlDatabase:
    """A database of PostgreSQL or MySQL.

    Attributes:
        kind: `postgres` or `mysql`.
        jdbc_params: What else its driver is told, `a=1&b=2`.
    """

    kind: str
    name: str
    host: str
    port: int
    db_name: str
    username: Credential
    password: Credential
    jdbc_params: str | None = None


@record
@attrs.frozen(kw_only=True)
class SnowflakeDatabase:
    """A schema of a Snowflake account."""

    name: str
    account: str
    db_name: str
    schema: str
    warehouse: str
    role: str
    username: Credential
    password: Credential


@record
@attrs.frozen(kw_only=True)
class BigQueryDataset:
    """A dataset of a BigQuery project."""

    name: str
    project_id: str
    dataset_id: str
    service_account_key: Credential


@record
@attrs.frozen(kw_only=True)
class RedshiftDatabase:
    """A schema of a Redshift database, read by a role or by a name with a password."""

    name: str
    host: str
    port: int
    db_name: str
    schema: str
    role_arn: str | None = None
    username: Credential | None = None
    password: Credential | None = None


@record
@attrs.frozen(kw_only=True)
class MongoDatabase:
    """A database of MongoDB; its tables are collections."""

    name: str
    host: str
    db_name: str
    username: Credential
    password: Credential


Database: TypeAlias = (
    SqlDatabase | SnowflakeDatabase | BigQueryDataset | RedshiftDatabase | MongoDatabase
)


@record
@attrs.frozen(kw_only=True)
class Table:
    """A table that is read again and again from where its cursor column stood.

    Attributes:
        cursor: A column that grows with each change; None only where rows are written to it.
    """

    database: Database
    table: str
    cursor: str | None = None


@record
@attrs.frozen(kw_only=True)
class KinesisStream:
    """Rows in a stream of AWS Kinesis, one a record.

    Attributes:
        start: `latest`, `trim_horizon`, or an instant in microseconds.
        format: `json`, or what a registry keeps the schema of.
    """

    name: str
    role_arn: str
    stream_arn: str
    start: str | int
    format: str | RegistryFormat = "json"


@record
@attrs.frozen(kw_only=True)
class PubSubTopic:
    """Rows in a topic of Google's Pub/Sub, JSON objects."""

    name: str
    project_id: str
    topic: str
    service_account_key: Credential
    format: str = "json"


@record
@attrs.frozen(kw_only=True)
class HttpPath:
    """Where rows are sent over HTTP.

    Attributes:
        healthz: The path that says whether the other side is there.
        limit: How many rows a call may have at most.
        headers: Sent with each call.
    """

    name: str
    host: str | Credential
    healthz: str
    endpoint: str
    ca_cert: str | Credential | None = None
    limit: int | None = None
    headers: tuple[tuple[str, str | Credential], ...] = ()


Connector: TypeAlias = WebhookEndpoint | KafkaTopic | Files | Table | KinesisStream | PubSubTopic
SinkTarget: TypeAlias = KafkaTopic | HttpPath | Files | Table
