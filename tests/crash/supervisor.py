"""The supervisor of crash tests: every job follows the ledger's desired state at once."""

from narthex_ledger import CommitState, Desired, JobView, Ledger, Phase, ShardReport

OWNER = "supervisor"
PHASES = {
    Desired.RUNNING: Phase.CAUGHT_UP,
    Desired.PAUSED: Phase.PAUSED,
    Desired.STOPPED: Phase.STOPPED,
}


def supervise(ledger: Ledger, *, slots: int) -> None:
    """Hold every slot, drain  what has a past, and report each job as it should be."""
    jobs = ledger.jobs.all()
    if not jobs:
        return
    _fill(ledger, jobs)
    leases = ledger.slots.claim(OWNER, range(slots))
    epochs = {lease.slot: lease.epoch for lease in leases}
    reports = [
        ShardReport(
            asset_id=job.asset.asset_id,
            generation=job.generation,
            epoch=epochs[shard.slot],
            shard=shard.shard,
            phase=PHASES[job.desired],
            lag_ms=3,
        )
        for job in jobs
        for shard in job.shards
        if shard.slot in epochs
    ]
    for _ in range(2):
        ledger.jobs.report(reports)


def _fill(ledger: Ledger, jobs: tuple[JobView, ...]) -> None:
    """Be the bounded runs: what they would read here is empty."""
    due = {j.asset.asset_id for j in jobs if j.needs_backfill and j.backfilled_at is None}
    if not due:
        return
    for commit_id in ledger.commits.unended():
        view = ledger.commits.get(commit_id)
        if view.state is not CommitState.COMMITTED:
            continue
        for asset_id in due & {asset.asset_id for asset in view.assets}:
            epoch = ledger.backfills.claim(commit_id, asset_id)
            if epoch is not None:
                ledger.backfills.finish(asset_id, epoch, offsets={})
            due.discard(asset_id)
