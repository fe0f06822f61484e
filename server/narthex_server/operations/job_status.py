"""The status of jobs and feeds for people: one flat row each, from supervisors' reports."""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex._base import render_instant
from narthex_ledger import JobView, ShardView, lag_of, phase_of, progress_of
from narthex_server.definitions.job_labels import described_job
from narthex_server.web.plain_routes import Instant


class Shard(TypedDict):
    """A shard of a job, as last reported.

    Attributes:
        phase: The phase that its supervisor reported.
        lag_ms: The age of the oldest record that it has not read.
        epoch: The epoch of its lease.
        owner: The supervisor that has the lease.
        behind: How many records it has not read.
    """

    shard: int
    phase: str
    lag_ms: int | None
    epoch: int
    owner: str | None
    reported_at: Instant | None
    behind: JsonValue


class Job(TypedDict):
    """A job or a feed; its numbers are those of all its shards together.

    Attributes:
        trigger: How it processes its input; empty for a feed.
        desired: The phase that the ledger wants.
        phase: The phase of the shard that is furthest from being caught up.
        lag_ms: The age of the oldest record that it has not read.
        epoch: The greatest epoch of the leases of its shards.
        owner: The supervisors that have the leases.
        reported_at: When the shard that has been silent for longest reported.
        progress: The last reports of its supervisors; the fields after `backfill` are parts of it.
        behind: How many records it has not read.
        late: Rows later than their source's disorder.
        expectations: The enforced expectations that rows have broken in the present run, by title:
            how many rows were `quarantined` and `dropped`, and how many in each of the newest
            `minutes`.
        rows: How many rows its present run has read.
        written: How many rows its present run has written to a sink or a history.
        succeeded_at: For a source or a sink, when its broker, table, directory or target last
            answered without an error, to half a minute.
        watermark: For a history feed: up to which event time the rows of its dataset are complete,
            as far as its sources' `disorder` is right; null while that is not known.
    """

    asset_id: int
    label: str
    kind: str
    trigger: str
    desired: str
    phase: str
    lag_ms: int | None
    epoch: int
    owner: str | None
    reported_at: Instant | None
    physical_name: str
    progress: dict[str, JsonValue]
    needs_backfill: bool
    backfilled_at: Instant | None
    backfill: JsonValue
    behind: JsonValue
    late: JsonValue
    quarantined: JsonValue
    expectations: JsonValue
    rows: JsonValue
    written: JsonValue
    succeeded_at: Instant | None
    newest_event_time: JsonValue
    watermark: Instant | None
    error: JsonValue
    applied: JsonValue
    shards: list[Shard]


def job_rows(jobs: Iterable[JobView], watermarks: Mapping[int, int]) -> list[Job]:
    """Return the rows, in order of label and kind.

    Args:
        jobs: The jobs.
        watermarks: The watermarks of datasets, by the asset of their history feeds, microseconds.
    """
    rows = [_row(job, watermarks.get(job.asset.asset_id)) for job in jobs]
    return sorted(rows, key=lambda row: (row["label"], row["kind"]))


def _row(job: JobView, watermark: int | None) -> Job:
    progress = progress_of(job)
    shards = [_shard(shard) for shard in job.shards]
    reports = [shard["reported_at"] for shard in shards if shard["reported_at"] is not None]
    label, trigger = described_job(job.asset)
    at = progress.get("succeeded_at")
    succeeded = at if isinstance(at, int) else None
    return {
        "asset_id": job.asset.asset_id,
        "label": label,
        "kind": job.asset.kind.value,
        "trigger": trigger,
        "desired": job.desired.value,
        "phase": phase_of(job).value,
        "lag_ms": lag_of(job),
        "epoch": max(shard["epoch"] for shard in shards),
        "owner": ", ".join(sorted({s["owner"] for s in shards if s["owner"]})) or None,
        "reported_at": min(reports, default=None),
        "physical_name": job.asset.physical_name,
        "progress": progress,
        "needs_backfill": job.needs_backfill,
        "backfilled_at": job.backfilled_at.isoformat() if job.backfilled_at else None,
        "backfill": job.shards[0].backfill,
        "behind": progress.get("behind"),
        "late": progress.get("late"),
        "quarantined": progress.get("quarantined"),
        "expectations": progress.get("expectations"),
        "rows": progress.get("rows"),
        "written": progress.get("written"),
        "succeeded_at": None if succeeded is None else render_instant(succeeded),
        "newest_event_time": progress.get("newest_event_time"),
        "watermark": None if watermark is None else render_instant(watermark),
        "error": progress.get("error"),
        "applied": progress.get("applied"),
        "shards": shards,
    }


def _shard(shard: ShardView) -> Shard:
    return {
        "shard": shard.shard,
        "phase": shard.phase.value,
        "lag_ms": shard.lag_ms,
        "epoch": int(shard.slot_epoch),
        "owner": shard.slot_owner,
        "reported_at": shard.reported_at.isoformat() if shard.reported_at else None,
        "behind": shard.progress.get("behind") if isinstance(shard.progress, dict) else None,
    }
