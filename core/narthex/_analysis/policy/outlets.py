"""Which servers a connector connects to, and which of its credentials each of them receives.

The check of a commit and the job that connects both read a connector's addresses here, so both
see the same hosts.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, assert_never
from urllib.parse import parse_qsl

import attrs

from narthex._analysis.policy.egress import (
    AddressInvalidError,
    Destination,
    HttpAddress,
    parse_host,
    parse_http,
    parse_path,
    parse_target,
    parse_targets,
)
from narthex._ir.connections import (
    BigQueryDataset,
    Connector,
    Credential,
    Database,
    Files,
    HttpPath,
    KafkaTopic,
    KinesisStream,
    MongoDatabase,
    PubSubTopic,
    RedshiftDatabase,
    RegistryFormat,
    SecretRef,
    SinkTarget,
    SnowflakeDatabase,
    SqlDatabase,
    Table,
    WebhookEndpoint,
)

GOOGLE: Final = Destination("googleapis.com", 443)
AWS: Final = Destination("amazonaws.com", 443)
"""The clouds' own endpoints; a definition cannot redirect a client to another host."""

ATLAS: Final = ".mongodb.net"
"""The suffix of Atlas hosts, each the name of a whole cluster that an SRV lookup resolves."""

KAFKA_PORT: Final = 9092
MONGO_PORT: Final = 27017
HTTPS_PORT: Final = 443
PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")

POSTGRES_OPTIONS: Final = frozenset({"application_name", "connect_timeout", "sslmode"})
MYSQL_OPTIONS: Final = frozenset({"sslMode"})
MONGO_OPTIONS: Final = frozenset(
    {"authSource", "directConnection", "readPreference", "replicaSet", "ssl", "tls"}
)
"""The options of each driver that a definition may set; none names a file or a host."""

_VALUE: Final = re.compile(r"[A-Za-z0-9_.-]{0,100}")
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_REGION: Final = re.compile(r"[a-z0-9-]{0,40}")
_SCHEME: Final = re.compile(r"(mongodb(?:\+srv)?)://(.*)", re.DOTALL)


@attrs.frozen(kw_only=True)
class Outlet:
    """Servers of one kind that a connector connects to.

    Attributes:
        what: The parameter that names them, for messages.
        targets: Empty where a secret contains the host.
        credentials: The credentials that each of them receives.
        is_fixed: Whether they are a cloud's own endpoints or the platform's object store.
        is_cluster: Whether they redirect a client to other servers.
    """

    what: str
    targets: tuple[Destination, ...]
    credentials: tuple[Credential, ...] = ()
    is_fixed: bool = False
    is_cluster: bool = False


@attrs.frozen(kw_only=True)
class MongoAddress:
    """The address of a MongoDB deployment.

    Attributes:
        targets: Its hosts; with `is_srv`, the one name that an SRV lookup resolves.
        options: Options from `MONGO_OPTIONS`.
    """

    targets: tuple[Destination, ...]
    is_srv: bool
    options: Mapping[str, str]

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        chosen = self.options.get("tls", self.options.get("ssl"))
        return self.is_srv if chosen is None else chosen == "true"

    @property
    def url(self) -> str:
        """The address in the form that the driver reads."""
        scheme = "mongodb+srv" if self.is_srv else "mongodb"
        hosts = ",".join(str(Destination(one.host) if self.is_srv else one) for one in self.targets)
        more = "&".join(f"{name}={value}" for name, value in self.options.items())
        return f"{scheme}://{hosts}/" + (f"?{more}" if more else "")


def kafka_targets(topic: KafkaTopic) -> tuple[Destination, ...]:
    """Return the bootstrap servers of a topic; none for the platform's own broker.

    Raises:
        AddressInvalidError: One of them is not an address.
    """
    if topic.security_protocol not in PROTOCOLS:
        raise AddressInvalidError(f"`{topic.security_protocol}` is not a security protocol")
    if not topic.bootstrap_servers:
        return ()
    return parse_targets(topic.bootstrap_servers, default_port=KAFKA_PORT)


def registry_address(format: RegistryFormat) -> HttpAddress:
    """Return the address of a schema registry.

    Raises:
        AddressInvalidError: Its `url` is not an address of http or https.
    """
    return _with_port(parse_http(format.url))


def sink_address(host: str) -> HttpAddress:
    """Return the address of an HTTP sink's host.

    Raises:
        AddressInvalidError: It is not an address of http or https, or has a path.
    """
    address = parse_http(host)
    if address.path:
        raise AddressInvalidError(f"`{host}` has a path; put it into `endpoint`")
    return _with_port(address)


def sql_target(database: SqlDatabase | RedshiftDatabase) -> Destination:
    """Return the server of a database.

    Raises:
        AddressInvalidError: Its host is not one.
    """
    return Destination(parse_host(database.host), database.port)


def snowflake_target(database: SnowflakeDatabase) -> Destination:
    """Return the server of a Snowflake account.

    Raises:
        AddressInvalidError: The account is not the name of one.
    """
    account = database.account
    if not _ACCOUNT.fullmatch(account):
        raise AddressInvalidError(f"`{account}` is not the name of an account")
    domain = "cn" if account.partition(".")[2].startswith("cn-") else "com"
    return Destination(parse_host(f"{account}.snowflakecomputing.{domain}"), HTTPS_PORT)


def mongo_address(host: str) -> MongoAddress:
    """Read the host of a MongoDB deployment: names, or a whole address with options.

    Raises:
        AddressInvalidError: A host is not one, or an option is not in `MONGO_OPTIONS`.
    """
    given = _SCHEME.fullmatch(host)
    scheme, rest = (given[1], given[2]) if given else ("", host)
    hosts, _, more = rest.partition("?")
    hosts = hosts.removesuffix("/")
    is_srv = scheme == "mongodb+srv" or (
        not scheme and hosts.endswith(ATLAS) and ":" not in hosts and "," not in hosts
    )
    if is_srv:
        targets: tuple[Destination, ...] = (attrs.evolve(parse_target(hosts), port=MONGO_PORT),)
    else:
        targets = parse_targets(hosts, default_port=MONGO_PORT)
    return MongoAddress(targets=targets, is_srv=is_srv, options=options(more, MONGO_OPTIONS))


def options(text: str | None, known: frozenset[str]) -> dict[str, str]:
    """Read options `a=1&b=2` of a driver; only known ones are allowed.

    Raises:
        AddressInvalidError: One is unknown, is given twice, or has a value with other characters.
    """
    pairs = parse_qsl(text or "", keep_blank_values=True)
    unknown = sorted({name for name, _ in pairs if name not in known})
    if unknown:
        raise AddressInvalidError(
            f"{', '.join(f'`{name}`' for name in unknown)} cannot be set;"
            f" there are {', '.join(sorted(known))}"
        )
    if len({name for name, _ in pairs}) < len(pairs):
        raise AddressInvalidError("an option is given twice")
    for name, value in pairs:
        if not _VALUE.fullmatch(value):
            raise AddressInvalidError(f"`{name}` has an invalid value")
    return dict(pairs)


def driver_options(database: SqlDatabase) -> dict[str, str]:
    """Return the options that `jdbc_params` sets for a database.

    Raises:
        AddressInvalidError: One of them cannot be set.
    """
    known = MYSQL_OPTIONS if database.kind == "mysql" else POSTGRES_OPTIONS
    return options(database.jdbc_params, known)


def object_store(endpoint_url: str) -> Destination:
    """Return the store that `s3://` names: the platform's own endpoint, or Amazon's.

    Raises:
        AddressInvalidError: The endpoint is not an address.
    """
    return _with_port(parse_http(endpoint_url)).target if endpoint_url else AWS


Opens: TypeAlias = Connector | SinkTarget


def outlets(of: Opens, *, endpoint_url: str = "") -> Iterator[Outlet]:
    """Return the servers that a connector of a source or of a sink connects to.

    Args:
        of: The connector.
        endpoint_url: The address of the platform's object store; empty for Amazon's.

    Raises:
        AddressInvalidError: A part of it is not an address.
    """
    match of:
        case WebhookEndpoint():
            return
        case KafkaTopic():
            yield from _of_topic(of)
        case Files():
            yield from _of_files(of, endpoint_url)
        case Table(database=database):
            yield _of_database(database)
        case KinesisStream(format=format):
            yield Outlet(what="`stream_arn`", targets=(_in_region(of.stream_arn),), is_fixed=True)
            yield from _of_format(format)
        case PubSubTopic(service_account_key=key):
            yield Outlet(
                what="`service_account_key`", targets=(GOOGLE,), credentials=(key,), is_fixed=True
            )
        case HttpPath():
            yield _of_http(of)
        case _:
            assert_never(of)


def _of_topic(topic: KafkaTopic) -> Iterator[Outlet]:
    targets = kafka_targets(topic)
    if targets:
        yield Outlet(
            what="`bootstrap_servers`",
            targets=targets,
            credentials=_present(topic.username, topic.password),
            is_cluster=True,
        )
    yield from _of_format(topic.format)


def _of_format(format: str | RegistryFormat) -> Iterator[Outlet]:
    if isinstance(format, RegistryFormat):
        yield Outlet(
            what="`url` of the registry",
            targets=(registry_address(format).target,),
            credentials=_present(format.username, format.password, format.token),
        )


def _of_files(files: Files, endpoint_url: str) -> Iterator[Outlet]:
    if "://" in files.path:
        yield Outlet(
            what="`path`",
            targets=(object_store(endpoint_url),),
            credentials=_present(files.access_key, files.secret_key),
            is_fixed=True,
        )


def _of_database(database: Database) -> Outlet:
    match database:
        case SqlDatabase():
            driver_options(database)
            targets: tuple[Destination, ...] = (sql_target(database),)
        case RedshiftDatabase():
            targets = (sql_target(database),)
        case SnowflakeDatabase():
            targets = (snowflake_target(database),)
        case MongoDatabase(host=host):
            targets = mongo_address(host).targets
        case BigQueryDataset(service_account_key=key):
            return Outlet(
                what="`service_account_key`", targets=(GOOGLE,), credentials=(key,), is_fixed=True
            )
        case _:
            assert_never(database)
    sent = _present(database.username, database.password)
    return Outlet(what="`host`", targets=targets, credentials=sent)


def _of_http(path: HttpPath) -> Outlet:
    parse_path(path.healthz)
    parse_path(path.endpoint)
    sent = [value for _, value in path.headers if not isinstance(value, str)]
    if path.ca_cert is not None and not isinstance(path.ca_cert, str):
        sent.append(path.ca_cert)
    if isinstance(path.host, str):
        return Outlet(
            what="`host`", targets=(sink_address(path.host).target,), credentials=tuple(sent)
        )
    return Outlet(what="`host`", targets=(), credentials=(path.host, *sent))


def _in_region(arn: str) -> Destination:
    region = (arn.split(":") + [""] * 4)[3]
    if not _REGION.fullmatch(region):
        raise AddressInvalidError(f"`{arn}` names the region `{region}`")
    return AWS


def _with_port(address: HttpAddress) -> HttpAddress:
    return attrs.evolve(address, target=attrs.evolve(address.target, port=address.port))


def _present(*credentials: Credential | None) -> tuple[Credential, ...]:
    return tuple(one for one in credentials if one is not None)


def secret_names(credentials: tuple[Credential, ...]) -> tuple[str, ...]:
    """Return the names of the platform's secrets among credentials, each once."""
    return tuple(dict.fromkeys(one.name for one in credentials if isinstance(one, SecretRef)))
