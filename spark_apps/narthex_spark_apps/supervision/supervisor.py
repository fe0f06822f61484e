"""The supervisor: runs the desired jobs of the job registry, and reports their states.

Any number of supervisors share the slots evenly by leases: when one comes or goes, slots are
drained and released, or claimed; a new one gets no share before its driver is up. Each runs one
Spark driver as a child, sends it its jobs and their epochs, and forwards its reports. It alone
talks to the ledger. Without a renewed lease it stops its jobs, and if it cannot (it is stopped
itself) its driver and the driver's standing tasks do.
"""

import functools
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from uuid import UUID

import attrs
import structlog

from narthex._base import Json
from narthex._ir import (
    AssetKind,
    IndexSpec,
    PipelineJobSpec,
    ResolvedAsset,
    Trigger,
)
from narthex.settings import Settings, environment_of
from narthex_ledger import (
    NEVER_READ,
    Epoch,
    Fenced,
    JobView,
    Ledger,
    LedgerError,
    Phase,
    ShardReport,
    ShardView,
    SlotLease,
    preferred_engines,
)
from narthex_ledger import (
    Desired as Wanted,
)
from narthex_spark_apps.storage.snapshots import SnapshotRounds, snapshot_name
from narthex_spark_apps.supervision.assigned_jobs import AssignedJobs
from narthex_spark_apps.supervision.offline_runs import OfflineRuns, usual_at_once
from narthex_spark_apps.supervision.process_instance import ProcessInstance
from narthex_spark_apps.supervision.report_throttle import ReportGate
from narthex_spark_apps.supervision.runner_messages import (
    BackfillEnded,
    DesiredAssignments,
    OfflineReport,
    Report,
    ShardId,
    WorkAssignment,
)
from narthex_spark_apps.supervision.supervised_runner import SupervisedRunner
from narthex_spark_apps.supervision.supervisor_lock import SupervisorLock

log = structlog.get_logger()

TURN_S = 0.25
RENEW_EVERY_S = 5.0
LEASE_S = 15.0
TRUST_MARGIN_S = 3.0
READ_EVERY_S = 2.0
DRAIN_WITHIN_S = 10.0
"""How long a released slot waits for its jobs to stop; epochs fence jobs that do not."""
STOP_WITHIN_S = 20.0
COMING_UP_WEIGHT = 1 / 4096
"""The weight of a supervisor whose driver starts: other supervisors get the slots first."""
SLOT_SPACE = "default"

DRIVER = "driver"
DRIVER_MODULE = "narthex_spark_apps.jobs.driver_start"
"""The module that runs with `python -m`."""


def owner_name() -> str:
    """Return a name for this run of this supervisor, for leases.

    Host names and process ids repeat, in containers all the time.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


@attrs.define
class HeldSlots:
    """The slots that this supervisor holds, and until when it may rely on them.

    Attributes:
        leaving: The slots being drained for another supervisor, and since when.
    """

    leases: dict[int, SlotLease] = attrs.field(factory=dict)
    leased_until: float = 0.0
    leaving: dict[int, float] = attrs.field(factory=dict)

    @property
    def is_leased(self) -> bool:
        """Whether the leases are certainly valid at this moment, by this machine's own clock."""
        return time.monotonic() < self.leased_until


@attrs.frozen
class _DriverBackfill:
    """A backfill that the driver carries out.

    Attributes:
        restarts: How often the driver had been restarted when it began.
    """

    commit_id: UUID
    restarts: int


class Supervisor:
    """One supervisor of this machine."""

    def __init__(
        self, settings: Settings, ledger: Ledger, *, run_dir: Path, lazy: bool = False
    ) -> None:
        """Prepare the driver; nothing is started yet.

        Args:
            settings: The installation's settings.
            ledger: The desired jobs and the leases.
            run_dir: A directory that only this supervisor uses: the log and PID file of its driver.
            lazy: Start the driver when there is first work.

        Raises:
            AlreadySupervisedError: Another supervisor runs in that directory.
        """
        self._settings = settings
        self._ledger = ledger
        self._owner = owner_name()
        self._held = HeldSlots()
        self._run_dir = run_dir
        self._supervisor_lock = SupervisorLock.take_over(run_dir)
        environment = {**os.environ, **environment_of(settings)}
        start = functools.partial(
            ProcessInstance.start,
            DRIVER,
            module=DRIVER_MODULE,
            environment=environment,
            run_dir=run_dir,
        )
        self._driver = SupervisedRunner(DRIVER, start, lazy=lazy)
        self._jobs = AssignedJobs()
        self._registry = NEVER_READ
        self._epochs_of_driver = 0
        self._renewed = self._read = float("-inf")
        self._offline = OfflineRuns(
            ledger,
            self._owner,
            at_once=settings.offline_queries_at_once or usual_at_once(os.cpu_count() or 1),
            within_s=settings.offline_query_greatest_s,
        )
        self._backfill: _DriverBackfill | None = None
        self._assigned: tuple[object, ...] | None = None
        self._came_up = False
        self._gate = ReportGate()
        self._snapshots = SnapshotRounds(settings, self._run_dir / "snapshots.log")
        self._stopping = False

    def run(self) -> None:
        """Supervise until SIGTERM or SIGINT; then drain and release all slots."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        self._supervisor_lock.end_driver(DRIVER)
        while not self._stopping:
            try:
                self._turn()
            except LedgerError as error:
                log.warning("ledger_unreachable", error=str(error))
            if not self._held.is_leased:
                self._let_go()
            self._driver.reconcile()
            self._snapshots.reconcile(self._written())
            (self._run_dir / "supervisor.heartbeat").touch()
            time.sleep(TURN_S)
        self._end()

    def _end(self) -> None:
        self._snapshots.stop()
        self._driver.stop(within_s=STOP_WITHIN_S)
        try:
            self._end_backfill("its supervisor was stopped")
            self._ledger.engines.retire(self._owner)
        except LedgerError as error:
            log.warning("slots_not_released", error=str(error))

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _turn(self) -> None:
        now = time.monotonic()
        registry = self._ledger.jobs.registry_version()
        came_up = not self._came_up and self._driver.is_up
        self._came_up = self._came_up or came_up
        is_changed = came_up or self._driver.restarts != self._epochs_of_driver
        if is_changed or registry != self._registry or now - self._renewed >= RENEW_EVERY_S:
            self._hold()
            self._renewed = now
        slots = frozenset(self._held.leases)
        if not self._jobs.is_current(registry, slots):
            changes = self._ledger.jobs.changes(slots, since=self._jobs.since(slots))
            self._jobs.apply(changes, slots)
        if registry != self._registry or now - self._read >= READ_EVERY_S:
            self._registry, self._read = registry, now
            if self._driver.is_up:
                self._offline.take(restarts=self._driver.restarts)
            self._take_backfill()
        self._assign()
        self._pass_on()
        self._give_back()

    def _hold(self) -> None:
        """Renew the leases, claim this supervisor's free slots, and note the slots to give away."""
        self._supervisor_lock.reclaim_slots(self._owner, self._ledger)
        renewed_at = time.monotonic()
        self._ledger.engines.heartbeat(
            self._owner,
            weight=1.0 if self._came_up else COMING_UP_WEIGHT,
            info=self._driver_info(),
        )
        held = self._held
        self._release_after_driver()
        renewed = self._ledger.slots.renew(self._owner, tuple(held.leases.values()))
        lost = len(held.leases) - len(renewed)
        if lost:
            log.warning("leases_lost", slots=lost)
        engines = self._ledger.engines.alive()
        wanted = preferred_engines(SLOT_SPACE, self._ledger.slots.count(), engines)
        mine = {slot for slot, engine in enumerate(wanted) if engine == self._owner}
        missing = sorted(mine - {lease.slot for lease in renewed})
        new = self._ledger.slots.claim(self._owner, missing) if missing else ()
        held.leases = {lease.slot: lease for lease in (*renewed, *new)}
        held.leaving = {
            slot: held.leaving.get(slot, renewed_at) for slot in held.leases if slot not in mine
        }
        held.leased_until = renewed_at + LEASE_S - TRUST_MARGIN_S
        self._driver.extend_lease(held.leased_until)
        self._offline.hold(restarts=self._driver.restarts)
        self._hold_backfill()

    def _driver_info(self) -> Json:
        """Return the memory of the driver's JVM, in bytes, and how often it was replaced."""
        memory = self._driver.memory
        return {
            "restarts": self._driver.restarts,
            **({} if memory is None else attrs.asdict(memory)),
        }

    def _release_after_driver(self) -> None:
        """Release all slots when a driver on a cluster has ended, to claim them with new epochs.

        Its tasks on other machines may outlive it: they must not share an epoch with later ones.
        """
        if self._driver.restarts == self._epochs_of_driver:
            return
        held = self._held
        if not self._settings.has_local_spark and held.leases:
            self._ledger.slots.release(self._owner, tuple(held.leases.values()))
            held.leases.clear()
        self._epochs_of_driver = self._driver.restarts

    def _give_back(self) -> None:
        """Release the slots that belong to other supervisors, once none of their jobs runs here."""
        now = time.monotonic()
        held = self._held
        ready = [
            slot
            for slot, since in held.leaving.items()
            if now - since > DRAIN_WITHIN_S
            or not any(
                self._is_run(job, shard)
                for job in self._jobs.all
                for shard in job.shards
                if shard.slot == slot
            )
        ]
        if ready:
            self._ledger.slots.release(self._owner, tuple(held.leases[slot] for slot in ready))
            log.info("slots_released", slots=len(ready))
            for slot in ready:
                del held.leases[slot], held.leaving[slot]

    def _is_run(self, job: JobView, shard: ShardView) -> bool:
        """Whether the driver of this supervisor may still run the shard."""
        runs = self._driver.runs()
        return runs is None or ShardId(job.asset.asset_id, shard.shard) in runs

    def _let_go(self) -> None:
        self._assigned = None
        self._offline.let_go()
        self._driver.assign(DesiredAssignments(assignments=()))

    def _assign(self) -> None:
        if not self._held.is_leased:
            return
        leases = tuple((slot, int(lease.epoch)) for slot, lease in self._staying().items())
        offline = self._offline.runs
        backfills = () if self._backfill is None else (str(self._backfill.commit_id),)
        wanted = (self._jobs.all, leases, offline, backfills)
        if self._assigned == wanted:
            return
        self._assigned = wanted
        assignments = tuple(self._assignments())
        self._driver.assign(
            DesiredAssignments(assignments=assignments, offline=offline, backfills=backfills)
        )

    def _staying(self) -> dict[int, SlotLease]:
        leaving = self._held.leaving
        return {slot: lease for slot, lease in self._held.leases.items() if slot not in leaving}

    def _assignments(self) -> Iterable[WorkAssignment]:
        staying = self._staying()
        running = (job for job in self._jobs.all if job.desired is Wanted.RUNNING)
        for job in running:
            for shard in job.shards:
                lease = staying.get(shard.slot)
                if lease is not None:
                    yield WorkAssignment(
                        asset=job.asset,
                        epoch=int(lease.epoch),
                        generation=job.generation,
                        start_offsets=_start_offsets(shard.backfill),
                        shard=shard.shard,
                        shards=len(job.shards),
                    )

    def _written(self) -> tuple[str, ...]:
        """Return the indexes, and the checkpoints with a state, that the driver's tasks write."""
        staying = self._staying() if self._held.is_leased else {}
        return tuple(
            name
            for job in self._jobs.all
            for shard in job.shards
            if shard.slot in staying
            for name in _snapshot_names(job.asset, shard.shard)
        )

    def _pass_on(self) -> None:
        reports: dict[ShardId, ShardReport] = {}
        for report in self._driver.reports():
            match report:
                case OfflineReport():
                    self._offline.note(report)
                case BackfillEnded():
                    self._end_backfill(report.error)
                case _:
                    reports[ShardId(report.asset_id, report.shard)] = _shard_report(report)
        self._offline.pass_on()
        due = tuple(shard for shard in reports.values() if self._gate.passes(shard))
        refused = self._ledger.jobs.report(due) if due else ()
        for shard in refused:
            log.warning(
                "report_refused",
                asset_id=shard.asset_id,
                shard=shard.shard,
                epoch=int(shard.epoch),
            )
        stopped = self._stopped()
        if stopped:
            rejected = frozenset(self._ledger.jobs.report(stopped))
            self._jobs.stop_reported(stop for stop in stopped if stop not in rejected)

    def _stopped(self) -> tuple[ShardReport, ...]:
        """Report each stopped shard that is no longer desired, once, under the slot's epoch."""
        return tuple(
            ShardReport(
                asset_id=job.asset.asset_id,
                shard=shard.shard,
                generation=job.generation,
                epoch=self._held.leases[shard.slot].epoch,
                phase=Phase.STOPPED if job.desired is Wanted.STOPPED else Phase.PAUSED,
            )
            for job in self._jobs.all
            if job.desired is not Wanted.RUNNING
            for shard in job.shards
            if shard.slot in self._held.leases
            and not self._jobs.is_stop_reported(job, shard, self._held.leases[shard.slot].epoch)
            and not self._is_run(job, shard)
        )

    def _take_backfill(self) -> None:
        """Claim a backfill for the driver, if it is up and has none."""
        if self._backfill is not None or not self._driver.is_up:
            return
        commit_id = self._ledger.driver_backfills.claim(self._owner)
        if commit_id is not None:
            self._backfill = _DriverBackfill(commit_id, self._driver.restarts)
            log.info("backfill_claimed", commit_id=str(commit_id))

    def _hold_backfill(self) -> None:
        """Keep the lease of the driver's backfill; if that driver has ended, it has failed."""
        found = self._backfill
        if found is None:
            return
        if found.restarts != self._driver.restarts:
            self._end_backfill("the driver has ended")
            return
        try:
            self._ledger.driver_backfills.extend(found.commit_id, self._owner)
        except Fenced:
            self._backfill = None

    def _end_backfill(self, error: str) -> None:
        found, self._backfill = self._backfill, None
        if found is None:
            return
        try:
            self._ledger.driver_backfills.end(found.commit_id, self._owner, error=error)
        except Fenced:
            log.warning("backfill_lease_lost", commit_id=str(found.commit_id))


def _snapshot_names(asset: ResolvedAsset, shard: int) -> tuple[str, ...]:
    """Return the name of the index or state of a shard that snapshots are taken of."""
    if asset.kind is AssetKind.INDEX_FEED:
        need = asset.need("index")
        divided = isinstance(need.spec, IndexSpec) and need.spec.shards > 1
        return (snapshot_name(need.physical_name, shard if divided else None),)
    if isinstance(asset.spec, PipelineJobSpec) and asset.spec.trigger is Trigger.STATEFUL:
        return (asset.need("checkpoint").physical_name,)
    return ()


def _shard_report(report: Report) -> ShardReport:
    return ShardReport(
        asset_id=report.asset_id,
        shard=report.shard,
        generation=report.generation,
        epoch=Epoch(report.epoch),
        phase=Phase(report.phase),
        lag_ms=report.lag_ms,
        progress=report.progress,
    )


def _start_offsets(backfill: Json) -> tuple[tuple[str, int, int], ...]:
    """Return the end offsets of the bounded run, at which the live run starts."""
    if not isinstance(backfill, dict) or not backfill.get("done"):
        return ()
    offsets = backfill.get("offsets")
    if not isinstance(offsets, dict):
        return ()
    return tuple(
        (topic, int(partition), int(str(offset)))
        for topic, partitions in sorted(offsets.items())
        if isinstance(partitions, dict)
        for partition, offset in sorted(partitions.items())
    )
