"""Create a commit's assets one by one, and check that it is ready for the commit point."""

import datetime as dt
import hashlib
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetKind, shards_of_job
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.erasures.erasing import check_filled
from narthex_ledger.errors import (
    CommitCancelled,
    LedgerError,
    LedgerRefused,
    NotReady,
    WrongState,
)
from narthex_ledger.model.rows import AssetRow, CommitRow
from narthex_ledger.model.states import (
    IN_FLIGHT,
    JOB_KINDS,
    ROW_KINDS,
    AssetState,
    CommitState,
    CreateStatus,
)
from narthex_ledger.model.views import AlreadyLive, Fence, Go, IntentOutcome, Rules, Waiting
from narthex_ledger.reading.resolved_assets import AssetRows, resolve
from narthex_ledger.requests.commit_requests import hold_fence, share_fence
from narthex_ledger.signing.row_checks import Checker

_WORKING = (CommitState.PLANNED, CommitState.APPLYING)
_AFTER = (CommitState.READY, CommitState.COMMITTED, CommitState.FINALIZED)


def intend(
    connection: Connection,
    asset_id: int,
    commit_id: UUID,
    fence: Fence,
    call_timeout_s: float,
    *,
    checker: Checker,
) -> IntentOutcome:
    """Ta: record that the store is about to be called."""
    commit = _applying(connection, commit_id, fence)
    asset, outcome = _turn(connection, commit, asset_id)
    if outcome is not None:
        return outcome
    if asset.kind in {kind.value for kind in ROW_KINDS}:
        raise LedgerRefused(f"a {asset.kind} is made by `assets.create_row`")
    attempt = _write_intent(
        connection,
        commit,
        asset,
        deadline=on_commits.NOW + dt.timedelta(seconds=call_timeout_s),
    )
    resolved = resolve(AssetRows.read(connection, [asset]), checker=checker)
    return Go(asset=resolved[asset_id], attempt=attempt)


def created(
    connection: Connection, asset_id: int, commit_id: UUID, fence: Fence, external_id: str
) -> None:
    """Td: record that a probe has matched."""
    commit = share_fence(connection, commit_id, fence, *_WORKING, *_AFTER)
    asset = on_assets.lock_asset(connection, asset_id)
    entry = on_assets.lock_creation(connection, asset_id)
    if asset.state == AssetState.LIVE.value:
        return
    if entry.owner_commit_id != commit_id or entry.status != CreateStatus.INTENT.value:
        raise WrongState(f"asset {asset_id} is not being created by commit `{commit_id}`")
    _write_done(connection, commit, asset, external_id)


def create_row_asset(
    connection: Connection,
    asset_id: int,
    commit_id: UUID,
    fence: Fence,
    rules: Rules,
    *,
    checker: Checker,
) -> IntentOutcome:
    """Run Ta, the creation and Td of an asset in this database, in one transaction.

    A job gets as many shards as the things that it needs have parts by now.
    """
    commit = _applying(connection, commit_id, fence)
    asset, outcome = _turn(connection, commit, asset_id)
    if outcome is not None:
        return outcome
    _write_intent(connection, commit, asset, deadline=None)
    match AssetKind(asset.kind):
        case kind if kind in JOB_KINDS:
            slots = on_jobs.slot_count(connection, rules.slot_space)
            if slots == 0:
                raise LedgerError(
                    f"slot space `{rules.slot_space}` has no slots",
                    hint="call `installation.create` once",
                )
            resolved = resolve(AssetRows.read(connection, [asset]), checker=checker)
            shards = shards_of_job(resolved[asset_id])
            on_jobs.insert_job(
                connection,
                asset,
                rules.slot_space,
                [slot_of(asset_id, shard=shard, slots=slots) for shard in range(shards)],
            )
        case AssetKind.SINK_FENCE:
            on_jobs.insert_sink_fence(connection, asset.physical_name)
        case other:
            raise LedgerRefused(f"a {other.value} is not a row of this database")
    external_id = f"row:{asset_id}"
    _write_done(connection, commit, asset, external_id)
    return AlreadyLive(asset_id=asset_id, external_id=external_id)


def quarantine(
    connection: Connection, asset_id: int, commit_id: UUID, fence: Fence, difference: Json
) -> None:
    """Quarantine an asset that differs in its store: never reused or recreated until decided."""
    commit = share_fence(connection, commit_id, fence, *IN_FLIGHT, CommitState.COMMITTED)
    asset = on_assets.lock_asset(connection, asset_id)
    if asset.state == AssetState.QUARANTINED.value:
        return
    on_assets.set_asset_state(connection, asset_id, AssetState.QUARANTINED)
    on_assets.note_error(connection, asset_id, difference)
    _event(connection, commit, "quarantined", asset_id, detail={"difference": difference})


def fail(connection: Connection, asset_id: int, commit_id: UUID, fence: Fence, error: Json) -> None:
    """Store the error of a call to the store, for people."""
    share_fence(connection, commit_id, fence, *IN_FLIGHT)
    on_assets.note_error(connection, asset_id, error)


def ready(connection: Connection, commit_id: UUID, fence: Fence) -> None:
    """T_ready: all bound assets are live."""
    commit = hold_fence(connection, commit_id, fence, *_WORKING, *_AFTER)
    if commit.state in on_commits.states_of(_AFTER):
        return
    waiting = _not_live(connection, commit)
    if waiting:
        raise NotReady(f"{len(waiting)} assets are not live", detail=list(waiting))
    check_filled(connection, commit.planned_manifest_id)
    if commit.state == CommitState.PLANNED.value:
        _move(connection, commit, CommitState.APPLYING)
    _move(connection, commit, CommitState.READY)


def check_ready(connection: Connection, commit: CommitRow) -> None:
    """Raise if the commit is cancelled, its base moved, or an asset is no longer live."""
    if commit.cancel_requested_at is not None:
        raise CommitCancelled(f"commit `{commit.commit_id}` was cancelled")
    waiting = _not_live(connection, commit)
    if waiting:
        raise WrongState("an asset stopped being live", detail=list(waiting))


def slot_of(asset_id: int, *, shard: int, slots: int) -> int:
    """Return the slot of a job's shard, which never changes."""
    digest = hashlib.sha256(f"{asset_id}/{shard}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % slots


def _applying(connection: Connection, commit_id: UUID, fence: Fence) -> CommitRow:
    seen = on_commits.read_commit(connection, commit_id)
    if seen.state == CommitState.PLANNED.value:
        commit = hold_fence(connection, commit_id, fence, *_WORKING)
        if commit.state == CommitState.PLANNED.value:
            _move(connection, commit, CommitState.APPLYING)
        return commit
    return share_fence(connection, commit_id, fence, CommitState.APPLYING, *_AFTER)


def _turn(
    connection: Connection, commit: CommitRow, asset_id: int
) -> tuple[AssetRow, IntentOutcome | None]:
    """Lock the asset and take it over, or return why this commit can't create it now."""
    if not on_assets.is_bound(connection, commit.planned_manifest_id, asset_id):
        raise LedgerRefused(f"commit `{commit.commit_id}` does not bind asset {asset_id}")
    asset = on_assets.lock_asset(connection, asset_id)
    if asset.state == AssetState.LIVE.value:
        return asset, AlreadyLive(asset_id=asset_id, external_id=asset.external_id or "")
    if asset.state not in {AssetState.PLANNED.value, AssetState.CREATING.value}:
        raise WrongState(f"asset {asset_id} is {asset.state}", detail=asset.state)
    needs = on_assets.needs_of(connection, [asset_id])
    missing = tuple(n.needs_asset_id for n in needs if n.state != AssetState.LIVE.value)
    if missing:
        return asset, Waiting(asset_id=asset_id, needs=missing)
    return asset, _take_over(connection, commit, asset_id)


def _take_over(connection: Connection, commit: CommitRow, asset_id: int) -> Waiting | None:
    owner = on_assets.lock_creation(connection, asset_id).owner_commit_id
    if owner == commit.commit_id:
        return None
    if on_commits.has_live_lease(connection, owner):
        return Waiting(asset_id=asset_id, owner_commit_id=owner)
    on_assets.change_creation(connection, asset_id, owner_commit_id=commit.commit_id)
    _event(connection, commit, "taken_over", asset_id, detail={"from": str(owner)})
    return None


def _write_intent(
    connection: Connection, commit: CommitRow, asset: AssetRow, *, deadline: object
) -> int:
    asset_id = asset.asset_id
    entry = on_assets.lock_creation(connection, asset_id)
    attempt = entry.attempt + 1
    if asset.state == AssetState.PLANNED.value:
        on_assets.set_asset_state(connection, asset_id, AssetState.CREATING)
        _event(connection, commit, "creating", asset_id)
    on_assets.change_creation(
        connection,
        asset_id,
        status=CreateStatus.INTENT.value,
        attempt=attempt,
        fence=commit.fence,
        last_call_deadline=deadline,
        intent_at=on_commits.NOW,
    )
    return attempt


def _write_done(
    connection: Connection, commit: CommitRow, asset: AssetRow, external_id: str
) -> None:
    asset_id = asset.asset_id
    on_assets.change_creation(
        connection,
        asset_id,
        status=CreateStatus.DONE.value,
        external_id=external_id,
        fence=commit.fence,
        done_at=on_commits.NOW,
    )
    on_assets.set_asset_state(
        connection, asset_id, AssetState.LIVE, external_id=external_id, live_at=on_commits.NOW
    )
    _event(connection, commit, "live", asset_id)


def _not_live(connection: Connection, commit: CommitRow) -> tuple[int, ...]:
    states = on_assets.states_bound(connection, commit.planned_manifest_id)
    return tuple(sorted(a for a, state in states.items() if state is not AssetState.LIVE))


def _move(connection: Connection, commit: CommitRow, state: CommitState) -> None:
    on_commits.change_commit(connection, commit.commit_id, state=state.value)
    _event(connection, commit, state.value, None)


def _event(
    connection: Connection,
    commit: CommitRow,
    transition: str,
    asset_id: int | None,
    *,
    detail: Json = None,
) -> None:
    on_commits.insert_event(
        connection,
        transition,
        actor=commit.owner or commit.actor,
        commit_id=commit.commit_id,
        asset_id=asset_id,
        fence=commit.fence,
        detail=detail,
    )
