"""The status of jobs and feeds for people: one flat row each, from supervisors' reports."""

from collections.abc import Iterable

from narthex._base import Json
from narthex._compiler import target_id
from narthex._ir import FeedSpec, PipelineJobSpec, SinkJobSpec, SourceJobSpec
from narthex_ledger import JobView

PROGRESS = (
    "behind",
    "late",
    "quarantined",
    "freshness_ms",
    "newest_event_time",
    "error",
    "applied",
)


def job_rows(jobs: Iterable[JobView]) -> list[dict[str, Json]]:
    """Return the rows, in order of label and kind."""
    rows = [_row(job) for job in jobs]
    return sorted(rows, key=lambda row: (str(row["label"]), str(row["kind"])))


def _row(job: JobView) -> dict[str, Json]:
    shard = job.shards[0]
    progress = shard.progress if isinstance(shard.progress, dict) else {}
    label, trigger = _described(job)
    row: dict[str, Json] = {
        "asset_id": job.asset.asset_id,
        "label": label,
        "kind": job.asset.kind.value,
        "trigger": trigger,
        "desired": job.desired.value,
        "phase": shard.phase.value,
        "lag_ms": shard.lag_ms,
        "epoch": int(shard.slot_epoch),
        "owner": shard.slot_owner,
        "reported_at": shard.reported_at.isoformat() if shard.reported_at else None,
        "physical_name": job.asset.physical_name,
        "progress": progress,
        "needs_backfill": job.needs_backfill,
        "backfilled_at": job.backfilled_at.isoformat() if job.backfilled_at else None,
        "backfill": shard.backfill,
    }
    return row | {name: progress.get(name) for name in PROGRESS}


def _described(job: JobView) -> tuple[str, str]:
    match job.asset.spec:
        case SourceJobSpec() as spec:
            return f"{spec.dataset} ← {spec.source_id}", spec.trigger.value
        case PipelineJobSpec() as spec:
            return f"{spec.dataset}.{spec.pipeline}", spec.trigger.value
        case SinkJobSpec() as spec:
            return f"{spec.dataset} → {target_id(spec.sink.target)}", spec.trigger.value
        case FeedSpec() as spec:
            return spec.dataset, ""
        case _:
            return job.asset.physical_name, ""
