"""The addresses that connectors name, and the options of drivers.

The check of a commit and the job that connects both read a connector's addresses here, so both
see the same hosts.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl

import attrs

from narthex._connectors.egress import (
    AddressInvalidError,
    Destination,
    HttpAddress,
    parse_host,
    parse_http,
    parse_targets,
)
from narthex._connectors.kinds import Outlet, credentials_of
from narthex._ir.connections import KafkaTopic, RegistryFormat, SqlDatabase

GOOGLE: Final = Destination("googleapis.com", 443)
AWS: Final = Destination("amazonaws.com", 443)
"""The clouds' own endpoints; a definition cannot redirect a client to another host."""


KAFKA_PORT: Final = 9092
HTTPS_PORT: Final = 443
PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL")

POSTGRES_OPTIONS: Final = frozenset({"application_name", "connect_timeout", "sslmode"})
MYSQL_OPTIONS: Final = frozenset({"sslMode"})
"""The options of each driver that a definition may set; none names a file or a host."""

_VALUE: Final = re.compile(r"[A-Za-z0-9_.-]{0,100}")


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


def server_at(host: str, port: int) -> Destination:
    """Return a server by its host and its port.

    Raises:
        AddressInvalidError: The host is not one.
    """
    return Destination(parse_host(host), port)


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


def registry_outlets(format: str | RegistryFormat) -> Iterator[Outlet]:
    """Return the schema registry of a format, if it has one.

    Raises:
        AddressInvalidError: Its `url` is not an address of http or https.
    """
    if isinstance(format, RegistryFormat):
        yield Outlet(
            what="`url` of the registry",
            targets=(registry_address(format).target,),
            credentials=credentials_of(format),
        )


def _with_port(address: HttpAddress) -> HttpAddress:
    return attrs.evolve(address, target=attrs.evolve(address.target, port=address.port))
