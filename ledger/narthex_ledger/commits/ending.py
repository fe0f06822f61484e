"""End a commit: pass its commit point and finalize it, or abort it and leave no asset behind."""

import datetime as dt
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.commits.creation import check_ready
from narthex_ledger.commits.promotion import open_promotion, promotion_state
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.errors import AlreadyCommitted, NotReady, WrongState
from narthex_ledger.jobs_and_slots.job_registry import start_feeds
from narthex_ledger.model.rows import AssetRow, CommitRow
from narthex_ledger.model.states import (
    ABORTABLE,
    AssetState,
    CommitState,
    CreateStatus,
    PromotionState,
)
from narthex_ledger.model.views import Fence, Rules
from narthex_ledger.requests.commit_requests import hold_fence, reject
from narthex_ledger.signing.signatures import attest, head_statement

_NOW = dt.timedelta(0)


def commit(connection: Connection, commit_id: UUID, fence: Fence, rules: Rules) -> int:
    """T_commit: move the head, in one transaction; return the commit's number.

    A repetition after a lost answer reads the row under its lock, which waits for the transaction
    in doubt. If the commit is COMMITTED, it returns the number; if it is READY, it commits.
    """
    branch_id = on_commits.read_commit(connection, commit_id).branch_id
    branch = on_commits.lock_branch(connection, branch_id)
    row = on_commits.lock_commit(connection, commit_id)
    if row.state in {CommitState.COMMITTED.value, CommitState.FINALIZED.value}:
        return row.committed_seq
    row = hold_fence(connection, commit_id, fence, CommitState.READY)
    if branch.state != "active" or branch.head_seq != row.base_seq:
        raise WrongState("the branch moved", detail={"head_seq": branch.head_seq})
    check_ready(connection, row)
    seq = row.base_seq + 1
    statement = head_statement(
        branch.tenant_id,
        branch_id,
        branch.name,
        commit_id=commit_id,
        manifest_id=row.manifest_id,
    )
    signature = attest(connection, statement)
    if not on_commits.seal_commit(connection, commit_id, fence, seq, signature=signature):
        raise WrongState(f"commit `{commit_id}` could not be sealed")
    on_pins.retire_pin(
        connection, branch_id, "head", hot=rules.history_hot, cold=rules.history_cold
    )
    if on_pins.turn_pin(connection, commit_id, old="inflight", new="head") != 1:
        raise WrongState(f"commit `{commit_id}` has no pin in flight")
    if not on_commits.move_head(connection, branch_id, commit_id, row.base_seq):
        raise WrongState(f"the head of branch {branch_id} moved under its lock")
    open_promotion(connection, row)
    on_commits.insert_event(
        connection,
        "COMMITTED",
        actor=row.owner or row.actor,
        commit_id=commit_id,
        fence=fence,
        detail={"seq": seq},
    )
    start_feeds(connection, row)
    return seq


def finalize(connection: Connection, commit_id: UUID, fence: Fence) -> None:
    """Move a commit from COMMITTED to FINALIZED, once readers flipped or a later one took over."""
    row = hold_fence(connection, commit_id, fence, CommitState.COMMITTED, CommitState.FINALIZED)
    if row.state == CommitState.FINALIZED.value:
        return
    if promotion_state(connection, commit_id) is PromotionState.PENDING:
        raise NotReady(f"commit `{commit_id}` is not promoted yet")
    _end(connection, row, CommitState.FINALIZED)


def abort(connection: Connection, commit_id: UUID, *, error: Json, actor: str) -> CommitState:
    """T_abort and T_unref: abort the commit and release its assets.

    It needs no fence, because the lock on the commit's row decides between this and T_commit.
    """
    row = on_commits.lock_commit(connection, commit_id)
    state = CommitState(row.state)
    if state in {CommitState.COMMITTED, CommitState.FINALIZED}:
        raise AlreadyCommitted(
            f"commit `{commit_id}` has happened", hint="roll back with a new commit"
        )
    if state not in ABORTABLE:
        return state
    if state is CommitState.QUEUED:
        return reject(connection, row, reason="aborted", actor=actor, detail=error)
    on_commits.change_commit(
        connection,
        commit_id,
        state=CommitState.ABORTING.value,
        fence=row.fence + 1,
        owner=None,
        lease_expires_at=None,
        error=error,
    )
    on_commits.insert_event(
        connection,
        "ABORTING",
        actor=actor,
        commit_id=commit_id,
        fence=row.fence + 1,
        detail={"error": error},
    )
    _unref(connection, row, actor)
    return CommitState.ABORTING


def aborted(connection: Connection, commit_id: UUID) -> CommitState:
    """T_aborted: end the commit once its new assets are destroyed or belong to other commits.

    It returns ABORTING while an asset is left; call it again.
    """
    row = on_commits.lock_commit(connection, commit_id)
    state = CommitState(row.state)
    if state is not CommitState.ABORTING:
        return state
    states = on_assets.introduced_by(connection, commit_id)
    left = [a for a, found in states.items() if found is not AssetState.DESTROYED]
    if set(left) - on_pins.pinned_assets(connection, left):
        return state
    _end(connection, row, CommitState.ABORTED)
    return CommitState.ABORTED


def _unref(connection: Connection, commit: CommitRow, actor: str) -> None:
    commit_id = commit.commit_id
    on_pins.lock_pins(connection, commit.planned_manifest_id)
    assets = on_assets.lock_bound(connection, commit.planned_manifest_id)
    on_pins.delete_inflight_pin(connection, commit_id)
    ids = [asset.asset_id for asset in assets]
    pinned = on_pins.pinned_assets(connection, ids)
    heirs = on_pins.other_holders(connection, ids, except_commit=commit_id)
    entries = on_assets.creations(connection, ids)
    for asset in assets:
        asset_id = asset.asset_id
        mine = entries[asset_id].owner_commit_id == commit_id
        if asset_id not in pinned:
            _let_go(connection, commit, asset, mine=mine, actor=actor)
        elif mine and asset_id in heirs:
            on_assets.change_creation(connection, asset_id, owner_commit_id=heirs[asset_id])
            _event(connection, commit, "handed_over", asset_id, actor, str(heirs[asset_id]))


def _let_go(
    connection: Connection, commit: CommitRow, asset: AssetRow, *, mine: bool, actor: str
) -> None:
    asset_id = asset.asset_id
    match AssetState(asset.state):
        case AssetState.PLANNED:
            on_assets.change_creation(connection, asset_id, status=CreateStatus.UNDONE.value)
            on_assets.set_asset_state(
                connection, asset_id, AssetState.DESTROYED, destroyed_at=on_commits.NOW
            )
            _event(connection, commit, "destroyed", asset_id, actor)
        case AssetState.CREATING:
            on_assets.change_creation(connection, asset_id, status=CreateStatus.UNDONE.value)
            on_assets.set_asset_state(connection, asset_id, AssetState.DESTROYING)
            _schedule(connection, commit, asset_id)
            _event(connection, commit, "destroying", asset_id, actor)
        case AssetState.LIVE if mine:
            on_assets.set_asset_state(
                connection, asset_id, AssetState.RETIRING, retiring_at=on_commits.NOW
            )
            _schedule(connection, commit, asset_id)
            _event(connection, commit, "retiring", asset_id, actor)
        case _:
            return


def _schedule(connection: Connection, commit: CommitRow, asset_id: int) -> None:
    on_assets.schedule_destroy(
        connection, asset_id, reason="abort", cause=commit.commit_id, grace=_NOW
    )


def _end(connection: Connection, commit: CommitRow, state: CommitState) -> None:
    on_commits.change_commit(
        connection,
        commit.commit_id,
        state=state.value,
        finished_at=on_commits.NOW,
        owner=None,
        lease_expires_at=None,
    )
    on_commits.insert_event(
        connection,
        state.value,
        actor=commit.owner or "ledger",
        commit_id=commit.commit_id,
        fence=commit.fence,
    )


def _event(
    connection: Connection,
    commit: CommitRow,
    transition: str,
    asset_id: int,
    actor: str,
    to: str = "",
) -> None:
    on_commits.insert_event(
        connection,
        transition,
        actor=actor,
        commit_id=commit.commit_id,
        asset_id=asset_id,
        fence=commit.fence + 1,
        detail={"to": to} if to else None,
    )
