"""One kind of connector as a value: its records, checks, policy facts, reader, writer and text.

Everything that the platform decides about connectors is looked up here. A kind is found in the
registry (`narthex._connectors.registry`) by the record that a definition contains.
"""

import enum
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeAlias, TypeVar

import attrs

from narthex._connectors.egress import Destination
from narthex._ir.connections import AwsSecretRef, Connector, Credential, RegistryFormat, SecretRef
from narthex._ir.entities import Cdc

_C = TypeVar("_C", bound=Connector)

ROWS: Final = frozenset({Cdc.APPEND, Cdc.UPSERT})
"""The `cdc` of sources that bring plain rows."""

ROWS_AND_ENVELOPES: Final = ROWS | {Cdc.DEBEZIUM}
"""The `cdc` of sources that bring plain rows or envelopes of Debezium."""


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
class EndpointPlace:
    """An endpoint of a webhook; the rules `[[endpoints]]` of the policy apply to it."""

    webhook: str
    endpoint: str


@attrs.frozen(kw_only=True)
class TopicPlace:
    """A Kafka topic; the rules `[[topics]]` of the policy apply to it."""

    bootstrap_servers: str
    topic: str


@attrs.frozen(kw_only=True)
class FilesPlace:
    """Files below the files root or in a bucket; the rules `[[files]]` of the policy apply to them.

    Attributes:
        has_own_keys: Whether the author gives the keys of the store, not the platform.
    """

    path: str
    has_own_keys: bool = False


@attrs.frozen(kw_only=True)
class RemotePlace:
    """A place on another server, which the policy governs by its hosts and secrets alone."""

    kind: str
    name: str


SharedPlace: TypeAlias = EndpointPlace | TopicPlace | FilesPlace | RemotePlace


@attrs.frozen(kw_only=True)
class PolicyFacts(Generic[_C]):
    """The servers and the place of a connector; the operator's policy uses only these facts.

    Attributes:
        text: One sentence for the reference: the hosts and places that connectors reach.
        outlets: The servers that a connector connects to, with the secrets that each receives; the
            second argument is the address of the platform's object store, empty for Amazon's.
            Raises `AddressInvalidError` if an address cannot be read.
        place: The place that it reads or writes; None for a server that is only sent to.
    """

    text: str
    outlets: Callable[[_C, str], Iterable[Outlet]]
    place: Callable[[_C], SharedPlace | None]


@attrs.frozen
class ConnectorFault:
    """A mistake in a connector, and its remedy."""

    message: str
    hint: str = ""


class Input(enum.Enum):
    """The way in which rows of a source reach its job."""

    INGEST = "clients push rows, which the server appends to a topic of the platform"
    TOPIC = "a stage reads the author's topic as rows arrive"
    FILES = "Spark reads new files"
    POLLED = "the job polls the reader for new rows"


def _no_faults(connector: Connector) -> Iterable[ConnectorFault]:
    del connector
    return ()


def _unchanged(connector: _C) -> _C:
    return connector


def _no_registry(connector: Connector) -> RegistryFormat | None:
    del connector
    return None


def _members(connector: Connector) -> str:
    del connector
    return ""


def _never(connector: Connector) -> bool:
    del connector
    return False


@attrs.frozen(kw_only=True)
class SourceKind(Generic[_C]):
    """How rows of a kind are read.

    Attributes:
        identity: The string that identifies a source externally, and orders ties between sources.
        input: The way in which rows reach the job.
        reason: The reason for the job's trigger, for people.
        same_rows: The connector without the settings that change no row, for fingerprints.
        format: The schema registry of its records; None if they are JSON or rows.
        cdc: The values of `cdc` that sources of this kind can have.
        has_change_log: Whether a connector is a table with its own change log, whose `cdc` is
            `native`.
        has_cursor: Whether a source names a column that grows with each change.
        no_members: Why `preproc` cannot refer to a member of a column; empty if it can.
        faults: What the platform checks of each connector, also if its author used another client.
        unsupported: The settings that no job can read yet; each message ends in "are" or "is".
        reader: `module:attribute` of the reader of a polled source.
        client: `module:attribute` of the client that the reader opens, if several kinds share it.
    """

    identity: Callable[[_C], str]
    input: Input
    reason: str
    same_rows: Callable[[_C], _C] = _unchanged
    format: Callable[[_C], RegistryFormat | None] = _no_registry
    cdc: frozenset[Cdc] = ROWS
    has_change_log: Callable[[_C], bool] = _never
    has_cursor: bool = False
    no_members: Callable[[_C], str] = _members
    faults: Callable[[_C], Iterable[ConnectorFault]] = _no_faults
    unsupported: Callable[[_C], Iterable[ConnectorFault]] = _no_faults
    reader: str = ""
    client: str = ""


class Deletes(enum.Enum):
    """Whether a sink can delete rows that it has written."""

    NEVER = "the target keeps what it has received"
    IF_COMPACTED = "a record without a value ends a key, if the topic is compacted"
    ALWAYS = "a deleted row leaves the table"


@attrs.frozen(kw_only=True)
class SinkKind(Generic[_C]):
    """How rows are written to a kind.

    Attributes:
        title: The word for it in the list of all targets.
        where: The word for it in messages, after "into".
        identity: The string that identifies the target.
        is_bulk: Whether rows are written in intervals, not each at once as an envelope.
        writer: `module:attribute` of its writer.
        every_us: The interval of writes if the author sets none.
        faults: What the platform checks of each target.
        unsupported: The settings that no job can write yet; each message ends in "are" or "is".
        erasing: How a person erases rows of a target, for the certificate of an erasure.
        deletes: Whether the sink can erase them itself.
        keeps: What a target may keep of rows that the sink has deleted, for the certificate.
    """

    title: str
    where: str
    identity: Callable[[_C], str]
    is_bulk: bool
    writer: str
    every_us: int = 0
    faults: Callable[[_C], Iterable[ConnectorFault]] = _no_faults
    unsupported: Callable[[_C], Iterable[ConnectorFault]] = _no_faults
    erasing: str = "delete the rows with the keys there"
    deletes: Deletes = Deletes.NEVER
    keeps: str = ""


def _each(connector: Connector) -> bool:
    del connector
    return True


@attrs.frozen(kw_only=True)
class ConnectorKind(Generic[_C]):
    """One kind of connector.

    Attributes:
        name: Its name in the registry.
        title: Its name in messages and in the reference.
        text: Its description in the reference.
        record: The class of its records.
        accepts: Whether a record of that class is of this kind; kinds of databases share `Table`.
        declared_by: The classes with which authors begin to declare it, each with the method that
            completes the declaration.
        policy: Its servers and its place.
        source: How it is read; None if it is only written to.
        sink: How it is written to; None if it is only read.
        connection: The fields of a record that belong to its connection, not to one place of it;
            empty if they have no connections by name.
        example: Arguments with which the method declares any place of a connection.
        install: The requirement that installs its client library, such as
            `narthex[kinesis]`.
    """

    name: str
    title: str
    text: str
    record: type[_C]
    policy: PolicyFacts[_C]
    accepts: Callable[[_C], bool] = _each
    declared_by: tuple[tuple[type, str], ...] = ()
    source: SourceKind[_C] | None = None
    sink: SinkKind[_C] | None = None
    connection: tuple[str, ...] = ()
    example: tuple[str, ...] = ()
    install: str = ""


def credentials_of(value: object) -> tuple[Credential, ...]:
    """Return all credentials in a record, in the order of its fields, each once."""
    if isinstance(value, SecretRef | AwsSecretRef):
        return (value,)
    parts: Iterable[object] = value if isinstance(value, tuple) else ()
    cls = type(value)
    if attrs.has(cls):
        parts = (getattr(value, field.name) for field in attrs.fields(cls))
    return tuple(dict.fromkeys(credential for part in parts for credential in credentials_of(part)))
