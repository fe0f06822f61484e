"""Search over the definitions of a branch: names, descriptions, tags and owners."""

from collections.abc import Iterator, Sequence

from fastapi import APIRouter
from typing_extensions import TypedDict

from narthex._analysis import source_id
from narthex._ir import Definitions, Metadata
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import SnapshotsDep
from narthex_server.web.plain_routes import Number, PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])

MOST = 500


class FoundEntity(TypedDict):
    """An entity that a search found.

    Attributes:
        kind: `dataset`, `featureset`, `feature` or `source`.
        page: The dataset or featureset that it belongs to.
    """

    kind: str
    name: str
    page: str
    owner: str
    description: str
    tags: list[str]


class FoundEntities(TypedDict):
    """The found entities: first those whose names begin with the text, then by name."""

    found: list[FoundEntity]


@router.get("/search")
def search(
    snapshots: SnapshotsDep, access: AccessDep, q: str = "", limit: Number = 100
) -> FoundEntities:
    """Find entities by words: each word is part of a name, description, tag or owner.

    Case does not matter. Without a word, nothing is found.
    """
    words = q.casefold().split()
    deployed = snapshots.head(access.branch).definitions
    shown = access.shown(deployed)
    matches = [one for one in _entities(shown) if words and _matches(one, words)]
    matches.sort(key=lambda one: (not _begins(one, words), one["name"], one["kind"]))
    return {"found": matches[: min(limit, MOST)]}


def _entities(definitions: Definitions) -> Iterator[FoundEntity]:
    for dataset in definitions.datasets:
        yield _found("dataset", dataset.name, dataset.name, dataset.metadata)
        for source in dataset.sources:
            yield _found("source", source_id(source), dataset.name, dataset.metadata)
    for featureset in definitions.featuresets:
        name = featureset.name
        yield _found("featureset", name, name, featureset.metadata)
        for feature in featureset.features:
            yield _found("feature", f"{name}.{feature.name}", name, feature.metadata)


def _found(kind: str, name: str, page: str, metadata: Metadata) -> FoundEntity:
    return {
        "kind": kind,
        "name": name,
        "page": page,
        "owner": metadata.owner,
        "description": "" if kind == "source" else metadata.description,
        "tags": list(metadata.tags),
    }


def _matches(entity: FoundEntity, words: Sequence[str]) -> bool:
    parts = (entity["name"], entity["description"], entity["owner"], *entity["tags"])
    text = "\n".join(parts).casefold()
    return all(word in text for word in words)


def _begins(entity: FoundEntity, words: Sequence[str]) -> bool:
    parts = entity["name"].casefold().split(".")
    return any(part.startswith(words[0]) for part in parts)
