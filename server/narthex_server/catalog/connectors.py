"""The routes that list the sources and sinks of a branch."""

from collections.abc import Iterable

from fastapi import APIRouter
from typing_extensions import TypedDict

from narthex._analysis import source_id
from narthex._compiler import target_id
from narthex._connectors import kind_of
from narthex._definition_code import connector_properties, sink_options, source_options
from narthex._ir import Connector, Dataset
from narthex_server.errors import Missing
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import SnapshotsDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])


class ConnectorUse(TypedDict):
    """How a dataset reads a source, or what writes it to a sink.

    Attributes:
        options: The options that were set, and values of fields that are computed, by name.
    """

    dataset: str
    options: dict[str, str]


class DeployedConnector(TypedDict):
    """A source or a sink.

    Attributes:
        name: The string that identifies it, as in the lineage.
        kind: The kind of its connector, such as `Kafka`.
        properties: The parts of the connector, by name. A credential is not named.
        uses: The datasets that read it, or that are written to it.
    """

    name: str
    kind: str
    properties: dict[str, str]
    uses: list[ConnectorUse]


class DeployedSources(TypedDict):
    """The deployed sources."""

    sources: list[DeployedConnector]


class DeployedSinks(TypedDict):
    """The deployed sinks."""

    sinks: list[DeployedConnector]


@router.get("/sources")
def sources(snapshots: SnapshotsDep, access: AccessDep, name: str | None = None) -> DeployedSources:
    """List the deployed sources with the datasets that read them, or the one of a name.

    A source that feeds hidden datasets only is not listed.
    """
    found = deployed_sources(_visible(snapshots, access))
    return {"sources": _only(found, name, "source")}


@router.get("/sinks")
def sinks(snapshots: SnapshotsDep, access: AccessDep, name: str | None = None) -> DeployedSinks:
    """List the deployed sinks with the datasets that are written to them, or the one of a name."""
    found = deployed_sinks(_visible(snapshots, access))
    return {"sinks": _only(found, name, "sink")}


def deployed_sources(datasets: Iterable[Dataset]) -> list[DeployedConnector]:
    """Return the sources of datasets, each once."""
    return _grouped(
        (
            source_id(source),
            source.connector,
            {"dataset": of.name, "options": source_options(source)},
        )
        for of in datasets
        for source in of.sources
    )


def deployed_sinks(datasets: Iterable[Dataset]) -> list[DeployedConnector]:
    """Return the sinks of datasets, each once."""
    return _grouped(
        (target_id(sink.target), sink.target, {"dataset": of.name, "options": sink_options(sink)})
        for of in datasets
        for sink in of.sinks
    )


def _visible(snapshots: SnapshotsDep, access: AccessDep) -> tuple[Dataset, ...]:
    deployed = snapshots.serving(access.branch).definitions
    return access.shown(deployed).datasets


def _grouped(
    uses: Iterable[tuple[str, Connector, ConnectorUse]],
) -> list[DeployedConnector]:
    """Return each connector once, in the order of names, with all its uses."""
    found: dict[str, DeployedConnector] = {}
    for name, connector, use in uses:
        empty: DeployedConnector = {
            "name": name,
            "kind": kind_of(connector).title,
            "properties": connector_properties(connector),
            "uses": [],
        }
        found.setdefault(name, empty)["uses"].append(use)
    return [found[name] for name in sorted(found)]


def _only(found: list[DeployedConnector], name: str | None, kind: str) -> list[DeployedConnector]:
    wanted = [one for one in found if name in {None, one["name"]}]
    if name is not None and not wanted:
        raise Missing(f"no dataset of the branch has the {kind} `{name}`")
    return wanted
