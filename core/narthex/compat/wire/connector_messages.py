"""Sources and sinks as Fennel's client sends them."""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from narthex.compat.wire.expression_messages import ExpressionMessage
from narthex.compat.wire.fields import at
from narthex.compat.wire.pipeline_messages import CodeMessage
from narthex.compat.wire.schema_messages import (
    DurationMessage,
    EmptyMessage,
    InstantMessage,
    SchemaMessage,
    ValueMessage,
)

__all__ = [
    "DatabaseMessage",
    "PlaceMessage",
    "PreprocMessage",
    "SecretMessage",
    "SinkMessage",
    "SourceMessage",
]


@attrs.frozen(kw_only=True)
class SecretMessage:
    """A secret in AWS Secrets Manager."""

    arn: str = at(1)
    role_arn: str | None = at(2)
    path: tuple[str, ...] = at(3)


@attrs.frozen(kw_only=True)
class WebhookMessage:
    """A webhook."""

    UNREAD: ClassVar = frozenset({2})
    name: str = at(1)


@attrs.frozen(kw_only=True)
class SqlMessage:
    """A PostgreSQL or MySQL database."""

    host: str = at(1)
    database: str = at(2)
    username: str | None = at(3)
    password: str | None = at(4)
    port: int = at(5)
    jdbc_params: str = at(6)
    username_secret: SecretMessage | None = at(7)
    password_secret: SecretMessage | None = at(8)


@attrs.frozen(kw_only=True)
class BucketsMessage:
    """An account of S3."""

    secret_key: str | None = at(1)
    access_key: str | None = at(2)
    role_arn: str | None = at(3)
    secret_key_secret: SecretMessage | None = at(4)
    access_key_secret: SecretMessage | None = at(5)


@attrs.frozen(kw_only=True)
class BrokersMessage:
    """A Kafka cluster."""

    UNREAD: ClassVar = frozenset({4, 7})
    bootstrap_servers: str = at(1)
    security_protocol: str = at(2)
    sasl_mechanism: str = at(3)
    username: str | None = at(5)
    password: str | None = at(6)
    username_secret: SecretMessage | None = at(8)
    password_secret: SecretMessage | None = at(9)


@attrs.frozen(kw_only=True)
class OtherMessage:
    """A system whose connectors are not translated."""

    UNREAD: ClassVar = frozenset(range(1, 20))


@attrs.frozen(kw_only=True)
class DatabaseMessage:
    """A system that contains sources or sinks: its kind is the field that is not None."""

    name: str = at(1)
    mysql: SqlMessage | None = at(2)
    postgres: SqlMessage | None = at(3)
    reference: OtherMessage | None = at(4)
    s3: BucketsMessage | None = at(5)
    bigquery: OtherMessage | None = at(6)
    snowflake: OtherMessage | None = at(7)
    kafka: BrokersMessage | None = at(8)
    webhook: WebhookMessage | None = at(9)
    kinesis: OtherMessage | None = at(10)
    redshift: OtherMessage | None = at(11)
    mongo: OtherMessage | None = at(12)
    pubsub: OtherMessage | None = at(13)
    http: OtherMessage | None = at(14)


@attrs.frozen(kw_only=True)
class TableMessage:
    """A table."""

    UNREAD: ClassVar = frozenset({3})
    database: DatabaseMessage = at(1)
    table: str = at(2)


@attrs.frozen(kw_only=True)
class BucketMessage:
    """Files in a bucket."""

    UNREAD: ClassVar = frozenset({7})
    bucket: str = at(1)
    prefix: str = at(2)
    spread: DurationMessage | None = at(3)
    delimiter: str = at(4)
    format: str = at(5)
    database: DatabaseMessage = at(6)
    suffix: str = at(8)
    headers: tuple[str, ...] = at(9)


@attrs.frozen(kw_only=True)
class WrappedTextMessage:
    """A text that may be missing."""

    value: str = at(1)


@attrs.frozen(kw_only=True)
class BasicAuthMessage:
    """A username and a password."""

    username: str | None = at(1)
    password: WrappedTextMessage | None = at(2)
    username_secret: SecretMessage | None = at(3)
    password_secret: SecretMessage | None = at(4)


@attrs.frozen(kw_only=True)
class TokenAuthMessage:
    """A token."""

    token: str | None = at(1)
    token_secret: SecretMessage | None = at(2)


@attrs.frozen(kw_only=True)
class AuthMessage:
    """Credentials over HTTP: the field that is not None."""

    basic: BasicAuthMessage | None = at(1)
    token: TokenAuthMessage | None = at(2)


@attrs.frozen(kw_only=True)
class RegistryMessage:
    """A registry of schemas; the client knows one kind, Confluent's."""

    UNREAD: ClassVar = frozenset({1})
    url: str = at(2)
    auth: AuthMessage | None = at(3)


@attrs.frozen(kw_only=True)
class RegistryFormatMessage:
    """Records whose schema is in a registry."""

    registry: RegistryMessage = at(1)


@attrs.frozen(kw_only=True)
class TopicFormatMessage:
    """The format of records: the field that is not None."""

    json: EmptyMessage | None = at(1)
    avro: RegistryFormatMessage | None = at(2)
    protobuf: RegistryFormatMessage | None = at(3)


@attrs.frozen(kw_only=True)
class TopicMessage:
    """A topic of a Kafka cluster."""

    database: DatabaseMessage = at(1)
    topic: str = at(2)
    format: TopicFormatMessage = at(3)


@attrs.frozen(kw_only=True)
class EndpointMessage:
    """An endpoint of a webhook."""

    UNREAD: ClassVar = frozenset({3})
    database: DatabaseMessage = at(1)
    endpoint: str = at(2)


@attrs.frozen(kw_only=True)
class PlaceMessage:
    """A place that rows come from or go to: its kind is the field that is not None."""

    mysql: TableMessage | None = at(1)
    postgres: TableMessage | None = at(2)
    s3: BucketMessage | None = at(3)
    kafka: TopicMessage | None = at(4)
    snowflake: OtherMessage | None = at(5)
    bigquery: OtherMessage | None = at(6)
    webhook: EndpointMessage | None = at(7)
    kinesis: OtherMessage | None = at(8)
    redshift: OtherMessage | None = at(9)
    mongo: OtherMessage | None = at(10)
    pubsub: OtherMessage | None = at(11)
    http: OtherMessage | None = at(12)


@attrs.frozen(kw_only=True)
class EvalMessage:
    """A computation from raw columns: by an expression or by a function."""

    schema: SchemaMessage = at(1)
    expression: ExpressionMessage | None = at(2)
    code: CodeMessage | None = at(3)


@attrs.frozen(kw_only=True)
class PreprocMessage:
    """The origin of one field: the field that is not None."""

    ref: str | None = at(1)
    value: ValueMessage | None = at(2)
    eval: EvalMessage | None = at(3)


@attrs.frozen(kw_only=True)
class SampleMessage:
    """A share of rows, and the fields by which they are drawn."""

    rate: float = at(1)
    using: tuple[str, ...] = at(2)


@attrs.frozen(kw_only=True)
class SourceMessage:
    """A source that its env selects."""

    UNREAD: ClassVar = frozenset({7, 11})
    place: PlaceMessage = at(1)
    dataset: str = at(2)
    version: int = at(3)
    every: DurationMessage | None = at(4)
    cursor: str | None = at(5)
    disorder: DurationMessage = at(6)
    cdc: int = at(8)
    since: InstantMessage | None = at(9)
    preproc: Mapping[str, PreprocMessage] = at(10)
    bounded: bool = at(12)
    idleness: DurationMessage | None = at(13)
    until: InstantMessage | None = at(14)
    where_code: CodeMessage | None = at(15)
    sample: SampleMessage | None = at(16)
    where: ExpressionMessage | None = at(17)
    where_schema: SchemaMessage | None = at(18)


@attrs.frozen(kw_only=True)
class SnapshotMessage:
    """The snapshots of a sink."""

    marker: str = at(1)
    num_retain: int = at(2)


@attrs.frozen(kw_only=True)
class StyleMessage:
    """How a sink is written: the field that is not None."""

    incremental: EmptyMessage | None = at(1)
    recreate: EmptyMessage | None = at(2)
    snapshots: SnapshotMessage | None = at(3)


@attrs.frozen(kw_only=True)
class SinkMessage:
    """A sink that its env selects. The client leaves out its renames."""

    UNREAD: ClassVar = frozenset({7, 11})
    place: PlaceMessage = at(1)
    dataset: str = at(2)
    version: int = at(3)
    cdc: int | None = at(4)
    every: DurationMessage | None = at(5)
    how: StyleMessage | None = at(6)
    renames: Mapping[str, str] = at(8)
    since: InstantMessage | None = at(9)
    until: InstantMessage | None = at(10)
