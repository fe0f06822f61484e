"""The lineage of a branch, and the properties of its entities; both from the definitions."""

from fastapi import APIRouter

from narthex._analysis import source_id
from narthex._base import Json
from narthex._ir import Dataset, Featureset, type_name
from narthex_server.definitions.data_flow import flow
from narthex_server.errors import Missing
from narthex_server.security.dataset_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import SnapshotsDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])


@router.get("/lineage")
def lineage(snapshots: SnapshotsDep, access: AccessDep) -> dict[str, Json]:
    """Return the deployed lineage as edges.

    The edges go from sources to datasets, and from datasets to datasets and to features.
    """
    definitions = snapshots.head(access.branch).definitions
    hidden = access.visibility(definitions).hidden
    edges = [edge for edge in dict.fromkeys(flow(definitions)) if hidden.isdisjoint(edge)]
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
) -> dict[str, Json]:
    """Return properties of entities; all entities without names, all properties without
    properties.
    """
    deployed = snapshots.head(access.branch).definitions
    definitions = access.visibility(deployed).shown(deployed)
    wanted = {"datasets": _names(datasets), "featuresets": _names(featuresets)}
    given = bool(wanted["datasets"] or wanted["featuresets"])
    shown: dict[str, list[dict[str, Json]]] = {
        "datasets": [_dataset(one) for one in definitions.datasets],
        "featuresets": [_featureset(one) for one in definitions.featuresets],
    }
    chosen = _names(properties)
    answer: dict[str, Json] = {}
    for kind, entities in shown.items():
        known = {str(one["name"]) for one in entities}
        missing = [name for name in wanted[kind] if name not in known]
        if missing:
            raise Missing(f"`{missing[0]}` not found")
        answer[kind] = [
            {name: value for name, value in one.items() if name in {"name", *chosen} or not chosen}
            for one in entities
            if not given or one["name"] in wanted[kind]
        ]
    return answer


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _dataset(dataset: Dataset) -> dict[str, Json]:
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
    }


def _featureset(featureset: Featureset) -> dict[str, Json]:
    return {
        "name": featureset.name,
        "owner": featureset.metadata.owner,
        "description": featureset.metadata.description,
        "tags": list(featureset.metadata.tags),
        "features": {feature.name: type_name(feature.type) for feature in featureset.features},
    }
