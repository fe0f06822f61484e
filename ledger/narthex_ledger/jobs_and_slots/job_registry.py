"""The job registry: the desired state of jobs, bounded runs, and shards' reports."""

import datetime as dt
from collections.abc import Iterable, Sequence
from uuid import UUID

from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex._ir import AssetKind, PipelineJobSpec, SourceJobSpec, Trigger
from narthex_ledger.db.statements import assets as on_assets
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.db.statements import driver_backfills as on_runs
from narthex_ledger.db.statements import erased_sinks as on_sinks
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import pins as on_pins
from narthex_ledger.errors import Fenced, LeaseHeld, LedgerRefused, NotReady
from narthex_ledger.model.rows import AssetRow, BoundJobRow, CommitRow, JobRow
from narthex_ledger.model.states import FEED_KINDS, CommitState, Desired, Phase
from narthex_ledger.model.views import Epoch, Fence, Rules, ShardReport, SlotLease
from narthex_ledger.reading.resolved_assets import spec_of
from narthex_ledger.requests.commit_requests import share_fence

_FEEDS = frozenset(kind.value for kind in FEED_KINDS)
_IDLE = frozenset({Phase.PENDING.value, Phase.STOPPED.value})


def start_feeds(connection: Connection, commit: CommitRow) -> None:
    """Start writers at the commit point: they tail their logs, so that a backfill fills them."""
    stopped = [
        job.asset_id
        for job in on_jobs.lock_jobs(connection, commit.planned_manifest_id)
        if job.kind in _FEEDS and job.desired != Desired.RUNNING.value
    ]
    if stopped:
        on_jobs.set_desired(connection, stopped, Desired.RUNNING)
        on_jobs.bump_registry(connection, changed=stopped)


def start_jobs(connection: Connection, commit_id: UUID, fence: Fence) -> tuple[int, ...]:
    """Run all unbounded jobs of the commit live, after the backfill; return the started ones.

    A sink waits while an erasure lets an obsolete one delete rows from the same target.
    """
    commit = share_fence(connection, commit_id, fence, CommitState.COMMITTED, CommitState.FINALIZED)
    waiting = on_sinks.waiting_sinks(connection, commit.planned_manifest_id, lock=True)
    jobs = on_jobs.lock_jobs(connection, commit.planned_manifest_id)
    unfilled = [job.asset_id for job in jobs if owes_backfill(job)]
    if unfilled:
        raise NotReady(f"{len(unfilled)} jobs are not backfilled", detail=list(unfilled))
    started = tuple(
        job.asset_id
        for job in jobs
        if not is_bounded(job)
        and job.desired != Desired.RUNNING.value
        and job.asset_id not in waiting
    )
    on_jobs.set_desired(connection, started, Desired.RUNNING)
    on_runs.delete_backfill(connection, commit_id)
    if started:
        on_jobs.bump_registry(connection, changed=started)
        on_commits.insert_event(
            connection,
            "jobs_started",
            actor=commit.owner or commit.actor,
            commit_id=commit_id,
            fence=fence,
            detail=list(started),
        )
    return started


def claim_backfill(
    connection: Connection, commit_id: UUID, asset_id: int, lease_s: float
) -> Epoch | None:
    """Lease a stopped job to the bounded run of a commit; None when it is backfilled already.

    A second claim for the same commit is a restarted run: its epoch grows, the first is fenced.
    """
    commit = on_commits.share_commit(connection, commit_id)
    if commit.state not in {CommitState.COMMITTED.value, CommitState.FINALIZED.value}:
        raise LedgerRefused(
            f"commit `{commit_id}` is {commit.state}; a backfill follows the commit"
        )
    if not on_assets.is_bound(connection, commit.planned_manifest_id, asset_id):
        raise LedgerRefused(f"commit `{commit_id}` does not bind asset {asset_id}")
    job = on_jobs.lock_job(connection, asset_id)
    if not owes_backfill(job):
        return None
    owner = f"backfill:{commit_id}"
    if job.backfill_held and job.backfill_owner != owner:
        raise LeaseHeld(f"job {asset_id} is leased to `{job.backfill_owner}`")
    if job.desired == Desired.RUNNING.value:
        raise LedgerRefused(f"job {asset_id} already runs live")
    epoch = job.backfill_epoch + 1
    on_jobs.change_job(
        connection,
        asset_id,
        backfill_owner=owner,
        backfill_epoch=epoch,
        backfill_expires_at=on_commits.NOW + dt.timedelta(seconds=lease_s),
    )
    on_commits.insert_event(
        connection,
        "backfill_claimed",
        actor=owner,
        commit_id=commit_id,
        asset_id=asset_id,
        fence=epoch,
    )
    return Epoch(epoch)


def report_backfill(
    connection: Connection, asset_id: int, epoch: Epoch, progress: Json, lease_s: float
) -> None:
    """Store a bounded run's progress and extend its lease."""
    _hold_backfill(connection, asset_id, epoch)
    on_jobs.set_backfill_progress(connection, asset_id, {"done": False, "progress": progress})
    on_jobs.change_job(
        connection,
        asset_id,
        backfill_expires_at=on_commits.NOW + dt.timedelta(seconds=lease_s),
    )


def finish_backfill(
    connection: Connection, asset_id: int, epoch: Epoch, offsets: Json, rows: int
) -> None:
    """Record where a bounded run ended and release the job; the live run starts there."""
    job = on_jobs.lock_job(connection, asset_id)
    if job.backfilled_at is not None and job.backfill_epoch == epoch:
        return
    job = _hold_backfill(connection, asset_id, epoch)
    done: Json = {"done": True, "offsets": offsets, "rows": rows}
    on_jobs.set_backfill_progress(connection, asset_id, done)
    on_jobs.change_job(
        connection,
        asset_id,
        backfilled_at=on_commits.NOW,
        backfill_owner=None,
        backfill_expires_at=None,
    )
    on_commits.insert_event(
        connection,
        "backfilled",
        actor=job.backfill_owner or "ledger",
        asset_id=asset_id,
        fence=epoch,
        detail={"offsets": offsets, "rows": rows},
    )
    on_jobs.bump_registry(connection, changed=[asset_id])


def release_backfill(connection: Connection, asset_id: int, epoch: Epoch, error: str) -> None:
    """Release a job that was not backfilled, with the reason; do nothing for an old epoch."""
    job = on_jobs.lock_job(connection, asset_id)
    if job.backfill_epoch != epoch or job.backfill_owner is None:
        return
    on_jobs.set_backfill_progress(connection, asset_id, {"done": False, "error": error})
    on_commits.insert_event(
        connection,
        "backfill_failed",
        actor=job.backfill_owner,
        asset_id=asset_id,
        fence=epoch,
        detail={"error": error},
    )
    on_jobs.change_job(connection, asset_id, backfill_owner=None, backfill_expires_at=None)


def pause_cold_jobs(connection: Connection) -> tuple[int, ...]:
    """Pause running jobs that no pin keeps warm; each is rechecked under its lock."""
    paused = []
    for asset_id in on_pins.cold_jobs(connection):
        asset = on_assets.try_lock_asset(connection, asset_id)
        if asset is None or on_pins.is_warm(connection, asset_id):
            continue
        if on_jobs.lock_job(connection, asset_id).desired == Desired.RUNNING.value:
            paused.append(asset_id)
    if paused:
        on_jobs.set_desired(connection, paused, Desired.PAUSED)
        on_jobs.bump_registry(connection, changed=paused)
    return tuple(paused)


def resume_jobs(connection: Connection, manifest_ids: Iterable[UUID]) -> tuple[int, ...]:
    """Resume jobs that were paused while only cold pins reached them; return them."""
    paused = {
        job.asset_id
        for manifest_id in sorted(set(manifest_ids))
        for job in on_jobs.lock_jobs(connection, manifest_id)
        if job.desired == Desired.PAUSED.value
    }
    resumed = tuple(sorted(paused))
    if resumed:
        on_jobs.set_desired(connection, resumed, Desired.RUNNING)
        on_jobs.bump_registry(connection, changed=resumed)
    return resumed


def stop_job(connection: Connection, asset_id: int, rules: Rules) -> str:
    """Stop the job of a locked asset; return why it has not stopped yet, or an empty string.

    A shard has stopped when it reported so for this generation, when its slot cannot be held, or
    when it was idle for as long as a supervisor may take to see the stop.
    """
    job = on_jobs.lock_job(connection, asset_id)
    if job.desired != Desired.STOPPED.value:
        on_jobs.set_desired(connection, [asset_id], Desired.STOPPED)
        on_jobs.bump_registry(connection, changed=[asset_id])
        job = on_jobs.lock_job(connection, asset_id)
    if job.backfill_held:
        return f"a backfill has it: {job.backfill_owner}"
    if job.generation == 1:
        return ""
    settled = on_jobs.desired_before(connection, asset_id, rules.registry_settle)
    for shard in on_jobs.share_shards(connection, [asset_id]):
        acked = shard.seen_generation == job.generation and shard.phase == Phase.STOPPED.value
        free = shard.slot_owner is None or not shard.slot_held
        if not (acked or free or (settled and shard.phase in _IDLE)):
            return f"shard {shard.shard} is {shard.phase}"
    return ""


def destroy_rows(connection: Connection, asset: AssetRow) -> None:
    """Delete an asset's rows in this database; a sink's fence stays, raised permanently."""
    if asset.kind == AssetKind.SINK_FENCE.value:
        on_jobs.close_sink_fence(connection, asset.physical_name)
    else:
        on_jobs.delete_job(connection, asset.asset_id)
        on_jobs.bump_registry(connection)


def report(connection: Connection, reports: Sequence[ShardReport]) -> tuple[ShardReport, ...]:
    """Store shards' reports, one each; return those whose slot was taken or expired."""
    ordered = sorted(reports, key=lambda r: (r.asset_id, r.shard))
    held = on_jobs.share_slots_of(connection, ordered)
    on_jobs.store_reports(connection, [r for r in ordered if (r.asset_id, r.shard) in held])
    return tuple(r for r in ordered if (r.asset_id, r.shard) not in held)


def claim_slots(
    connection: Connection, owner: str, slots: Sequence[int], rules: Rules
) -> tuple[SlotLease, ...]:
    """Lease those of the requested slots that are free or expired."""
    leases = on_jobs.claim_slots(connection, owner, rules.slot_space, slots, rules.slot_lease_s)
    return tuple(sorted(leases, key=lambda lease: lease.slot))


def renew_slots(
    connection: Connection, owner: str, leases: Sequence[SlotLease], rules: Rules
) -> tuple[SlotLease, ...]:
    """Extend leases and return those still held; jobs of missing slots must stop at once."""
    ordered = sorted(leases, key=lambda lease: lease.slot)
    wanted = [(lease.slot, lease.epoch) for lease in ordered]
    held = on_jobs.renew_slots(connection, owner, rules.slot_space, wanted, rules.slot_lease_s)
    return tuple(lease for lease in ordered if lease.slot in held)


def release_slots(
    connection: Connection, owner: str, leases: Sequence[SlotLease], rules: Rules
) -> None:
    """Release slots, and notify the engines of free slots."""
    for lease in sorted(leases, key=lambda lease: lease.slot):
        on_jobs.release_slot(connection, owner, rules.slot_space, lease.slot, lease.epoch)
    if leases:
        on_jobs.bump_registry(connection)


def retire_engine(connection: Connection, engine_id: str, slot_space: str) -> None:
    """Free an engine's slots, delete the engine, and notify the others."""
    on_jobs.release_owner(connection, slot_space, engine_id)
    on_jobs.delete_engine(connection, engine_id)
    on_jobs.bump_registry(connection)


def is_bounded(job: BoundJobRow) -> bool:
    """Whether the job runs in backfills only."""
    match spec_of(job.spec):
        case SourceJobSpec(trigger=trigger) | PipelineJobSpec(trigger=trigger):
            return trigger is Trigger.BOUNDED
        case _:
            return False


def owes_backfill(job: JobRow) -> bool:
    """Whether a bounded run is due before the live one."""
    return bool(job.needs_backfill) and job.backfilled_at is None


def _hold_backfill(connection: Connection, asset_id: int, epoch: Epoch) -> JobRow:
    job = on_jobs.lock_job(connection, asset_id)
    if job.backfill_epoch != epoch or not job.backfill_held:
        raise Fenced(f"the lease of job {asset_id} at epoch {epoch} has ended")
    return job
