"""Accept commit requests, and lease commits to executors."""

from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.errors import (
    AlreadyCommitted,
    Fenced,
    IdempotencyKeyReused,
    LeaseHeld,
    LedgerRefused,
    NotFound,
    WrongState,
)
from narthex_ledger.model.rows import CommitRow
from narthex_ledger.model.states import ABORTABLE, DRIVABLE, CommitState
from narthex_ledger.model.views import Accepted, CommitRequest, Fence, Replayed


def accept(
    connection: Connection,
    request: CommitRequest,
    bundle_sha256: bytes,
    signature: bytes | None,
    most_queued: int,
) -> Accepted | Replayed:
    """T0: queue the request, or find the commit created with the same key."""
    on_commits.put_bundle(connection, bundle_sha256, request.bundle)
    branch = on_commits.read_branch(connection, request.branch)
    if branch.tenant_id != request.tenant or branch.state != "active":
        raise NotFound(f"there is no active branch {request.branch}")
    base_seq = branch.head_seq if request.base_seq is None else request.base_seq
    if on_commits.insert_commit(connection, request, bundle_sha256, base_seq, signature=signature):
        _require_few(connection, request, most_queued)
        on_commits.insert_event(
            connection, "QUEUED", actor=request.actor, commit_id=request.commit_id
        )
        return Accepted(commit_id=request.commit_id)
    before = on_commits.commit_of_key(connection, request.tenant, request.idempotency_key)
    if before.request_sha256 != request.request_sha256:
        raise IdempotencyKeyReused(
            "the idempotency key was used for another request",
            detail={"commit_id": str(before.commit_id)},
            hint="give each request a key of its own",
        )
    return Replayed(commit_id=before.commit_id, state=CommitState(before.state))


def _require_few(connection: Connection, request: CommitRequest, most_queued: int) -> None:
    """Raise if an actor has too many commits that wait, with the one that was just inserted."""
    if on_commits.count_queued_by(connection, request.tenant, request.actor) > most_queued:
        raise LedgerRefused(
            f"`{request.actor}` has {most_queued} commits that wait for their turn",
            hint="wait until some have ended, or cancel those that are not needed",
        )


def claim(connection: Connection, commit_id: UUID, owner: str, lease_s: float) -> Fence:
    """T_claim: lease the commit to the owner unless another owner holds it."""
    commit = on_commits.lock_commit(connection, commit_id)
    if commit.state not in on_commits.states_of(DRIVABLE):
        raise WrongState(f"commit `{commit_id}` is {commit.state}", detail=commit.state)
    if not on_commits.is_claimable(connection, commit_id, owner):
        raise LeaseHeld(f"commit `{commit_id}` is held by `{commit.owner}`")
    fence = on_commits.lease_commit(connection, commit_id, owner, lease_s)
    if fence != commit.fence:
        on_commits.insert_event(
            connection, "claimed", actor=owner, commit_id=commit_id, fence=fence
        )
    return fence


def renew(connection: Connection, commit_id: UUID, fence: Fence, lease_s: float) -> None:
    """Extend the lease; a lost lease cannot be renewed."""
    if not on_commits.extend_lease(connection, commit_id, fence, lease_s):
        raise Fenced(f"the lease of commit `{commit_id}` is lost")


def share_fence(
    connection: Connection, commit_id: UUID, fence: Fence, *allowed: CommitState
) -> CommitRow:
    """Check the fence in a step that does not change the commit's row."""
    return _checked(on_commits.share_commit(connection, commit_id), fence, allowed)


def hold_fence(
    connection: Connection, commit_id: UUID, fence: Fence, *allowed: CommitState
) -> CommitRow:
    """Check the fence in a step that changes the commit's row."""
    return _checked(on_commits.lock_commit(connection, commit_id), fence, allowed)


def cancel(connection: Connection, commit_id: UUID, actor: str) -> CommitState:
    """Request a cancel; the lock on the commit's row decides between this and T_commit."""
    commit = on_commits.lock_commit(connection, commit_id)
    state = CommitState(commit.state)
    if state in {CommitState.COMMITTED, CommitState.FINALIZED}:
        raise AlreadyCommitted(
            f"commit `{commit_id}` has happened", hint="roll back with a new commit"
        )
    if state not in ABORTABLE:
        return state
    if commit.cancel_requested_at is None:
        on_commits.request_cancel(connection, commit_id)
        on_commits.insert_event(connection, "cancel_requested", actor=actor, commit_id=commit_id)
    if state is CommitState.QUEUED:
        return reject(connection, commit, reason="cancelled", actor=actor)
    return state


def reject(
    connection: Connection, commit: CommitRow, *, reason: str, actor: str, detail: Json = None
) -> CommitState:
    """Reject a locked commit that has no reservations."""
    on_commits.change_commit(
        connection,
        commit.commit_id,
        state=CommitState.REJECTED.value,
        fence=commit.fence + 1,
        error={"reason": reason, "detail": detail},
        finished_at=on_commits.NOW,
    )
    on_commits.insert_event(
        connection,
        "REJECTED",
        actor=actor,
        commit_id=commit.commit_id,
        fence=commit.fence + 1,
        detail={"reason": reason},
    )
    return CommitState.REJECTED


def _checked(commit: CommitRow, fence: Fence, allowed: tuple[CommitState, ...]) -> CommitRow:
    if commit.fence != fence:
        raise Fenced(f"fence {fence} of commit `{commit.commit_id}` is stale; it is {commit.fence}")
    if CommitState(commit.state) not in allowed:
        raise WrongState(
            f"commit `{commit.commit_id}` is {commit.state},"
            f" not {' or '.join(state.value for state in allowed)}",
            detail=commit.state,
        )
    return commit
