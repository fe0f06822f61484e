"""The part of the ledger's API that supervisors and bounded runs use."""

from collections.abc import Sequence
from uuid import UUID

from narthex._base import Json
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.db.statements import reading as on_reading
from narthex_ledger.engines import job_registry
from narthex_ledger.model.states import OfflineState
from narthex_ledger.model.views import (
    Epoch,
    JobView,
    OfflineView,
    ShardReport,
    SlotLease,
    SlotView,
)
from narthex_ledger.reading import queries
from narthex_ledger.requests import offline_queries
from narthex_ledger.session import LedgerDatabase


class EngineApi(LedgerDatabase):
    """The API of engines; each method is one transaction and may be repeated as it is."""

    def registry_version(self) -> int:
        """Read a number that grows with each change of jobs; poll it, then read `jobs`."""
        return self._run("registry_version", on_reading.registry_version)

    def jobs(self) -> tuple[JobView, ...]:
        """Read every job that exists, with its shards and their slots."""
        return self._run("jobs", lambda c: queries.jobs(c, self._checker))

    def heartbeat(self, engine_id: str, *, weight: float = 1.0, info: Json = None) -> None:
        """Record that an engine is alive."""
        space = self._rules.slot_space
        self._run("heartbeat", lambda c: on_jobs.put_engine(c, engine_id, space, weight, info))

    def engines(self) -> dict[str, float]:
        """Read the weights of engines alive now; `preferred_engines` takes them."""
        space, alive_s = self._rules.slot_space, self._rules.engine_alive_s
        rows = self._run("engines", lambda c: on_jobs.live_engines(c, space, alive_s))
        return {row["engine_id"]: row["weight"] for row in rows}

    def retire_engine(self, engine_id: str) -> None:
        """Remove an engine that has no running jobs: free its slots, and assign it none.

        An engine calls it for itself after its last child has ended, or for a previous run that is
        surely over. Otherwise a zombie's slots change owners before its lease ends. Even then its
        epochs are old, so its writes are refused.
        """
        space = self._rules.slot_space
        self._run("retire_engine", lambda c: job_registry.retire_engine(c, engine_id, space))

    def slots(self) -> tuple[SlotView, ...]:
        """Read all slots with their current owners."""
        space = self._rules.slot_space
        return self._run("slots", lambda c: job_registry.slots(c, space))

    def slot_count(self) -> int:
        """Read the number of slots; 0 before `install`."""
        space = self._rules.slot_space
        return self._run("slot_count", lambda c: on_jobs.slot_count(c, space))

    def claim_slots(self, owner: str, slots: Sequence[int]) -> tuple[SlotLease, ...]:
        """Lease those of the slots that are free or expired, for 15 s; return the leases.

        `owner` names one run of one process. Slots that it holds already keep their epoch.
        """
        return self._run(
            "claim_slots", lambda c: job_registry.claim_slots(c, owner, slots, self._rules)
        )

    def renew_slots(self, owner: str, leases: Sequence[SlotLease]) -> tuple[SlotLease, ...]:
        """Extend leases, every 5 s; stop the jobs of slots missing from the answer at once.

        Trust the other leases until 12 s after the call *began*.
        """
        return self._run(
            "renew_slots", lambda c: job_registry.renew_slots(c, owner, leases, self._rules)
        )

    def release_slots(self, owner: str, leases: Sequence[SlotLease]) -> None:
        """Release drained slots; with an old epoch this changes nothing."""
        self._run(
            "release_slots", lambda c: job_registry.release_slots(c, owner, leases, self._rules)
        )

    def report(self, reports: Sequence[ShardReport]) -> tuple[ShardReport, ...]:
        """Store shards' reports; return the refused ones, whose slot has another owner now.

        Report while a shard is alive, not only on change: readiness requires `caught_up` twice.
        """
        return self._run("report", lambda c: job_registry.report(c, reports))

    def claim_job_for_backfill(self, commit_id: UUID, asset_id: int) -> Epoch | None:
        """Lease a job to the bounded run of a commit for 60 s; None when it is backfilled already.

        A second claim for the same commit is a restarted run: the first one is fenced.

        Raises:
            LeaseHeld: Another commit's run holds it; when that ends, this returns None.
            LedgerRefused: The commit is not committed, or the job runs live.
        """
        lease_s = self._rules.backfill_lease_s
        return self._run(
            "claim_job_for_backfill",
            lambda c: job_registry.claim_backfill(c, commit_id, asset_id, lease_s),
        )

    def report_backfill(self, asset_id: int, epoch: Epoch, *, progress: Json) -> None:
        """Store a bounded run's progress and extend its lease, every 15 s or so.

        Raises:
            Fenced: The lease is lost; stop at once.
        """
        lease_s = self._rules.backfill_lease_s
        self._run(
            "report_backfill",
            lambda c: job_registry.report_backfill(c, asset_id, epoch, progress, lease_s),
        )

    def finish_backfill(self, asset_id: int, epoch: Epoch, *, offsets: Json, rows: int = 0) -> None:
        """Record the live run's start offsets and the number of rows read, and release the job.

        Raises:
            Fenced: The lease is lost.
        """
        self._run(
            "finish_backfill",
            lambda c: job_registry.finish_backfill(c, asset_id, epoch, offsets, rows),
        )

    def release_backfill(self, asset_id: int, epoch: Epoch, *, error: str) -> None:
        """Release a job that was not backfilled, with the reason; do nothing for an old epoch."""
        self._run(
            "release_backfill", lambda c: job_registry.release_backfill(c, asset_id, epoch, error)
        )

    def claim_offline(self, owner: str) -> OfflineView | None:
        """Lease the oldest offline query that is queued or abandoned, for 60 s."""
        lease_s = self._rules.offline_lease_s
        return self._run(
            "claim_offline", lambda c: offline_queries.claim(c, owner, lease_s, self._checker)
        )

    def report_offline(self, request_id: UUID, epoch: Epoch, *, progress: Json) -> None:
        """Store a query's progress and extend its lease.

        Raises:
            Fenced: The query was cancelled or taken over; stop.
        """
        lease_s = self._rules.offline_lease_s
        self._run(
            "report_offline",
            lambda c: offline_queries.progress(c, request_id, epoch, progress, lease_s),
        )

    def finish_offline(self, request_id: UUID, epoch: Epoch, *, result: Json) -> None:
        """End a query with its result.

        Raises:
            Fenced: The query was cancelled or taken over.
        """
        done = OfflineState.DONE
        self._run(
            "finish_offline", lambda c: offline_queries.finish(c, request_id, epoch, done, result)
        )

    def fail_offline(self, request_id: UUID, epoch: Epoch, *, error: Json) -> None:
        """End a query with the reason why it can't be answered.

        Raises:
            Fenced: The query was cancelled or taken over.
        """
        failed = OfflineState.FAILED
        self._run(
            "fail_offline", lambda c: offline_queries.finish(c, request_id, epoch, failed, error)
        )
