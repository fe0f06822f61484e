"""AWS Kinesis streams, one row for each record."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Self

import attrs

from narthex._base.records import record
from narthex._base.times import SECOND_US, to_micros
from narthex._connectors.addresses import AWS, registry_outlets
from narthex._connectors.egress import AddressInvalidError
from narthex._connectors.kinds import (
    ROWS_AND_ENVELOPES,
    ConnectorKind,
    Input,
    Outlet,
    PolicyFacts,
    RemotePlace,
    SourceKind,
)
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts
from narthex._ir.connections import Connector, RegistryFormat

__all__ = ["KIND", "Kinesis", "KinesisStream", "at_timestamp"]


_STARTS: Final = ("latest", "trim_horizon")
_REGION: Final = re.compile(r"[a-z0-9-]{0,40}")


@record
@attrs.frozen(kw_only=True)
class KinesisStream(Connector):
    """Rows in an AWS Kinesis stream, one row per record.

    Attributes:
        start: `latest`, `trim_horizon`, or an instant in microseconds.
        format: `json`, or the format of a schema registry.
    """

    name: str
    role_arn: str
    stream_arn: str
    start: str | int
    format: str | RegistryFormat = "json"


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

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        return cls(name, role_arn=host_of(name))


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


def _registry_of(stream: KinesisStream) -> RegistryFormat | None:
    return stream.format if isinstance(stream.format, RegistryFormat) else None


def _outlets(stream: KinesisStream, endpoint_url: str) -> Iterator[Outlet]:
    del endpoint_url
    region = (stream.stream_arn.split(":") + [""] * 4)[3]
    if not _REGION.fullmatch(region):
        raise AddressInvalidError(f"`{stream.stream_arn}` names the region `{region}`")
    yield Outlet(what="`stream_arn`", targets=(AWS,), is_fixed=True)
    yield from registry_outlets(stream.format)


KIND: Final = ConnectorKind(
    name="kinesis",
    title="Kinesis",
    text="Streams that a role of AWS may read, from their oldest record, their newest one or an "
    "instant: JSON objects, or Avro and Protobuf records whose schema is in a registry.",
    record=KinesisStream,
    declared_by=((Kinesis, "stream"),),
    connection=("name", "role_arn"),
    example=("arn", "latest"),
    policy=PolicyFacts(
        text="Amazon's own endpoints with the platform's role, and the schema registry.",
        outlets=_outlets,
        place=lambda stream: RemotePlace(kind="stream", name=stream.stream_arn),
    ),
    source=SourceKind(
        identity=lambda stream: f"kinesis:{stream.stream_arn}",
        input=Input.POLLED,
        reason="parses and checks each row on arrival",
        format=_registry_of,
        cdc=ROWS_AND_ENVELOPES,
        reader="narthex_spark_apps.sources.streams.kinesis:KinesisSource",
    ),
    install="narthex[kinesis]",
)
