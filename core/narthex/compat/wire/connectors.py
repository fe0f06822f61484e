"""Connectors from the messages of Fennel's client, without the credentials that it sends as text.

The client sends a credential as plain text, or as a reference to AWS Secrets Manager. Text is
never stored: a secret of the platform, named after the connector and the parameter, replaces it.
"""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from narthex._base.origin import Origin
from narthex._ir.connections import (
    AwsSecretRef,
    Connector,
    Credential,
    Csv,
    Encoding,
    FileFormat,
    Files,
    JsonLines,
    KafkaTopic,
    Parquet,
    RegistryFormat,
    SecretRef,
    SqlDatabase,
    Table,
    TableFormat,
    WebhookEndpoint,
)
from narthex.compat.wire.connector_messages import (
    AuthMessage,
    BucketMessage,
    EndpointMessage,
    PlaceMessage,
    SecretMessage,
    TableMessage,
    TopicFormatMessage,
    TopicMessage,
)
from narthex.compat.wire.fields import choice_of
from narthex.connectors import MySQL, Postgres
from narthex.errors import ConnectorInvalid, NotYetSupported


@attrs.frozen
class Connectors:
    """Translates the connectors of one commit.

    Attributes:
        replaced: The names of the secrets that replace credentials sent as text, as keys.
    """

    replaced: dict[str, None] = attrs.field(factory=dict)

    def connector_of(self, message: PlaceMessage, cursor: str | None, origin: Origin) -> Connector:
        """Return the place that rows come from or go to.

        Raises:
            NotYetSupported: Its kind is not translated.
            ConnectorInvalid: The message does not describe it in full.
        """
        kind, part = choice_of(message)
        match part:
            case EndpointMessage():
                return WebhookEndpoint(webhook=part.database.name, endpoint=part.endpoint)
            case TopicMessage():
                return self._topic(part, origin)
            case BucketMessage():
                return self._files(part, origin)
            case TableMessage():
                return self._table(kind, part, cursor, origin)
            case _:
                raise NotYetSupported(
                    f"a connector of {kind}, sent by Fennel's client",
                    origin=origin,
                    hint="declare it with `narthex.connectors`, and commit with `narthex.client`",
                )

    def _credential(
        self, connector: str, parameter: str, text: str | None, secret: SecretMessage | None
    ) -> Credential | None:
        if secret is not None:
            return AwsSecretRef(arn=secret.arn, role_arn=secret.role_arn, path=secret.path)
        if not text:
            return None
        name = f"{connector}/{parameter}"
        self.replaced[name] = None
        return SecretRef(name)

    def _topic(self, part: TopicMessage, origin: Origin) -> KafkaTopic:
        name, brokers = part.database.name, part.database.kafka
        if brokers is None:
            raise ConnectorInvalid(f"topic `{part.topic}` is of no Kafka cluster", origin=origin)
        return KafkaTopic(
            name=name,
            bootstrap_servers=brokers.bootstrap_servers,
            topic=part.topic,
            format=self._format(name, part.format),
            security_protocol=brokers.security_protocol,
            sasl_mechanism=brokers.sasl_mechanism,
            username=self._credential(
                name, "sasl_plain_username", brokers.username, brokers.username_secret
            ),
            password=self._credential(
                name, "sasl_plain_password", brokers.password, brokers.password_secret
            ),
        )

    def _format(self, connector: str, message: TopicFormatMessage) -> str | RegistryFormat:
        kind, part = choice_of(message)
        if kind == "json":
            return "json"
        encoding = Encoding.AVRO if kind == "avro" else Encoding.PROTOBUF
        credentials = self._auth(connector, part.registry.auth)
        return RegistryFormat(
            encoding=encoding, registry="confluent", url=part.registry.url, **credentials
        )

    def _auth(self, connector: str, auth: AuthMessage | None) -> dict[str, Credential | None]:
        found: dict[str, Credential | None] = {}
        if auth is not None and auth.basic is not None:
            basic = auth.basic
            password = None if basic.password is None else basic.password.value
            found["username"] = self._credential(
                connector, "username", basic.username, basic.username_secret
            )
            found["password"] = self._credential(
                connector, "password", password, basic.password_secret
            )
        if auth is not None and auth.token is not None:
            found["token"] = self._credential(
                connector, "token", auth.token.token, auth.token.token_secret
            )
        return found

    def _files(self, part: BucketMessage, origin: Origin) -> Files:
        name, account = part.database.name, part.database.s3
        if account is None:
            raise ConnectorInvalid(f"bucket `{part.bucket}` is of no account", origin=origin)
        below = f"{part.prefix}{part.suffix}" if part.suffix else f"{part.prefix.rstrip('/')}/**"
        return Files(
            name=name,
            path=f"s3://{part.bucket}/{below.lstrip('/')}",
            format=_file_format(part, origin),
            access_key=self._credential(
                name, "aws_access_key_id", account.access_key, account.access_key_secret
            ),
            secret_key=self._credential(
                name, "aws_secret_access_key", account.secret_key, account.secret_key_secret
            ),
            role_arn=account.role_arn,
            spread_us=None if part.spread is None else part.spread.micros,
        )

    def _table(self, kind: str, part: TableMessage, cursor: str | None, origin: Origin) -> Table:
        name, database = part.database.name, getattr(part.database, kind)
        if part.database.reference is not None:
            named = Postgres.get(name) if kind == "postgres" else MySQL.get(name)
            return named.table(part.table, cursor or "")
        if database is None:
            raise ConnectorInvalid(f"table `{part.table}` is of no {kind} database", origin=origin)
        username = self._credential(name, "username", database.username, database.username_secret)
        password = self._credential(name, "password", database.password, database.password_secret)
        if username is None or password is None:
            raise ConnectorInvalid(
                f"the database `{name}` has no username or no password", origin=origin
            )
        return Table(
            database=SqlDatabase(
                kind=kind,
                name=name,
                host=database.host,
                port=database.port,
                db_name=database.database,
                username=username,
                password=password,
                jdbc_params=database.jdbc_params or None,
            ),
            table=part.table,
            cursor=cursor or None,
        )


_FILE_FORMATS: Final[Mapping[str, Callable[[BucketMessage], FileFormat]]] = {
    "csv": lambda part: Csv(delimiter=part.delimiter or ",", headers=part.headers or None),
    "json": lambda _: JsonLines(),
    "parquet": lambda _: Parquet(),
    "delta": lambda _: TableFormat(kind="delta"),
    "hudi": lambda _: TableFormat(kind="hudi"),
}


def _file_format(part: BucketMessage, origin: Origin) -> FileFormat:
    made = _FILE_FORMATS.get(part.format)
    if made is None:
        raise ConnectorInvalid(
            f"the format of bucket `{part.bucket}` is `{part.format}`; expected one of "
            f"{', '.join(_FILE_FORMATS)}",
            origin=origin,
        )
    return made(part)
