"""The routes that list the newest commits which changed a dataset or featureset."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from typing_extensions import TypedDict

from narthex_server.catalog.named_entities import dataset_named, featureset_named
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import ServicesDep, SnapshotsDep
from narthex_server.services.entity_changes import LOOKED_AT, EntityChanges
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])


class EntityCommit(TypedDict):
    """A commit that changed an entity.

    Attributes:
        seq: Its number on the branch.
        kind: `deploy`, `rollback`, `clone` or another kind of commit.
        actor: The principal that made it.
        committed_at: When it took effect, ISO 8601 in UTC.
        changes: Lines for people, such as "~ dataset `Rides` v1 → v2"; none for a principal that
            sees only some tags.
    """

    commit_id: str
    seq: int | None
    kind: str
    actor: str
    message: str
    committed_at: str | None
    changes: list[str]


class EntityCommits(TypedDict):
    """The newest commits that changed an entity.

    Attributes:
        commits: The commits, the newest first.
        looked_at: How many of the newest commits of the branch were looked at.
    """

    commits: list[EntityCommit]
    looked_at: int


async def _changes(services: ServicesDep) -> EntityChanges:
    return services.entity_changes


ChangesDep = Annotated[EntityChanges, Depends(_changes)]
Most = Annotated[int, Query(ge=1, le=LOOKED_AT)]


@router.get("/datasets/{name}/commits")
def commits_of_dataset(
    name: str, snapshots: SnapshotsDep, access: AccessDep, changes: ChangesDep, limit: Most = 10
) -> EntityCommits:
    """List the newest commits of the branch that changed a dataset.

    A change of its rows' meaning, its version, its metadata, its index or its expectations counts.
    """
    dataset_named(access.shown(snapshots.serving(access.branch).definitions), name)
    return _commits("dataset", name, access, changes, limit)


@router.get("/featuresets/{name}/commits")
def commits_of_featureset(
    name: str, snapshots: SnapshotsDep, access: AccessDep, changes: ChangesDep, limit: Most = 10
) -> EntityCommits:
    """List the newest commits of the branch that changed a featureset or its features."""
    featureset_named(access.shown(snapshots.serving(access.branch).definitions), name)
    return _commits("featureset", name, access, changes, limit)


def _commits(
    kind: str, name: str, access: Access, changes: EntityChanges, limit: int
) -> EntityCommits:
    branch = access.ledger.branches.get(access.tenant, access.branch).branch_id
    sees_all = access.principal.tags == ("*",)
    return {
        "commits": [
            {
                "commit_id": str(one.commit_id),
                "seq": one.seq,
                "kind": one.kind,
                "actor": one.actor,
                "message": one.message,
                "committed_at": one.committed_at.isoformat() if one.committed_at else None,
                "changes": lines if sees_all else [],
            }
            for one, lines in changes.of(branch, kind, name)[:limit]
        ],
        "looked_at": LOOKED_AT,
    }
