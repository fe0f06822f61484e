"""The lineage of a branch, and the properties of its entities; both from the definitions."""

from collections.abc import Sequence
from typing import TypeVar

from fastapi import APIRouter

from narthex._analysis import source_id
from narthex._ir import Dataset, Expectation, Featureset, type_name
from narthex_server.catalog.responses import (
    DatasetProperties,
    EntityProperties,
    FeaturesetProperties,
    Lineage,
)
from narthex_server.errors import Missing
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import SnapshotsDep
from narthex_server.web.plain_routes import PlainRoute

_Properties = TypeVar("_Properties", DatasetProperties, FeaturesetProperties)

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])


@router.get("/lineage")
def lineage(snapshots: SnapshotsDep, access: AccessDep) -> Lineage:
    """Return the deployed lineage as edges.

    The edges go from sources to datasets, and from datasets to datasets and to features.
    """
    snapshot = snapshots.head(access.branch)
    hidden = access.visibility(snapshot.definitions).hidden
    edges = [edge for edge in snapshot.edges if hidden.isdisjoint(edge)]
    names = dict.fromkeys(name for edge in edges for name in edge)
    return {
        "nodes": [{"name": name, "kind": kind} for kind, name in names],
        "edges": [
            {"from": start[1], "to": end[1], "kinds": [start[0], end[0]]} for start, end in edges
        ],
    }


@router.get("/xray")
def xray(
    snapshots: SnapshotsDep,
    access: AccessDep,
    datasets: str = "",
    featuresets: str = "",
    properties: str = "",
) -> EntityProperties:
    """Return properties of entities.

    Without names, it returns all entities; without properties, all properties.
    """
    deployed = snapshots.head(access.branch).definitions
    definitions = access.shown(deployed)
    wanted = {"datasets": _names(datasets), "featuresets": _names(featuresets)}
    is_all = not (wanted["datasets"] or wanted["featuresets"])
    chosen = _names(properties)
    return {
        "datasets": _picked(
            [_dataset(dataset) for dataset in definitions.datasets],
            names=None if is_all else wanted["datasets"],
            properties=chosen,
        ),
        "featuresets": _picked(
            [_featureset(featureset) for featureset in definitions.featuresets],
            names=None if is_all else wanted["featuresets"],
            properties=chosen,
        ),
    }


def _picked(
    entities: Sequence[_Properties], *, names: Sequence[str] | None, properties: Sequence[str]
) -> list[_Properties]:
    """Return entities, all of them or those with some names, with all or some of their properties.

    Raises:
        Missing: No entity has one of the names.
    """
    known = {entity["name"] for entity in entities}
    missing = [name for name in names or () if name not in known]
    if missing:
        raise Missing(f"`{missing[0]}` not found")
    dropped = {key for entity in entities for key in entity if properties} - {"name", *properties}
    picked = [entity for entity in entities if names is None or entity["name"] in names]
    for entity in picked:
        for key in dropped & entity.keys():
            entity.pop(key)  # type: ignore[misc]
    return picked


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _dataset(dataset: Dataset) -> DatasetProperties:
    return {
        "name": dataset.name,
        "version": dataset.version,
        "owner": dataset.metadata.owner,
        "description": dataset.metadata.description,
        "tags": list(dataset.metadata.tags),
        "columns": {field.name: type_name(field.type) for field in dataset.schema.fields},
        "keys": [column.name for column in dataset.schema.keys],
        "timestamp": dataset.schema.timestamp,
        "sources": [source_id(source) for source in dataset.sources],
        "pipelines": [pipeline.name for pipeline in dataset.pipelines],
        "expectations": [*map(_expectation, dataset.expectations)],
    }


def _featureset(featureset: Featureset) -> FeaturesetProperties:
    return {
        "name": featureset.name,
        "owner": featureset.metadata.owner,
        "description": featureset.metadata.description,
        "tags": list(featureset.metadata.tags),
        "features": {feature.name: type_name(feature.type) for feature in featureset.features},
        "expectations": [*map(_expectation, featureset.expectations)],
    }


def _expectation(expectation: Expectation) -> str:
    return f"{expectation.severity.value}: {expectation.title}"
