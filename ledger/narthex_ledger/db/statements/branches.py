"""Statements on branches as a whole: created, cloned, deleted, restored, listed."""

from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import find_row, rows_of
from narthex_ledger.db.schema import BRANCH, DEPLOY_COMMIT, PIN, PROMOTION
from narthex_ledger.db.statements.commits import COMMITS, NOW, commit_before
from narthex_ledger.model.rows import BranchRow, CommitRow, ListedBranchRow, PinRow
from narthex_ledger.model.states import CommitKind, CommitState, PromotionState
from narthex_ledger.model.views import BranchId, BranchRequest, TenantId


def insert_branch(connection: Connection, tenant_id: TenantId, name: str) -> BranchId | None:
    """Insert an active branch; None when the name is taken.

    A second caller of the name waits for the first's transaction, then gets None.
    """
    row = (
        insert(BRANCH)
        .values(tenant_id=tenant_id, name=name)
        .on_conflict_do_nothing()
        .returning(BRANCH.c.branch_id)
    )
    branch_id = connection.execute(row).scalar_one_or_none()
    return None if branch_id is None else BranchId(branch_id)


def share_branch(connection: Connection, tenant_id: TenantId, name: str) -> BranchRow | None:
    """Lock an active branch FOR SHARE: its commits, promotions and deletion wait, clones don't."""
    statement = _active(tenant_id, name).with_for_update(read=True)
    return find_row(BranchRow, connection.execute(statement))


def lock_branch_of(connection: Connection, tenant_id: TenantId, name: str) -> BranchRow | None:
    """Lock an active branch FOR UPDATE: all other changes of it wait."""
    return find_row(BranchRow, connection.execute(_active(tenant_id, name).with_for_update()))


def lock_deleted(connection: Connection, tenant_id: TenantId, name: str) -> BranchRow | None:
    """Lock the newest deleted branch of a name FOR UPDATE; a second caller then finds it active."""
    statement = (
        sa.select(BRANCH)
        .where(BRANCH.c.tenant_id == tenant_id, BRANCH.c.name == name, BRANCH.c.state == "deleted")
        .order_by(BRANCH.c.deleted_at.desc(), BRANCH.c.branch_id.desc())
        .limit(1)
        .with_for_update()
    )
    return find_row(BranchRow, connection.execute(statement))


def change_branch(connection: Connection, branch_id: BranchId, **values: object) -> None:
    """Change columns of a branch that this transaction has locked or created."""
    connection.execute(sa.update(BRANCH).where(BRANCH.c.branch_id == branch_id).values(**values))


def lock_pins_of(connection: Connection, branch_id: BranchId, *holders: str) -> tuple[PinRow, ...]:
    """Lock a branch's pins of these holders FOR UPDATE, by id: expiry waits."""
    statement = (
        sa.select(PIN)
        .where(PIN.c.branch_id == branch_id, PIN.c.holder.in_(holders))
        .order_by(PIN.c.pin_id)
        .with_for_update()
    )
    return rows_of(PinRow, connection.execute(statement))


def change_pin(connection: Connection, pin_id: int, **values: object) -> None:
    """Change columns of a pin that is locked."""
    connection.execute(sa.update(PIN).where(PIN.c.pin_id == pin_id).values(**values))


def insert_done(  # noqa: PLR0913 - a commit has these parts
    connection: Connection,
    request: BranchRequest,
    *,
    branch: BranchRow,
    kind: CommitKind,
    state: CommitState,
    bundle_sha256: bytes,
    manifest_id: UUID | None,
    plan_sha256: bytes,
    commit_id: UUID,
    key: str,
    seq: int,
    head_signature: bytes | None,
) -> None:
    """Insert a commit past its commit point; the branch is locked, or new."""
    connection.execute(
        sa.insert(DEPLOY_COMMIT).values(
            commit_id=commit_id,
            tenant_id=request.tenant,
            branch_id=branch.branch_id,
            kind=kind.value,
            idempotency_key=key,
            request_sha256=request.request_sha256,
            bundle_sha256=bundle_sha256,
            request=request.request,
            actor=request.actor,
            message=request.message,
            base_seq=max(0, seq - 1),
            base_pinned=False,
            backfill_policy="allowed",
            promotion_policy=request.promotion.value,
            parent_commit_id=commit_before(branch.branch_id, seq),
            manifest_id=manifest_id,
            plan_sha256=plan_sha256,
            state=state.value,
            deadline=NOW,
            seq=seq,
            head_signature=head_signature,
            committed_at=NOW,
            commit_xid=sa.func.pg_current_xact_id(),
            finished_at=NOW if state is CommitState.FINALIZED else None,
        )
    )


def insert_promoted(connection: Connection, commit_id: UUID, branch_id: BranchId) -> None:
    """Insert the completed promotion of a commit that readers have read from the start."""
    connection.execute(
        sa.insert(PROMOTION).values(
            commit_id=commit_id,
            branch_id=branch_id,
            policy="now",
            state=PromotionState.DONE.value,
            decided_at=NOW,
        )
    )


def policy_of(connection: Connection, commit_id: UUID) -> str:
    """Read when readers may flip to a commit; locks nothing."""
    statement = sa.select(PROMOTION.c.policy).where(PROMOTION.c.commit_id == commit_id)
    return str(connection.execute(statement).scalar_one())


def commit_at(connection: Connection, branch_id: BranchId, seq: int) -> CommitRow | None:
    """Find the commit that a branch had at a number, if it bound anything; locks nothing."""
    statement = COMMITS.where(
        DEPLOY_COMMIT.c.branch_id == branch_id,
        DEPLOY_COMMIT.c.seq == seq,
        DEPLOY_COMMIT.c.manifest_id.isnot(None),
        DEPLOY_COMMIT.c.kind != CommitKind.DELETE_BRANCH.value,
    )
    return find_row(CommitRow, connection.execute(statement))


def served_before(
    connection: Connection, branch_id: BranchId, serving: CommitRow
) -> CommitRow | None:
    """Find the newest commit that readers read before, with other bindings."""
    statement = (
        COMMITS.join(PROMOTION, PROMOTION.c.commit_id == DEPLOY_COMMIT.c.commit_id)
        .where(
            DEPLOY_COMMIT.c.branch_id == branch_id,
            DEPLOY_COMMIT.c.seq < serving.seq,
            DEPLOY_COMMIT.c.manifest_id != serving.manifest_id,
            PROMOTION.c.state == PromotionState.DONE.value,
        )
        .order_by(DEPLOY_COMMIT.c.seq.desc())
        .limit(1)
    )
    return find_row(CommitRow, connection.execute(statement))


def branch_rows(connection: Connection, tenant_id: TenantId) -> tuple[ListedBranchRow, ...]:
    """List branches: the active ones by name, then those that can be restored; no locks."""
    kept = (
        sa.select(PIN.c.expires_at)
        .where(PIN.c.branch_id == BRANCH.c.branch_id, PIN.c.holder == "undelete")
        .order_by(PIN.c.expires_at)
        .limit(1)
        .scalar_subquery()
    )
    statement = (
        sa.select(BRANCH, kept.label("undelete_until"))
        .where(
            BRANCH.c.tenant_id == tenant_id, sa.or_(BRANCH.c.state == "active", kept.isnot(None))
        )
        .order_by(BRANCH.c.state, BRANCH.c.name, BRANCH.c.branch_id)
    )
    return rows_of(ListedBranchRow, connection.execute(statement))


def count_branches_made_by(connection: Connection, tenant_id: TenantId, actor: str) -> int:
    """Count the branches that an actor made, and that are active or can be restored; no locks."""
    made = sa.exists().where(
        DEPLOY_COMMIT.c.branch_id == BRANCH.c.branch_id,
        DEPLOY_COMMIT.c.kind.in_([CommitKind.INIT_BRANCH.value, CommitKind.CLONE.value]),
        DEPLOY_COMMIT.c.actor == actor,
    )
    kept = sa.exists().where(PIN.c.branch_id == BRANCH.c.branch_id, PIN.c.holder == "undelete")
    statement = (
        sa.select(sa.func.count())
        .select_from(BRANCH)
        .where(BRANCH.c.tenant_id == tenant_id, sa.or_(BRANCH.c.state == "active", kept), made)
    )
    return int(connection.execute(statement).scalar_one())


def find_commit_of_key(connection: Connection, tenant_id: TenantId, key: str) -> CommitRow | None:
    """Find the commit created with an idempotency key; locks nothing."""
    statement = COMMITS.where(
        DEPLOY_COMMIT.c.tenant_id == tenant_id, DEPLOY_COMMIT.c.idempotency_key == key
    )
    return find_row(CommitRow, connection.execute(statement))


def _active(tenant_id: TenantId, name: str) -> sa.Select[tuple[object, ...]]:
    return sa.select(BRANCH).where(
        BRANCH.c.tenant_id == tenant_id, BRANCH.c.name == name, BRANCH.c.state == "active"
    )
