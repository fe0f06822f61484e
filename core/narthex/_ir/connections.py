"""The sources and destinations of rows, as values: connectors, formats, references to secrets.

The records of connectors that only one kind uses are in `narthex._connectors`, beside the kind.
"""

import enum
from typing import TypeAlias

import attrs

from narthex._base.records import LATER, record


class Connector:
    """A place that rows come from or go to; each kind has records of this class."""

    __slots__ = ()


class Database:
    """The database of a table; each kind has records of this class."""

    __slots__ = ()


@record
@attrs.frozen
class SecretRef:
    """A secret by name; a definition never contains its value."""

    name: str


@record
@attrs.frozen
class AwsSecretRef:
    """A secret in AWS Secrets Manager; a definition never contains its value.

    Attributes:
        role_arn: The role that reads the secret; None is the platform's own.
        path: The path of members to the value, if the secret is a JSON object.
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
    """The encoding of records whose schema is in a registry."""

    AVRO = "avro"
    PROTOBUF = "protobuf"


@record
@attrs.frozen(kw_only=True)
class RegistryFormat:
    """Records whose schema is in a registry; with a username and password, a token, or neither.

    Attributes:
        registry: The kind of registry, which sets the protocol: `confluent`.
    """

    encoding: Encoding
    registry: str
    url: str
    username: Credential | None = None
    password: Credential | None = None
    token: Credential | None = None


@record
@attrs.frozen(kw_only=True)
class WebhookEndpoint(Connector):
    """Rows that clients push to `/log`; one ingest topic per (webhook, endpoint)."""

    webhook: str
    endpoint: str


@record
@attrs.frozen(kw_only=True)
class KafkaTopic(Connector):
    """Rows in a topic that the platform does not own, one row per record.

    Attributes:
        bootstrap_servers: Addresses; empty is the platform's own broker.
        format: `json`, or the format of a schema registry.
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
    """Delimited text with a header line, or with the given headers."""

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
    """One JSON object per line."""


@record
@attrs.frozen(kw_only=True)
class TableFormat:
    """Files that form a table with its own change log: `delta` or `hudi`."""

    kind: str


FileFormat: TypeAlias = Csv | Parquet | JsonLines | TableFormat


@record
@attrs.frozen(kw_only=True)
class Files(Connector):
    """Files below a path, local or `s3://`, which may have globs and parts of dates (`%Y`).

    A path without a scheme is relative to the platform's files root.

    Attributes:
        access_key: With `secret_key`, the credentials of the store; without these and without a
            role, the platform's own.
        spread_us: The greatest distance between the dates in a path and the event times of its
            rows; files further from the bounds of their source are not read.
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
class SqlDatabase(Database):
    """A PostgreSQL or MySQL database.

    Attributes:
        kind: `postgres` or `mysql`.
        jdbc_params: Further parameters of the JDBC driver, `a=1&b=2`.
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
class Table(Connector):
    """A table that is polled for rows past the last value of its cursor column.

    Attributes:
        cursor: A column that grows with each change; None only for a table that is written to.
    """

    database: Database
    table: str
    cursor: str | None = None
