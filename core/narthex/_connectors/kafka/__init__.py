"""Kafka topics that the platform does not own, with JSON or a schema registry."""

from collections.abc import Iterator
from typing import Final, Self

import attrs

from narthex._connectors.addresses import PROTOCOLS, kafka_targets, registry_outlets
from narthex._connectors.kinds import (
    ROWS_AND_ENVELOPES,
    ConnectorFault,
    ConnectorKind,
    Deletes,
    Input,
    Outlet,
    PolicyFacts,
    SinkKind,
    SourceKind,
    TopicPlace,
)
from narthex._connectors.named import host_of
from narthex._connectors.parts import Parts
from narthex._ir.connections import Credential, Encoding, KafkaTopic, RegistryFormat

__all__ = ["KIND", "Avro", "Kafka", "Protobuf"]


_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")


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
        verify_cert: Only True: certificates of brokers are always verified.
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
        if not self.verify_cert:
            parts.unsupported("verify_cert", "certificates of brokers are always verified")
        if not isinstance(format, RegistryFormat):
            format = parts.one_of(format, "format", ("json",))  # noqa: A001
        made = KafkaTopic(
            name=parts.name(self.name),
            bootstrap_servers=self.bootstrap_servers,
            topic=parts.text(topic, "`topic`"),
            format=format,
            security_protocol=parts.one_of(self.security_protocol, "security_protocol", PROTOCOLS),
            sasl_mechanism=parts.one_of(self.sasl_mechanism, "sasl_mechanism", _MECHANISMS),
            username=parts.credential(self.sasl_plain_username, "sasl_plain_username"),
            password=parts.credential(self.sasl_plain_password, "sasl_plain_password"),
        )
        parts.report()
        return made

    @classmethod
    def get(cls, name: str) -> Self:
        """Name a connection of the platform, which `narthex connection set` stores.

        Raises:
            DefinitionErrors: It is not the name of a connection.
        """
        return cls(name, bootstrap_servers=host_of(name))


def _identity(topic: KafkaTopic) -> str:
    return f"kafka:{topic.bootstrap_servers}/{topic.topic}"


def _same_rows(topic: KafkaTopic) -> KafkaTopic:
    return attrs.evolve(topic, name="", security_protocol="PLAINTEXT", sasl_mechanism="PLAIN")


def _registry_of(topic: KafkaTopic) -> RegistryFormat | None:
    return topic.format if isinstance(topic.format, RegistryFormat) else None


def _outlets(topic: KafkaTopic, endpoint_url: str) -> Iterator[Outlet]:
    del endpoint_url
    targets = kafka_targets(topic)
    credentials = tuple(one for one in (topic.username, topic.password) if one is not None)
    if targets:
        yield Outlet(
            what="`bootstrap_servers`", targets=targets, credentials=credentials, is_cluster=True
        )
    yield from registry_outlets(topic.format)


def _place(topic: KafkaTopic) -> TopicPlace:
    return TopicPlace(bootstrap_servers=topic.bootstrap_servers, topic=topic.topic)


def _unsupported(topic: KafkaTopic) -> Iterator[ConnectorFault]:
    if topic.security_protocol.startswith("SASL") and topic.sasl_mechanism == "GSSAPI":
        yield ConnectorFault("brokers that want GSSAPI are", "give a listener with SCRAM-SHA-512")


def _sink_faults(topic: KafkaTopic) -> Iterator[ConnectorFault]:
    if topic.format != "json":
        yield ConnectorFault("a sink into Kafka writes `json` only")


KIND: Final = ConnectorKind(
    name="kafka",
    title="Kafka",
    text="Topics of any Kafka cluster: JSON objects, or Avro and Protobuf records whose schema is "
    "in a registry. A sink writes envelopes of Debezium.",
    record=KafkaTopic,
    declared_by=((Kafka, "topic"),),
    connection=(
        "name",
        "bootstrap_servers",
        "security_protocol",
        "sasl_mechanism",
        "username",
        "password",
    ),
    example=("topic",),
    policy=PolicyFacts(
        text="The bootstrap servers, which the policy must name, the schema registry, and the "
        "topic by the rules `[[topics]]`.",
        outlets=_outlets,
        place=_place,
    ),
    source=SourceKind(
        identity=_identity,
        input=Input.TOPIC,
        reason="parses and checks each row on arrival",
        same_rows=_same_rows,
        format=_registry_of,
        cdc=ROWS_AND_ENVELOPES,
        unsupported=_unsupported,
    ),
    sink=SinkKind(
        title="Kafka",
        where="Kafka",
        identity=_identity,
        is_bulk=False,
        writer="narthex_spark_apps.sinks.kafka:open_target",
        faults=_sink_faults,
        unsupported=_unsupported,
        erasing="produce a record without a value for each key if the topic is compacted, and wait "
        "until Kafka has compacted it; otherwise its records stay until their retention ends",
        deletes=Deletes.IF_COMPACTED,
        keeps="older records of the keys, until Kafka compacts the topic",
    ),
)
