"""Connectors: where rows of a source come from."""

import attrs

from narthex.declare.places import author_origin
from narthex.entities import Csv, JsonLines, KafkaTopic, Parquet, SecretRef, WebhookEndpoint
from narthex.entities import Files as FilesEntity
from narthex.errors import ConnectorInvalid, CredentialInline, NotYetSupported

_PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")


def Secret(name: str) -> SecretRef:  # noqa: N802 (it reads as a value)
    """Name a secret that the platform keeps; its value never stands in a definition."""
    return SecretRef(name)


def _secret(value: object, what: str) -> SecretRef | None:
    if value is None or isinstance(value, SecretRef):
        return value
    raise CredentialInline(
        f"`{what}` stands in the definition, where everybody can read it",
        origin=author_origin(),
        hint=f'keep it with the platform and write `{what}=Secret("…")`',
    )


def _named(name: object, what: str) -> str:
    if isinstance(name, str) and name:
        return name
    raise ConnectorInvalid(f"{what} found `{name!r}`; it wants a name", origin=author_origin())


@attrs.frozen
class Webhook:
    """Rows that are pushed over HTTP with `client.log`.

    Attributes:
        retention: Taken for compatibility; pushed rows are kept as the platform is set up to.
    """

    name: str
    retention: str = "7d"

    def endpoint(self, endpoint: str) -> WebhookEndpoint:
        """Give one endpoint; several datasets may be fed from it."""
        return WebhookEndpoint(
            webhook=_named(self.name, "`Webhook`"), endpoint=_named(endpoint, "`endpoint`")
        )


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
    sasl_plain_username: SecretRef | None = None
    sasl_plain_password: SecretRef | None = None
    verify_cert: bool = True

    def topic(self, topic: str, format: object = "json") -> KafkaTopic:
        """Give one topic, of JSON objects.

        Raises:
            CredentialInline: A credential was given itself, not by reference.
            ConnectorInvalid: The protocol or the mechanism is unknown.
        """
        origin = author_origin()
        if format != "json":
            raise NotYetSupported(
                f"format `{format!r}` of a Kafka topic is not supported yet; `json` is",
                origin=origin,
            )
        if self.security_protocol not in _PROTOCOLS:
            raise ConnectorInvalid(
                f"`security_protocol` found `{self.security_protocol}`; it wants one of "
                f"{', '.join(_PROTOCOLS)}",
                origin=origin,
            )
        if self.sasl_mechanism not in _MECHANISMS:
            raise ConnectorInvalid(
                f"`sasl_mechanism` found `{self.sasl_mechanism}`; it wants one of "
                f"{', '.join(_MECHANISMS)}",
                origin=origin,
            )
        return KafkaTopic(
            name=_named(self.name, "`Kafka`"),
            bootstrap_servers=self.bootstrap_servers,
            topic=_named(topic, "`topic`"),
            security_protocol=self.security_protocol,
            sasl_mechanism=self.sasl_mechanism,
            username=_secret(self.sasl_plain_username, "sasl_plain_username"),
            password=_secret(self.sasl_plain_password, "sasl_plain_password"),
        )


def CSV(  # noqa: N802 (it reads as a value)
    delimiter: str = ",", headers: list[str] | None = None, null: str = ""
) -> Csv:
    """Delimited text.

    Args:
        delimiter: One character.
        headers: Column names; not given, the first line has them.
        null: The text that stands for a missing value, such as `NA`.

    Raises:
        ConnectorInvalid: The delimiter is not one character.
    """
    if len(delimiter) != 1:
        raise ConnectorInvalid(
            f"`delimiter` found `{delimiter}`; it wants one character", origin=author_origin()
        )
    return Csv(delimiter=delimiter, headers=tuple(headers) if headers else None, null=null)


def _format(format: object) -> Csv | Parquet | JsonLines:
    match format:
        case Csv() | Parquet() | JsonLines():
            return format
        case "csv":
            return Csv()
        case "parquet":
            return Parquet()
        case "json" | "jsonl":
            return JsonLines()
        case "delta" | "hudi":
            raise NotYetSupported(
                f"format `{format}` is not supported yet; csv, json and parquet are",
                origin=author_origin(),
            )
        case _:
            raise ConnectorInvalid(
                f"`format` found `{format!r}`; it wants csv, json or parquet",
                origin=author_origin(),
            )


@attrs.frozen
class Files:
    """Files that the platform can read; relative paths stand below its file root."""

    name: str

    def path(self, path: str, format: object = "csv") -> FilesEntity:
        """Give the files at a path or an `s3://` address; `*`, `**` and `?` can stand in it.

        Raises:
            ConnectorInvalid: The name or the path is empty, or the format is none.
            NotYetSupported: An address of another store.
        """
        at = _named(path, "`path`")
        if "://" in at and not at.startswith("s3://"):
            raise NotYetSupported(
                f"files at `{at}` are not supported yet",
                origin=author_origin(),
                hint="give a path, or an address that begins with `s3://`",
            )
        return FilesEntity(
            name=_named(self.name, "`Files`"),
            path=at,
            format=_format(format),
        )


@attrs.frozen
class S3:
    """Files in S3 or what speaks its protocol; credentials by reference, or the platform's own."""

    name: str
    aws_access_key_id: SecretRef | None = None
    aws_secret_access_key: SecretRef | None = None
    role_arn: str | None = None

    def bucket(
        self,
        bucket_name: str,
        prefix: str | None = None,
        path: str | None = None,
        format: object = "csv",
        presorted: bool = False,  # noqa: ARG002 (Fennel's signature)
        spread: str | None = None,
    ) -> FilesEntity:
        """Give the files below a prefix or at a path; exactly one of the two.

        Args:
            bucket_name: The bucket.
            prefix: All files below it are read.
            path: `*` and `**` can stand in it; parts of dates (`%Y`) cannot yet.
            format: `csv`, `json`, `parquet`, or `CSV(…)`.
            presorted: Taken for compatibility; rows need no order.
            spread: Taken for compatibility; it needs `path`.

        Raises:
            ConnectorInvalid: Both or neither of prefix and path, or `spread` without `path`.
            CredentialInline: A credential was given itself, not by reference.
            NotYetSupported: Credentials or a role of the source's own, or parts of dates.
        """
        origin = author_origin()
        own = (
            _secret(self.aws_access_key_id, "aws_access_key_id"),
            _secret(self.aws_secret_access_key, "aws_secret_access_key"),
            self.role_arn,
        )
        if any(own):
            raise NotYetSupported(
                f"credentials of the source `{self.name}`'s own are not supported yet",
                origin=origin,
                hint="leave them out; the platform reads `AWS_ACCESS_KEY_ID` and its fellows",
            )
        if (prefix is None) == (path is None):
            raise ConnectorInvalid("a bucket wants either `prefix` or `path`", origin=origin)
        if spread is not None and path is None:
            raise ConnectorInvalid("`spread` goes with `path`", origin=origin)
        if path is not None and "%" in path:
            raise NotYetSupported(
                f"parts of dates in the path `{path}` are not supported yet",
                origin=origin,
                hint="write `*` in their place",
            )
        below = path if path is not None else f"{(prefix or '').rstrip('/')}/**"
        return FilesEntity(
            name=_named(self.name, "`S3`"),
            path=f"s3://{_named(bucket_name, '`bucket_name`')}/{below.lstrip('/')}",
            format=_format(format),
        )
