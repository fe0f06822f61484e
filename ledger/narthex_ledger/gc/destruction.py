"""Destroy unpinned assets: the collector's transactions, one asset each."""

import datetime as dt
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetKind
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import erasures as on_erasures
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.errors import Fenced, LedgerRefused, WrongState
from narthex_ledger.jobs_and_slots.job_registry import destroy_rows, stop_job
from narthex_ledger.model.rows import AssetRow, DestructionRow
from narthex_ledger.model.states import JOB_KINDS, ROW_KINDS, AssetState, DestroyStatus
from narthex_ledger.model.views import DestroyOrder, Fence, NotNow, Rules

_JOBS = frozenset(kind.value for kind in JOB_KINDS)
_ROWS = frozenset(kind.value for kind in ROW_KINDS)


def expire_pins(connection: Connection, actor: str) -> tuple[UUID, ...]:
    """Delete expired history and undelete pins; return the manifests that lost one."""
    gone = on_pins.delete_expired(connection)
    on_pins.cool(connection)
    if gone:
        on_commits.insert_event(
            connection, "pins_expired", actor=actor, detail=[str(manifest) for manifest in gone]
        )
    return gone


def mark(connection: Connection, asset_id: int, actor: str, rules: Rules) -> bool:
    """T_mark: retire a live asset that no pin reaches; false when one does."""
    asset = on_assets.try_lock_asset(connection, asset_id)
    if asset is None or asset.state != AssetState.LIVE.value:
        return False
    if on_pins.pinned_assets(connection, [asset_id]):
        return False
    on_assets.set_asset_state(connection, asset_id, AssetState.RETIRING, retiring_at=on_commits.NOW)
    # An obsolete asset is never shared again, so there is nothing to wait for.
    grace = dt.timedelta(0) if on_erasures.is_obsolete(connection, asset_id) else rules.grace
    on_assets.schedule_destroy(connection, asset_id, reason="unreferenced", cause=None, grace=grace)
    on_commits.insert_event(connection, "retiring", actor=actor, asset_id=asset_id)
    return True


def destroy_intent(
    connection: Connection, asset_id: int, owner: str, rules: Rules
) -> DestroyOrder | NotNow:
    """D1: decide, under the asset's lock, to destroy it; after that it is never used again.

    A second call by the owner returns the same order; a call by another owner, once the lease has
    expired, returns a new fence.
    """
    asset = on_assets.try_lock_asset(connection, asset_id)
    if asset is None:
        return NotNow(asset_id=asset_id, why="another process has locked it")
    entry = on_assets.lock_destruction(connection, asset_id)
    if entry is None:
        return NotNow(asset_id=asset_id, why="no destruction is scheduled")
    if entry.held and entry.owner == owner:
        return _order(asset, Fence(entry.fence))
    why = _why_not(connection, asset, entry, rules)
    if why:
        return NotNow(asset_id=asset_id, why=why)
    if asset.state == AssetState.RETIRING.value:
        on_assets.set_asset_state(connection, asset_id, AssetState.DESTROYING)
        on_commits.insert_event(
            connection, "destroying", actor=owner, asset_id=asset_id, fence=entry.fence + 1
        )
    on_assets.change_destruction(
        connection,
        asset_id,
        status=DestroyStatus.INTENT.value,
        fence=entry.fence + 1,
        owner=owner,
        lease_expires_at=on_commits.NOW + dt.timedelta(seconds=rules.destroy_lease_s),
        intent_at=on_commits.NOW,
    )
    return _order(asset, Fence(entry.fence + 1))


def destroy_call(
    connection: Connection, asset_id: int, fence: Fence, call_timeout_s: float, rules: Rules
) -> DestroyOrder | NotNow:
    """D2: allow one call to the store, once no create call can still be in flight."""
    asset = on_assets.lock_asset(connection, asset_id)
    entry = _hold(connection, asset, fence)
    if not on_assets.quiet_since_create(connection, asset_id, rules.quiesce_margin):
        return NotNow(asset_id=asset_id, why="a create call may still be in flight")
    seconds = max(call_timeout_s, rules.destroy_lease_s)
    on_assets.change_destruction(
        connection,
        asset_id,
        attempt=entry.attempt + 1,
        last_call_deadline=on_commits.NOW + dt.timedelta(seconds=call_timeout_s),
        lease_expires_at=on_commits.NOW + dt.timedelta(seconds=seconds),
    )
    return _order(asset, fence)


def destroy_failed(connection: Connection, asset_id: int, fence: Fence, error: Json) -> None:
    """Store the store's error, and release the order for another attempt."""
    asset = on_assets.lock_asset(connection, asset_id)
    _hold(connection, asset, fence)
    on_assets.change_destruction(
        connection, asset_id, last_error=error, owner=None, lease_expires_at=None
    )


def destroyed(connection: Connection, asset_id: int, fence: Fence, rules: Rules) -> None:
    """D4: record the destruction after two absent probes; delete the asset's database rows."""
    asset = on_assets.lock_asset(connection, asset_id)
    if asset.state == AssetState.DESTROYED.value:
        return
    entry = _hold(connection, asset, fence)
    if not on_assets.quiet_since_create(connection, asset_id, rules.quiesce_margin):
        raise LedgerRefused(f"a create call of asset {asset_id} may still be in flight")
    if asset.kind in _ROWS:
        destroy_rows(connection, asset)
    on_assets.change_destruction(
        connection, asset_id, status=DestroyStatus.DONE.value, done_at=on_commits.NOW
    )
    on_assets.set_asset_state(
        connection, asset_id, AssetState.DESTROYED, destroyed_at=on_commits.NOW
    )
    on_commits.insert_event(
        connection, "destroyed", actor=entry.owner or "ledger", asset_id=asset_id, fence=fence
    )


def force_destroy(connection: Connection, asset_id: int, actor: str) -> None:
    """Schedule a quarantined, unpinned asset for destruction, on a person's decision."""
    asset = on_assets.lock_asset(connection, asset_id)
    if asset.state == AssetState.DESTROYING.value:
        return
    if asset.state != AssetState.QUARANTINED.value:
        raise WrongState(f"asset {asset_id} is {asset.state}", detail=asset.state)
    if on_pins.pinned_assets(connection, [asset_id]):
        raise LedgerRefused(f"a pin reaches asset {asset_id}", hint="commit without it first")
    on_assets.set_asset_state(connection, asset_id, AssetState.DESTROYING)
    on_assets.schedule_destroy(
        connection, asset_id, reason="orphan", cause=None, grace=dt.timedelta(0)
    )
    on_commits.insert_event(connection, "destroying", actor=actor, asset_id=asset_id)


def _why_not(connection: Connection, asset: AssetRow, entry: DestructionRow, rules: Rules) -> str:
    asset_id = asset.asset_id
    if asset.state not in {AssetState.RETIRING.value, AssetState.DESTROYING.value}:
        return f"it is {asset.state}"
    if entry.held:
        return f"`{entry.owner}` is destroying it"
    if not entry.due:
        return "it is not due"
    if asset.state == AssetState.RETIRING.value and on_pins.pinned_assets(connection, [asset_id]):
        return "a pin reaches it"
    dependants = on_assets.undestroyed_dependants(connection, asset_id)
    if dependants:
        return f"asset {dependants[0]} needs it"
    return stop_job(connection, asset_id, rules) if _has_job(asset) else ""


def _has_job(asset: AssetRow) -> bool:
    # Once it is being destroyed, its job has stopped and supervisors no longer see it, so none
    # could report again that it stopped.
    return asset.kind in _JOBS and asset.state == AssetState.RETIRING.value


def _hold(connection: Connection, asset: AssetRow, fence: Fence) -> DestructionRow:
    entry = on_assets.lock_destruction(connection, asset.asset_id)
    if entry is None or entry.fence != fence or not entry.held:
        raise Fenced(f"fence {fence} of the destruction of asset {asset.asset_id} is stale")
    if asset.state != AssetState.DESTROYING.value:
        raise WrongState(f"asset {asset.asset_id} is {asset.state}", detail=asset.state)
    return entry


def _order(asset: AssetRow, fence: Fence) -> DestroyOrder:
    return DestroyOrder(
        asset_id=asset.asset_id,
        kind=AssetKind(asset.kind),
        physical_name=asset.physical_name,
        external_id=asset.external_id,
        fence=fence,
    )
