"""Statements on branches, commits, manifests and events."""

import datetime as dt
from collections.abc import Collection, Sequence
from typing import TypeVar
from uuid import UUID

import attrs
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.mapper import find_row
from narthex_ledger.db.schema import (
    BINDING,
    BRANCH,
    BUNDLE,
    DEPLOY_COMMIT,
    INSTANT,
    LEDGER_EVENT,
    MANIFEST,
    TENANT,
)
from narthex_ledger.errors import NotFound
from narthex_ledger.model.rows import BranchRow, CommitRow
from narthex_ledger.model.states import DRIVABLE, IN_FLIGHT, CommitState
from narthex_ledger.model.views import BranchId, CommitRequest, EventView, Fence, TenantId

_Row = TypeVar("_Row", bound=attrs.AttrsInstance)

NOW = sa.func.ledger_now(type_=INSTANT)
"""The database's clock, the only one used for decisions."""

# The most frequent queries are built once: building one costs more than running it.
_BRANCH = sa.select(BRANCH).where(BRANCH.c.branch_id == sa.bindparam("key"))
_LOCK_BRANCH = _BRANCH.with_for_update()
COMMITS = sa.select(*(c for c in DEPLOY_COMMIT.c if c.name not in {"plan", "request"}))
"""Commits without the columns that grow with a commit's assets: each step reads a commit."""
_COMMIT = COMMITS.where(DEPLOY_COMMIT.c.commit_id == sa.bindparam("key"))
_SHARE_COMMIT = _COMMIT.with_for_update(read=True)
_LOCK_COMMIT = _COMMIT.with_for_update()


def put_tenant(connection: Connection, slug: str) -> TenantId:
    """Insert the tenant or find it; a second caller waits for the first's insert."""
    connection.execute(insert(TENANT).values(slug=slug).on_conflict_do_nothing())
    statement = sa.select(TENANT.c.tenant_id).where(TENANT.c.slug == slug)
    return TenantId(connection.execute(statement).scalar_one())


def put_branch(connection: Connection, tenant_id: TenantId, name: str) -> BranchId:
    """Insert an active branch or find it; a second caller waits for the first's insert."""
    values = {"tenant_id": tenant_id, "name": name, "is_main": name == "main"}
    connection.execute(insert(BRANCH).values(**values).on_conflict_do_nothing())
    statement = sa.select(BRANCH.c.branch_id).where(
        BRANCH.c.tenant_id == tenant_id, BRANCH.c.name == name, BRANCH.c.state == "active"
    )
    return BranchId(connection.execute(statement).scalar_one())


def read_branch(connection: Connection, branch_id: BranchId) -> BranchRow:
    """Read a branch; locks nothing."""
    return _one(BranchRow, connection, _BRANCH, "branch", branch_id)


def lock_branch(connection: Connection, branch_id: BranchId) -> BranchRow:
    """Lock a branch FOR UPDATE: plans, commits and promotions of it go one at a time."""
    return _one(BranchRow, connection, _LOCK_BRANCH, "branch", branch_id)


def find_branch(connection: Connection, tenant_id: TenantId, name: str) -> BranchRow | None:
    """Find an active branch by name; locks nothing."""
    statement = sa.select(BRANCH).where(
        BRANCH.c.tenant_id == tenant_id, BRANCH.c.name == name, BRANCH.c.state == "active"
    )
    return find_row(BranchRow, connection.execute(statement))


def move_head(connection: Connection, branch_id: BranchId, commit_id: UUID, base_seq: int) -> bool:
    """Move the head from `base_seq` to the commit; false when it was elsewhere. Branch locked."""
    moved = (
        sa.update(BRANCH)
        .where(BRANCH.c.branch_id == branch_id, BRANCH.c.head_seq == base_seq)
        .values(head_commit_id=commit_id, head_seq=BRANCH.c.head_seq + 1)
    )
    return connection.execute(moved).rowcount == 1


def move_serving(connection: Connection, branch_id: BranchId, commit_id: UUID, seq: int) -> None:
    """Point readers at the commit. Branch locked."""
    connection.execute(
        sa.update(BRANCH)
        .where(BRANCH.c.branch_id == branch_id)
        .values(serving_commit_id=commit_id, serving_seq=seq)
    )


def put_bundle(connection: Connection, sha256: bytes, content: bytes) -> None:
    """Store a bundle by content; the same one again changes nothing."""
    connection.execute(
        insert(BUNDLE).values(sha256=sha256, content=content).on_conflict_do_nothing()
    )


def insert_commit(
    connection: Connection,
    request: CommitRequest,
    bundle_sha256: bytes,
    base_seq: int,
    *,
    signature: bytes | None,
) -> bool:
    """Insert a QUEUED commit; false when the tenant used the key before.

    A second caller with the key waits for the first's transaction, then sees its row.
    """
    row = (
        insert(DEPLOY_COMMIT)
        .values(
            commit_id=request.commit_id,
            tenant_id=request.tenant,
            branch_id=request.branch,
            kind=request.kind.value,
            idempotency_key=request.idempotency_key,
            request_sha256=request.request_sha256,
            bundle_sha256=bundle_sha256,
            signature=signature,
            request=request.request,
            actor=request.actor,
            message=request.message,
            base_seq=base_seq,
            base_pinned=request.base_seq is not None,
            backfill_policy=request.backfill.value,
            promotion_policy=request.promotion.value,
            expected_plan_sha256=request.expected_plan_sha256,
            state=CommitState.QUEUED.value,
            deadline=NOW + dt.timedelta(seconds=request.deadline_s),
        )
        .on_conflict_do_nothing(
            index_elements=[DEPLOY_COMMIT.c.tenant_id, DEPLOY_COMMIT.c.idempotency_key]
        )
    )
    return connection.execute(row).rowcount == 1


def commit_of_key(connection: Connection, tenant_id: TenantId, key: str) -> CommitRow:
    """Read the commit created with an idempotency key; locks nothing."""
    statement = COMMITS.where(
        DEPLOY_COMMIT.c.tenant_id == tenant_id,
        DEPLOY_COMMIT.c.idempotency_key == sa.bindparam("key"),
    )
    return _one(CommitRow, connection, statement, "commit with key", key)


def read_commit(connection: Connection, commit_id: UUID) -> CommitRow:
    """Read a commit; locks nothing."""
    return _one(CommitRow, connection, _COMMIT, "commit", commit_id)


def read_plan(connection: Connection, commit_id: UUID) -> Json:
    """Read a commit's plan; None for a commit that has none. Locks nothing."""
    statement = sa.select(DEPLOY_COMMIT.c.plan).where(DEPLOY_COMMIT.c.commit_id == commit_id)
    plan: Json = connection.execute(statement).scalar_one()
    return plan


def share_commit(connection: Connection, commit_id: UUID) -> CommitRow:
    """Lock a commit FOR SHARE: a takeover or an abort waits; other workers of it don't."""
    return _one(CommitRow, connection, _SHARE_COMMIT, "commit", commit_id)


def lock_commit(connection: Connection, commit_id: UUID) -> CommitRow:
    """Lock a commit FOR UPDATE: commit, cancel, abort and takeover exclude each other here."""
    return _one(CommitRow, connection, _LOCK_COMMIT, "commit", commit_id)


def lease_commit(connection: Connection, commit_id: UUID, owner: str, lease_s: float) -> Fence:
    """Lease a locked commit to an owner, with a greater fence if it had another owner."""
    same = sa.and_(DEPLOY_COMMIT.c.owner == owner, DEPLOY_COMMIT.c.lease_expires_at > NOW)
    leased = (
        sa.update(DEPLOY_COMMIT)
        .where(DEPLOY_COMMIT.c.commit_id == commit_id)
        .values(
            fence=DEPLOY_COMMIT.c.fence + sa.case((same, 0), else_=1),
            owner=owner,
            lease_expires_at=NOW + dt.timedelta(seconds=lease_s),
        )
        .returning(DEPLOY_COMMIT.c.fence)
    )
    return Fence(connection.execute(leased).scalar_one())


def is_claimable(connection: Connection, commit_id: UUID, owner: str) -> bool:
    """Whether a locked commit is free, expired or already the owner's."""
    free = sa.or_(
        DEPLOY_COMMIT.c.owner.is_(None),
        DEPLOY_COMMIT.c.lease_expires_at < NOW,
        DEPLOY_COMMIT.c.owner == owner,
    )
    statement = sa.select(free).where(DEPLOY_COMMIT.c.commit_id == commit_id)
    return bool(connection.execute(statement).scalar_one())


def has_live_lease(connection: Connection, commit_id: UUID) -> bool:
    """Whether an executor may be working on the commit; locks nothing."""
    held = sa.and_(DEPLOY_COMMIT.c.owner.isnot(None), DEPLOY_COMMIT.c.lease_expires_at > NOW)
    statement = sa.select(held).where(DEPLOY_COMMIT.c.commit_id == commit_id)
    return bool(connection.execute(statement).scalar_one())


def extend_lease(connection: Connection, commit_id: UUID, fence: Fence, lease_s: float) -> bool:
    """Extend the lease of that fence, if it has not expired; false when it is lost."""
    extended = (
        sa.update(DEPLOY_COMMIT)
        .where(
            DEPLOY_COMMIT.c.commit_id == commit_id,
            DEPLOY_COMMIT.c.fence == fence,
            DEPLOY_COMMIT.c.lease_expires_at > NOW,
        )
        .values(lease_expires_at=NOW + dt.timedelta(seconds=lease_s))
    )
    return connection.execute(extended).rowcount == 1


def end_lease(connection: Connection, commit_id: UUID, fence: Fence) -> None:
    """Release the commit; with an old fence this changes nothing."""
    connection.execute(
        sa.update(DEPLOY_COMMIT)
        .where(DEPLOY_COMMIT.c.commit_id == commit_id, DEPLOY_COMMIT.c.fence == fence)
        .values(owner=None, lease_expires_at=None)
    )


def free_commits(connection: Connection, limit: int) -> tuple[UUID, ...]:
    """List commits with work to do and no live lease, oldest first; skips locked ones."""
    statement = (
        sa.select(DEPLOY_COMMIT.c.commit_id)
        .where(
            DEPLOY_COMMIT.c.state.in_([state.value for state in DRIVABLE]),
            sa.or_(DEPLOY_COMMIT.c.owner.is_(None), DEPLOY_COMMIT.c.lease_expires_at < NOW),
        )
        .order_by(DEPLOY_COMMIT.c.accepted_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return tuple(connection.execute(statement).scalars())


def count_queued_by(connection: Connection, tenant_id: TenantId, actor: str) -> int:
    """Count the queued commits of an actor, on all branches; locks nothing."""
    statement = (
        sa.select(sa.func.count())
        .select_from(DEPLOY_COMMIT)
        .where(
            DEPLOY_COMMIT.c.tenant_id == tenant_id,
            DEPLOY_COMMIT.c.state == CommitState.QUEUED.value,
            DEPLOY_COMMIT.c.actor == actor,
        )
    )
    return int(connection.execute(statement).scalar_one())


def unended_commits(connection: Connection, limit: int) -> tuple[UUID, ...]:
    """List commits with work to do, oldest first; locks nothing."""
    statement = (
        sa.select(DEPLOY_COMMIT.c.commit_id)
        .where(DEPLOY_COMMIT.c.state.in_([state.value for state in DRIVABLE]))
        .order_by(DEPLOY_COMMIT.c.accepted_at)
        .limit(limit)
    )
    return tuple(connection.execute(statement).scalars())


def commit_before(branch_id: BranchId, seq: int) -> sa.ScalarSelect[UUID]:
    """Find a branch's commit of the number before, of any kind; None before number 1."""
    before = DEPLOY_COMMIT.alias("before")
    return (
        sa.select(before.c.commit_id)
        .where(before.c.branch_id == branch_id, before.c.seq == seq - 1, before.c.seq > 0)
        .scalar_subquery()
    )


def in_flight(connection: Connection, branch_id: BranchId) -> UUID | None:
    """Find the branch's commit in flight; exact while the branch is locked."""
    statement = sa.select(DEPLOY_COMMIT.c.commit_id).where(
        DEPLOY_COMMIT.c.branch_id == branch_id,
        DEPLOY_COMMIT.c.state.in_([state.value for state in IN_FLIGHT]),
    )
    return connection.execute(statement).scalar_one_or_none()


def change_commit(connection: Connection, commit_id: UUID, **values: object) -> None:
    """Change columns of a commit that this transaction has locked."""
    connection.execute(
        sa.update(DEPLOY_COMMIT).where(DEPLOY_COMMIT.c.commit_id == commit_id).values(**values)
    )


def request_cancel(connection: Connection, commit_id: UUID) -> None:
    """Record a cancel request on a locked commit; the first one's instant is kept."""
    connection.execute(
        sa.update(DEPLOY_COMMIT)
        .where(DEPLOY_COMMIT.c.commit_id == commit_id)
        .values(cancel_requested_at=sa.func.coalesce(DEPLOY_COMMIT.c.cancel_requested_at, NOW))
    )


def seal_commit(
    connection: Connection, commit_id: UUID, fence: Fence, seq: int, *, signature: bytes | None
) -> bool:
    """Move READY to COMMITTED, the commit point; false when cancelled, fenced or not READY."""
    sealed = (
        sa.update(DEPLOY_COMMIT)
        .where(
            DEPLOY_COMMIT.c.commit_id == commit_id,
            DEPLOY_COMMIT.c.state == CommitState.READY.value,
            DEPLOY_COMMIT.c.fence == fence,
            DEPLOY_COMMIT.c.cancel_requested_at.is_(None),
        )
        .values(
            state=CommitState.COMMITTED.value,
            seq=seq,
            head_signature=signature,
            committed_at=NOW,
            commit_xid=sa.func.pg_current_xact_id(),
        )
    )
    return connection.execute(sealed).rowcount == 1


def insert_manifest(
    connection: Connection,
    commit: CommitRow,
    *,
    content: Json,
    content_sha256: bytes,
    signature: bytes | None,
    bindings: Sequence[tuple[str, int]],
) -> None:
    """Insert the commit's manifest and its bindings, which never change."""
    connection.execute(
        sa.insert(MANIFEST).values(
            manifest_id=commit.commit_id,
            tenant_id=commit.tenant_id,
            content_sha256=content_sha256,
            bundle_sha256=commit.bundle_sha256,
            signature=signature,
            content=content,
        )
    )
    if bindings:
        connection.execute(
            sa.insert(BINDING),
            [
                {"manifest_id": commit.commit_id, "logical_path": path, "asset_id": asset_id}
                for path, asset_id in bindings
            ],
        )


def insert_event(  # noqa: PLR0913 - an event has these parts
    connection: Connection,
    transition: str,
    *,
    actor: str,
    commit_id: UUID | None = None,
    asset_id: int | None = None,
    fence: int | None = None,
    detail: Json = None,
) -> None:
    """Record a transition, in the transaction that makes it."""
    connection.execute(
        sa.insert(LEDGER_EVENT).values(
            commit_id=commit_id,
            asset_id=asset_id,
            actor=actor,
            fence=fence,
            transition=transition,
            detail={} if detail is None else detail,
        )
    )


def find_event(connection: Connection, commit_id: UUID, transition: str) -> EventView | None:
    """Find the first event of a transition of a commit."""
    statement = (
        sa.select(LEDGER_EVENT)
        .where(LEDGER_EVENT.c.commit_id == commit_id, LEDGER_EVENT.c.transition == transition)
        .order_by(LEDGER_EVENT.c.event_id)
        .limit(1)
    )
    return find_row(EventView, connection.execute(statement))


def insert_asset_events(
    connection: Connection,
    transition: str,
    *,
    actor: str,
    commit_id: UUID,
    asset_ids: Sequence[int],
) -> None:
    """Record the same transition of many assets, in the order given."""
    if asset_ids:
        same = {"commit_id": commit_id, "actor": actor, "transition": transition, "detail": {}}
        rows = [{**same, "asset_id": asset_id} for asset_id in asset_ids]
        connection.execute(sa.insert(LEDGER_EVENT), rows)


def states_of(states: Collection[CommitState]) -> list[str]:
    """Convert states to the database's values."""
    return [state.value for state in states]


def _one(
    kind: type[_Row],
    connection: Connection,
    statement: sa.Select[tuple[object, ...]],
    what: str,
    key: object,
) -> _Row:
    row = find_row(kind, connection.execute(statement, {"key": key}))
    if row is None:
        raise NotFound(f"there is no {what} {key}")
    return row
