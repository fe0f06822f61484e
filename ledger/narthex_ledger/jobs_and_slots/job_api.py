"""The parts of the ledger for supervisors and bounded runs."""

from collections.abc import Collection, Sequence
from uuid import UUID

import attrs

from narthex._base import Json
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.jobs_and_slots import driver_backfills, job_registry
from narthex_ledger.model.job_progress import progress_of_shards
from narthex_ledger.model.views import (
    NEVER_READ,
    Epoch,
    Fence,
    JobChanges,
    JobView,
    ShardReport,
    ShardView,
    SlotLease,
    SlotView,
)
from narthex_ledger.reading import queries
from narthex_ledger.reading.resolved_assets import KnownAssets
from narthex_ledger.session import LedgerDatabase


@attrs.frozen
class Jobs:
    """Jobs and the reports of their shards; each method is one transaction."""

    _db: LedgerDatabase
    _assets: KnownAssets

    def registry_version(self) -> int:
        """Read a number that grows with each change of jobs; poll it, then read the `changes`."""
        return self._db.run("registry_version", on_reading.registry_version)

    def all(self) -> tuple[JobView, ...]:
        """Read every job that exists, with its shards and their slots."""
        return self._db.run("jobs", lambda c: queries.jobs(c, self._db.checker))()

    def shown(self) -> tuple[JobView, ...]:
        """Read the same for people: the assets of manifests in memory are not checked again.

        They are as they were when they were checked, even if the database has them otherwise now.
        """
        return self._db.run("jobs", lambda c: queries.jobs(c, self._db.checker, self._assets))()

    def progress(self, asset_ids: Collection[int]) -> dict[int, dict[str, Json]]:
        """Read the progress of jobs, as `progress_of`, without the jobs that reported none."""
        rows = self._db.run("job_progress", lambda c: on_reading.shard_rows(c, sorted(asset_ids)))
        reports: dict[int, list[Json]] = {}
        for row in rows:
            reports.setdefault(row.asset_id, []).append(row.progress)
        return {asset_id: progress_of_shards(found) for asset_id, found in reports.items()}

    def running(self, asset_ids: Collection[int]) -> dict[int, tuple[ShardView, ...]]:
        """Read the shards of those of the jobs that ought to run; cheaper than `all`."""
        return self._db.run("running_jobs", lambda c: queries.running(c, sorted(asset_ids)))

    def changes(self, slots: Collection[int], *, since: int = NEVER_READ) -> JobChanges:
        """Read the jobs with a shard in these slots that changed after a registry version.

        A change is one of `desired`, `generation` or a finished backfill; reports are none. Jobs
        that were created, but never started, are read with `NEVER_READ` only.
        """
        space = self._db.rules.slot_space
        return self._db.run(
            "job_changes",
            lambda c: queries.job_changes(c, self._db.checker, space, sorted(slots), since=since),
        )()

    def start(self, commit_id: UUID, fence: Fence) -> tuple[int, ...]:
        """Run every unbounded job live, after the backfill; return the started jobs.

        Raises:
            NotReady: Some jobs are not backfilled; `detail` lists their ids.
        """
        return self._db.run("start_jobs", lambda c: job_registry.start_jobs(c, commit_id, fence))

    def report(self, reports: Sequence[ShardReport]) -> tuple[ShardReport, ...]:
        """Store shards' reports; return the refused ones, whose slot has another owner now.

        Report while a shard is alive, not only on change: readiness requires `caught_up` twice.
        """
        return self._db.run("report", lambda c: job_registry.report(c, reports))

    def pause_cold(self) -> tuple[int, ...]:
        """Pause running jobs that only cold history reaches; return them."""
        return self._db.run("pause_cold_jobs", job_registry.pause_cold_jobs)


@attrs.frozen
class Backfills:
    """Bounded runs of jobs; each method is one transaction and may be repeated as it is."""

    _db: LedgerDatabase

    def due(self, commit_id: UUID) -> tuple[JobView, ...]:
        """Read the jobs of a commit that owe a backfill."""
        return self._db.run(
            "due_backfills", lambda c: queries.due_backfills(c, commit_id, self._db.checker)
        )()

    def claim(self, commit_id: UUID, asset_id: int) -> Epoch | None:
        """Lease a job to the bounded run of a commit for 60 s; None when it is backfilled already.

        A second claim for the same commit is a restarted run: the first one is fenced.

        Raises:
            LeaseHeld: Another commit's run holds it; when that ends, this returns None.
            LedgerRefused: The commit is not committed, or the job runs live.
        """
        lease_s = self._db.rules.backfill_lease_s
        return self._db.run(
            "claim_job_for_backfill",
            lambda c: job_registry.claim_backfill(c, commit_id, asset_id, lease_s),
        )

    def report(self, asset_id: int, epoch: Epoch, *, progress: Json) -> None:
        """Store a bounded run's progress and extend its lease, every 15 s or so.

        Raises:
            Fenced: The lease is lost; stop at once.
        """
        lease_s = self._db.rules.backfill_lease_s
        self._db.run(
            "report_backfill",
            lambda c: job_registry.report_backfill(c, asset_id, epoch, progress, lease_s),
        )

    def finish(self, asset_id: int, epoch: Epoch, *, offsets: Json, rows: int = 0) -> None:
        """Record the live run's start offsets and the number of rows read, and release the job.

        Raises:
            Fenced: The lease is lost.
        """
        self._db.run(
            "finish_backfill",
            lambda c: job_registry.finish_backfill(c, asset_id, epoch, offsets, rows),
        )

    def release(self, asset_id: int, epoch: Epoch, *, error: str) -> None:
        """Release a job that was not backfilled, with the reason; do nothing for an old epoch."""
        self._db.run(
            "release_backfill", lambda c: job_registry.release_backfill(c, asset_id, epoch, error)
        )

    def pace(self) -> float | None:
        """Return the median rows per second of the newest backfills; None before the first."""
        return self._db.run("backfill_pace", on_reading.backfill_pace)


@attrs.frozen
class DriverBackfills:
    """Backfills of commits in drivers that run already; each method is one transaction.

    There is one attempt per commit; the caller repeats a failed one in a Spark of its own.
    """

    _db: LedgerDatabase

    def request(self, commit_id: UUID) -> None:
        """Queue a commit's backfill for 30 s, once; a second call changes nothing."""
        wait_s = self._db.rules.driver_wait_s
        self._db.run(
            "request_driver_backfill", lambda c: driver_backfills.request(c, commit_id, wait_s)
        )

    def is_in_driver(self, commit_id: UUID) -> bool | None:
        """Return whether a driver has the run, or may still get it; None if it is not requested."""
        return self._db.run("is_in_driver", lambda c: driver_backfills.is_in_driver(c, commit_id))

    def claim(self, owner: str) -> UUID | None:
        """Lease the oldest queued backfill to the driver of an engine; return its commit."""
        lease_s = self._db.rules.backfill_lease_s
        return self._db.run(
            "claim_driver_backfill", lambda c: driver_backfills.claim(c, owner, lease_s)
        )

    def extend(self, commit_id: UUID, owner: str) -> None:
        """Extend the lease of a backfill, every 15 s or so.

        Raises:
            Fenced: The lease is lost.
        """
        lease_s = self._db.rules.backfill_lease_s
        self._db.run(
            "extend_driver_backfill",
            lambda c: driver_backfills.extend(c, commit_id, owner, lease_s),
        )

    def end(self, commit_id: UUID, owner: str, *, error: str = "") -> None:
        """End a backfill: done, or failed for a reason.

        Raises:
            Fenced: The lease is lost.
        """
        self._db.run(
            "end_driver_backfill",
            lambda c: driver_backfills.end(c, commit_id, owner, error),
        )


@attrs.frozen
class Engines:
    """Engines that are alive."""

    _db: LedgerDatabase

    def heartbeat(self, engine_id: str, *, weight: float = 1.0, info: Json = None) -> None:
        """Record that an engine is alive, and what it reports of itself."""
        space = self._db.rules.slot_space
        self._db.run("heartbeat", lambda c: on_jobs.put_engine(c, engine_id, space, weight, info))

    def alive(self) -> dict[str, float]:
        """Read the weights of engines alive now; `preferred_engines` takes them."""
        space, alive_s = self._db.rules.slot_space, self._db.rules.engine_alive_s
        return self._db.run("engines", lambda c: on_jobs.live_engines(c, space, alive_s))

    def infos(self) -> dict[str, Json]:
        """Read what the engines alive now report of themselves."""
        space, alive_s = self._db.rules.slot_space, self._db.rules.engine_alive_s
        return self._db.run("engine_infos", lambda c: on_jobs.engine_infos(c, space, alive_s))

    def retire(self, engine_id: str) -> None:
        """Remove an engine that has no running jobs: free its slots, and assign it none.

        An engine calls it for itself after its last child has ended, or for a previous run that is
        surely over. Otherwise a zombie's slots change owners before its lease ends. Even then its
        epochs are old, so its writes are refused.
        """
        space = self._db.rules.slot_space
        self._db.run("retire_engine", lambda c: job_registry.retire_engine(c, engine_id, space))


@attrs.frozen
class Slots:
    """Slots and their leases; each method is one transaction and may be repeated as it is."""

    _db: LedgerDatabase

    def all(self) -> tuple[SlotView, ...]:
        """Read all slots with their current owners."""
        space = self._db.rules.slot_space
        return self._db.run("slots", lambda c: on_jobs.slot_rows(c, space))

    def count(self) -> int:
        """Read the number of slots; 0 before `install`."""
        space = self._db.rules.slot_space
        return self._db.run("slot_count", lambda c: on_jobs.slot_count(c, space))

    def claim(self, owner: str, slots: Sequence[int]) -> tuple[SlotLease, ...]:
        """Lease those of the slots that are free or expired, for 15 s; return the leases.

        `owner` names one run of one process. Slots that it holds already keep their epoch.
        """
        return self._db.run(
            "claim_slots", lambda c: job_registry.claim_slots(c, owner, slots, self._db.rules)
        )

    def renew(self, owner: str, leases: Sequence[SlotLease]) -> tuple[SlotLease, ...]:
        """Extend leases, every 5 s; stop the jobs of slots missing from the answer at once.

        Trust the other leases until 12 s after the call *began*.
        """
        return self._db.run(
            "renew_slots", lambda c: job_registry.renew_slots(c, owner, leases, self._db.rules)
        )

    def release(self, owner: str, leases: Sequence[SlotLease]) -> None:
        """Release drained slots; with an old epoch this changes nothing."""
        self._db.run(
            "release_slots", lambda c: job_registry.release_slots(c, owner, leases, self._db.rules)
        )
