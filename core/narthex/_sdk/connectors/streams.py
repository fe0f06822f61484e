"""Connectors that move single rows: webhooks, topics, streams, HTTP."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NoReturn

import attrs

from narthex._base.times import SECOND_US, to_micros
from narthex._ir.entities import (
    Credential,
    Encoding,
    HttpPath,
    KafkaTopic,
    KinesisStream,
    PubSubTopic,
    RegistryFormat,
    WebhookEndpoint,
)
from narthex._sdk.connectors.parts import Parts, not_kept

_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
_STARTS: Final = ("latest", "trim_horizon")


@attrs.frozen
class Webhook:
    """Rows that are pushed over HTTP with `client.log`.

    Attributes:
        retention: A duration; the platform's settings decide how long pushed rows are kept.
    """

    name: str
    retention: str = "7d"

    def endpoint(self, endpoint: str) -> WebhookEndpoint:
        """Declare one endpoint; several datasets can read from it.

        Raises:
            DefinitionErrors: A name is empty, or the retention is not a duration.
        """
        parts = Parts("Webhook")
        parts.duration(self.retention, "retention")
        made = WebhookEndpoint(
            webhook=parts.name(self.name), endpoint=parts.text(endpoint, "`endpoint`")
        )
        parts.report()
        return made


def _registry(
    encoding: Encoding,
    registry: object,
    url: object,
    username: object,
    password: object,
    token: object,
) -> RegistryFormat:
    parts = Parts(encoding.value.capitalize())
    made = RegistryFormat(
        encoding=encoding,
        registry=parts.one_of(registry, "registry", ("confluent",)),
        url=parts.address(url, "url"),
        username=parts.credential(username, "username"),
        password=parts.credential(password, "password"),
        token=parts.credential(token, "token"),
    )
    if (made.username is None) != (made.password is None):
        parts.refuse("a registry needs `username` and `password`, or neither")
    elif made.username is not None and made.token is not None:
        parts.refuse("a registry needs either `username` and `password`, or `token`")
    elif encoding is Encoding.PROTOBUF and made.username is None and made.token is None:
        parts.refuse("a registry of Protobuf needs `username` and `password`, or `token`")
    parts.report()
    return made


def Avro(  # noqa: N802 (it reads as a value)
    registry: str,
    url: str,
    username: Credential | None = None,
    password: Credential | None = None,
    token: Credential | None = None,
) -> RegistryFormat:
    """Avro records whose schema is in a registry; `registry` is `confluent`.

    Raises:
        DefinitionErrors: The registry is unknown, or its credentials conflict.
    """
    return _registry(Encoding.AVRO, registry, url, username, password, token)


def Protobuf(  # noqa: N802 (it reads as a value)
    registry: str,
    url: str,
    username: Credential | None = None,
    password: Credential | None = None,
    token: Credential | None = None,
) -> RegistryFormat:
    """Protobuf records whose schema is in a registry; it needs a name and password, or a token.

    Raises:
        DefinitionErrors: The registry is unknown, or its credentials conflict.
    """
    return _registry(Encoding.PROTOBUF, registry, url, username, password, token)


@attrs.frozen
class Kafka:
    """A Kafka cluster; credentials by reference, `Secret("name")`.

    Attributes:
        bootstrap_servers: Addresses; empty is the platform's own broker.
    """

    name: str
    bootstrap_servers: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_plain_username: Credential | None = attrs.field(default=None, repr=False)
    sasl_plain_password: Credential | None = attrs.field(default=None, repr=False)
    verify_cert: bool = True

    def topic(self, topic: str, format: object = "json") -> KafkaTopic:
        """Declare one topic of JSON objects, or of records with a schema in a registry.

        Raises:
            DefinitionErrors: A credential is inline instead of a reference, or the protocol, the
                mechanism or the format is unknown.
        """
        parts = Parts("Kafka")
        if not isinstance(format, RegistryFormat):
            format = parts.one_of(format, "format", ("json",))  # noqa: A001
        made = KafkaTopic(
            name=parts.name(self.name),
            bootstrap_servers=self.bootstrap_servers,
            topic=parts.text(topic, "`topic`"),
            format=format,
            security_protocol=parts.one_of(self.security_protocol, "security_protocol", _PROTOCOLS),
            sasl_mechanism=parts.one_of(self.sasl_mechanism, "sasl_mechanism", _MECHANISMS),
            username=parts.credential(self.sasl_plain_username, "sasl_plain_username"),
            password=parts.credential(self.sasl_plain_password, "sasl_plain_password"),
        )
        parts.report()
        return made

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("Kafka", name)


@attrs.frozen
class at_timestamp:  # noqa: N801 (Fennel's name)
    """The first record of a stream at an instant or after it.

    Attributes:
        timestamp: A datetime, seconds since the epoch, or text such as `2024-01-01T00:00:00Z`.
    """

    timestamp: datetime | float | str


@attrs.frozen
class Kinesis:
    """Streams of AWS Kinesis that a role may read."""

    name: str
    role_arn: str

    def stream(
        self,
        stream_arn: str,
        init_position: str | at_timestamp | datetime | float,
        format: object = "json",
    ) -> KinesisStream:
        """Declare one stream of JSON objects, or of records whose schema is in a registry.

        Args:
            stream_arn: The stream.
            init_position: `latest`, `trim_horizon`, or an instant that `at_timestamp` accepts.
            format: `json`, `Avro(…)` or `Protobuf(…)`.

        Raises:
            DefinitionErrors: A part is missing, or cannot be read.
        """
        parts = Parts("Kinesis")
        if not isinstance(format, RegistryFormat):
            format = parts.one_of(format, "format", ("json",))  # noqa: A001
        made = KinesisStream(
            name=parts.name(self.name),
            role_arn=parts.text(self.role_arn, "`role_arn`"),
            stream_arn=parts.text(stream_arn, "`stream_arn`"),
            start=_start(init_position, parts),
            format=format,
        )
        parts.report()
        return made

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("Kinesis", name)


def _start(position: object, parts: Parts) -> str | int:
    match position:
        case str() if position.lower() in _STARTS:
            return position.lower()
        case at_timestamp(timestamp=instant):
            return _start_instant(instant, parts)
        case _:
            return _start_instant(position, parts)


def _start_instant(instant: object, parts: Parts) -> int:
    match instant:
        case datetime():
            return int(to_micros(instant if instant.tzinfo else instant.replace(tzinfo=UTC)))
        case int() | float() if not isinstance(instant, bool):
            return round(instant * SECOND_US)
        case str():
            try:
                return _start_instant(datetime.fromisoformat(instant), parts)
            except ValueError:
                pass
        case _:
            pass
    parts.refuse(f"`init_position` got `{instant!r}`; expected {', '.join(_STARTS)} or an instant")
    return 0


@attrs.frozen
class PubSub:
    """Topics of a Google Pub/Sub project."""

    name: str
    project_id: str
    service_account_key: Credential = attrs.field(repr=False)

    def topic(self, topic_id: str, format: str = "json") -> PubSubTopic:
        """Declare one topic of JSON objects.

        Raises:
            DefinitionErrors: The key is inline instead of a reference, or a part is missing.
        """
        parts = Parts("PubSub")
        made = PubSubTopic(
            name=parts.name(self.name),
            project_id=parts.text(self.project_id, "`project_id`"),
            topic=parts.text(topic_id, "`topic_id`"),
            service_account_key=parts.needed(self.service_account_key, "service_account_key"),
            format=parts.one_of(format, "format", ("json",)),
        )
        parts.report()
        return made

    @staticmethod
    def get(name: str) -> NoReturn:
        """Raise an error, as connections are not configured in a console."""
        raise not_kept("PubSub", name)


@attrs.frozen
class Certificate:
    """A certificate: its text, which is not a secret, or a reference to it."""

    cert: str | Credential


@attrs.frozen
class HTTP:
    """An HTTP server that rows are sent to.

    Attributes:
        healthz: The path of its health check.
    """

    name: str
    host: str | Credential
    healthz: str
    ca_cert: Certificate | None = None

    def path(
        self,
        endpoint: str,
        limit: int | None = None,
        headers: Mapping[str, str | Credential] | None = None,
    ) -> HttpPath:
        """Declare one path; only `@sink` accepts it.

        Args:
            endpoint: The path that rows are sent to.
            limit: The greatest number of rows of a call.
            headers: Sent with each call; those that authenticate must be `Secret(…)`.

        Raises:
            DefinitionErrors: A credential is inline instead of a reference, or a part is invalid.
        """
        parts = Parts("HTTP")
        host = self.host
        made = HttpPath(
            name=parts.name(self.name),
            host=parts.address(host, "host") if isinstance(host, str) else host,
            healthz=parts.text(self.healthz, "`healthz`"),
            endpoint=parts.text(endpoint, "`endpoint`"),
            ca_cert=None if self.ca_cert is None else self.ca_cert.cert,
            limit=None if limit is None else parts.number(limit, "limit"),
            headers=parts.headers(headers or {}),
        )
        parts.report()
        return made
