"""All kinds of connectors: those of the platform, and those that installed packages add.

A package adds kinds by the entry-point group `narthex.connectors`; the operator
installs them, on every machine. Nothing registers a kind while the platform runs, so neither
definitions nor author code can add one. Kinds are imported when one is first looked up.
"""

import importlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeAlias

from narthex._connectors.kinds import ConnectorKind, Input, PolicyFacts, SinkKind, SourceKind
from narthex._ir.connections import Connector

Kind: TypeAlias = ConnectorKind[Connector]

GROUP: Final = "narthex.connectors"
BUILT_IN: Final = (
    *("kafka", "kinesis", "files", "webhook", "postgres", "mysql", "snowflake", "bigquery"),
    *("redshift", "mongo", "pubsub", "http"),
)
"""The packages beside this module that each have a kind as `KIND`; messages list them so."""


class ConnectorKindError(RuntimeError):
    """A kind of connector is incomplete, conflicts with another one, or is not installed."""


@cache
def kinds() -> tuple[Kind, ...]:
    """Return all kinds, the platform's own first.

    Raises:
        ConnectorKindError: An installed package has a kind that is incomplete or conflicts.
    """
    found: dict[str, Kind] = {}
    for name in BUILT_IN:
        found[name] = importlib.import_module(f"narthex._connectors.{name}").KIND
    for entry in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        kind = _installed(entry)
        if kind.name in found:
            raise ConnectorKindError(
                f"{_named(entry)} is named `{kind.name}`, as another kind of connector; "
                "uninstall one of the two packages"
            )
        found[kind.name] = kind
    return tuple(found.values())


def kind_of(connector: Connector) -> Kind:
    """Return the kind of a record.

    Raises:
        ConnectorKindError: No kind has records of this class.
    """
    for kind in kinds():
        if type(connector) is kind.record and kind.accepts(connector):
            return kind
    raise ConnectorKindError(
        f"`{type(connector).__name__}` is not the record of a kind of connector; a package adds "
        f"kinds by the entry-point group `{GROUP}`"
    )


def source_kind(connector: Connector) -> SourceKind[Connector]:
    """Return how a connector is read.

    Raises:
        ConnectorKindError: It cannot be read.
    """
    kind = kind_of(connector)
    if kind.source is None:
        raise ConnectorKindError(f"{kind.title} can only be written to")
    return kind.source


def is_polled(connector: Connector, *, bounded: bool) -> bool:
    """Whether a source is polled for new rows, so that `every` has a meaning."""
    kind = kind_of(connector).source
    return kind is not None and kind.input not in {Input.INGEST, Input.TOPIC} and not bounded


def sink_kind(connector: Connector) -> SinkKind[Connector]:
    """Return how a connector is written to.

    Raises:
        ConnectorKindError: It cannot be written to.
    """
    kind = kind_of(connector)
    if kind.sink is None:
        raise ConnectorKindError(f"{kind.title} can only be read")
    return kind.sink


def _installed(entry: EntryPoint) -> Kind:
    try:
        kind: object = entry.load()
    except Exception as error:
        raise ConnectorKindError(f"{_named(entry)} cannot be loaded: {error}") from error
    if not isinstance(kind, ConnectorKind):
        raise ConnectorKindError(f"{_named(entry)} is not a `ConnectorKind`, got `{kind!r}`")
    missing = list(_missing(kind))
    if missing:
        raise ConnectorKindError(f"{_named(entry)} is incomplete: {'; '.join(missing)}")
    return kind


def _named(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "an unknown package"
    return f"the connector `{entry.name}` of the package `{package}` (`{entry.value}`)"


def _missing(kind: Kind) -> Iterator[str]:
    """Return what a kind lacks; types are not enforced in the packages that add kinds."""
    for name in ("name", "title", "text"):
        if not getattr(kind, name):
            yield f"it has no `{name}`"
    record: object = kind.record
    if not (isinstance(record, type) and issubclass(record, Connector)):
        yield "its `record` is not a class of `Connector`"
    yield from _missing_policy(kind)
    if kind.source is None and kind.sink is None:
        yield "it has neither `source` nor `sink`"
    if kind.source is not None:
        yield from _missing_source(kind.source)
    if kind.sink is not None and ":" not in kind.sink.writer:
        yield "its sink has no `writer`, such as `package.module:Writer`"


def _missing_policy(kind: Kind) -> Iterator[str]:
    facts: object = kind.policy
    if not isinstance(facts, PolicyFacts):
        yield "it has no `policy`, the hosts, places and secrets that it reaches"
        return
    if not facts.text:
        yield "its policy has no `text`"
    parts: dict[str, object] = {"outlets": facts.outlets, "place": facts.place}
    for name, part in parts.items():
        if not callable(part):
            yield f"its policy has no function `{name}`"


def _missing_source(source: SourceKind[Connector]) -> Iterator[str]:
    if source.input is not Input.POLLED:
        yield "its source has another `input` than `POLLED`, which only the platform's kinds have"
    elif ":" not in source.reader:
        yield "its source has no `reader`, such as `package.module:Reader`"
