"""A runner from the side that supervises it: start it, assign work, read its messages, restart it.

The supervisor supervises a driver, a process. The driver supervises standing tasks of Spark. What
differs is an instance: how one is started, connected and ended.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import attrs
import structlog

from narthex._base import Backoff, Restarts
from narthex_spark_apps.supervision.runner_messages import (
    STOP_WITHIN_S,
    Alive,
    BackfillEnded,
    DesiredAssignments,
    GarbledLineError,
    JvmMemory,
    OfflineReport,
    Report,
    RunnerMessage,
    RunningJobs,
    ShardId,
    Started,
    TaskFailed,
    parse_report,
    render_desired,
    render_lease,
)

log = structlog.get_logger()

RESTARTS = Backoff(first_s=1.0, greatest_s=15.0)
STEADY_S = 10.0
"""A runner that ran for at least this long restarts as if it had never failed."""
OUTLIVES_LEASE_S = STOP_WITHIN_S + 3.0
"""A runner on another machine has ended so long after its leases, whatever its connection shows."""
SILENT_S = 20.0
"""A runner without a heartbeat for this long is hung, not slow: it is replaced."""
DRAIN_WITHIN_S = 10.0
"""How long a runner that is replaced may take to stop its jobs; epochs fence jobs that do not."""
END_WITHIN_S = 2.0
_DRAINING_TURN = -2
"""The turn of the empty set that drains a runner; that of no other set."""
START_WITHIN_S = 180.0
"""The first heartbeat may take longer: imports take long, and the machine may be busy."""


class RunnerInstance(Protocol):
    """One run of a runner, from its start until it ends."""

    @property
    def is_running(self) -> bool:
        """Whether the instance has not ended yet."""

    @property
    def ending(self) -> str:
        """Describe how the instance ended; empty while it runs."""

    def send(self, line: str) -> None:
        """Send a line without waiting for the instance; a line to an ended one is dropped."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the instance until it ends; one thread calls this once."""

    def end(self, *, within_s: float) -> bool:
        """Ask the instance to stop, kill it after `within_s`; return whether it ended by itself."""

    def kill(self) -> None:
        """End the instance and all its processes; see `is_gone`."""

    @property
    def is_gone(self) -> bool:
        """Whether none of its processes runs, after `kill`.

        It may be false for an instance on another machine, until that has ended by itself.
        """


@attrs.frozen(kw_only=True)
class _Heartbeat:
    """The newest heartbeat of an instance: by its clock when sent, by ours when received."""

    at: float
    received_at: float


@attrs.frozen
class _LeavingInstance:
    """An instance that was killed and may still run.

    Attributes:
        until: When it has certainly ended, because its leases are over.
    """

    instance: RunnerInstance
    until: float = attrs.field(kw_only=True)


class SupervisedRunner:
    """One kind of runner, with at most one instance.

    No method but `stop` and a replacement of an instance waits for the runner. An instance whose
    JVM has nearly used up its code cache is drained and replaced, before it would die.

    Attributes:
        memory: The memory of the present instance's JVM, as it last reported it; None if unknown.
        restarts: How often an instance was replaced.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], RunnerInstance],
        *,
        lazy: bool = False,
        restarts: Backoff = RESTARTS,
    ) -> None:
        """Set how the runner starts; nothing is started yet.

        Args:
            name: The name of the runner in logs.
            start: Starts an instance; the previous one has ended by then.
            lazy: Start an instance when there is first work.
            restarts: When an instance that ended is replaced; its clock is that of the leases.
        """
        self.name = name
        self._start_instance = start
        self._lazy = lazy
        self._instance: RunnerInstance | None = None
        self._leaving: _LeavingInstance | None = None
        self._reports: queue.SimpleQueue[Report | OfflineReport | BackfillEnded] = (
            queue.SimpleQueue()
        )
        self._desired: DesiredAssignments | None = None
        self._sent_turn = -1
        self._clock = restarts.clock
        self._leased_until: float | None = None
        self._heartbeat: _Heartbeat | None = None
        self._running_jobs: RunningJobs | None = None
        self._last_message_at = 0.0
        self._draining_since: float | None = None
        self.memory: JvmMemory | None = None
        self._restarts = Restarts(restarts, steady_s=STEADY_S)
        self.restarts = 0

    def assign(self, desired: DesiredAssignments) -> None:
        """Set the assignments of the runner; they are sent if they differ from the last set."""
        turn = 0 if self._desired is None else self._desired.turn
        if self._desired is None or attrs.evolve(desired, turn=turn) != self._desired:
            self._desired = attrs.evolve(desired, turn=turn + 1)

    def extend_lease(self, until: float) -> None:
        """Set when the leases expire, by this process's clock; an unchanged value is not sent."""
        if until != self._leased_until:
            self._leased_until = until
            self._send_lease()

    def _send_lease(self) -> None:
        instance, heartbeat, until = self._instance, self._heartbeat, self._leased_until
        if instance is not None and heartbeat is not None and until is not None:
            lasts_s = until - heartbeat.received_at
            instance.send(render_lease(since=heartbeat.at, lasts_s=lasts_s))

    @property
    def assigned(self) -> int:
        """The number of jobs and feeds that the runner should run."""
        return 0 if self._desired is None else len(self._desired.assignments)

    def runs(self) -> frozenset[ShardId] | None:
        """Return the shards that the runner has not stopped yet; None while that is unknown."""
        if self._instance is None:
            return frozenset()
        if (
            self._running_jobs is None
            or self._desired is None
            or self._running_jobs.turn != self._desired.turn
        ):
            return None
        return frozenset(self._running_jobs.shards)

    @property
    def is_up(self) -> bool:
        """Whether it can take work: it has reported its state, or it starts only with its work."""
        return self._lazy or self._running_jobs is not None

    def reconcile(self) -> None:
        """Start the runner if it should run and does not; send it pending assignments."""
        if self._instance is not None and not self._instance.is_running:
            self._reclaimed(self._instance)
        elif self._instance is not None and time.monotonic() - self._last_message_at > SILENT_S:
            log.warning("runner_unresponsive", runner=self.name)
            self._instance.kill()
            self._reclaimed(self._instance)
        elif self._instance is not None:
            self._drain_exhausted(self._instance)
        if self._instance is None:
            if not self._is_wanted() or not self._restarts.is_due or self._is_leaving():
                return
            self._start()
        # Without a lease, an instance would work for ever once it cannot be reached any more.
        may_work = self._leased_until is None or self._heartbeat is not None
        if (
            self._instance is not None
            and self._draining_since is None
            and may_work
            and self._desired is not None
            and self._desired.turn != self._sent_turn
        ):
            self._instance.send(render_desired(self._desired))
            self._sent_turn = self._desired.turn

    def _drain_exhausted(self, instance: RunnerInstance) -> None:
        """Let an instance with little memory stop its jobs; then end it, so that another starts."""
        now = time.monotonic()
        if self._draining_since is None:
            reason = "" if self.memory is None else self.memory.exhausted
            if not reason:
                return
            log.warning("runner_replaced", runner=self.name, reason=reason)
            self._draining_since = now
            instance.send(render_desired(DesiredAssignments(assignments=(), turn=_DRAINING_TURN)))
        is_drained = self._running_jobs == RunningJobs(turn=_DRAINING_TURN, shards=())
        if is_drained or now - self._draining_since > DRAIN_WITHIN_S:
            instance.end(within_s=END_WITHIN_S)
            self._forget(instance)

    def _is_leaving(self) -> bool:
        """Whether the previous instance may still work: two would share an epoch."""
        leaving = self._leaving
        if leaving is not None and (leaving.instance.is_gone or self._clock() >= leaving.until):
            self._leaving = None
        return self._leaving is not None

    def _is_wanted(self) -> bool:
        desired = self._desired
        has_work = desired is not None and bool(
            desired.assignments or desired.offline or desired.backfills
        )
        return has_work if self._lazy else desired is not None

    def _start(self) -> None:
        self._restarts.started()
        instance = self._start_instance()
        self._instance = instance
        self._last_message_at = time.monotonic() + START_WITHIN_S - SILENT_S
        self._sent_turn = -1
        self._running_jobs = None
        self._heartbeat = None
        self._draining_since = None
        self.memory = None
        threading.Thread(
            target=self._listen, args=(instance,), name=f"{self.name}-reports", daemon=True
        ).start()

    def _listen(self, instance: RunnerInstance) -> None:
        for line in instance.lines():
            try:
                message = parse_report(line)
            except GarbledLineError:
                log.warning("runner_sent_unknown_message", runner=self.name, line=line[:200])
                continue
            if instance is not self._instance:
                continue
            self._last_message_at = time.monotonic()
            self._take(message)

    def _take(self, message: RunnerMessage) -> None:
        match message:
            case RunningJobs():
                self._running_jobs = message
            case JvmMemory():
                self.memory = message
            case Alive():
                is_first = self._heartbeat is None
                self._heartbeat = _Heartbeat(at=message.at, received_at=self._clock())
                if is_first:
                    self._send_lease()
            case Started() | TaskFailed():
                pass
            case _:
                self._reports.put(message)

    def _reclaimed(self, instance: RunnerInstance) -> None:
        instance.kill()
        lived_s = self._restarts.ran_s
        log.warning("runner_died", runner=self.name, how=instance.ending, lived_s=lived_s)
        self._forget(instance)

    def _forget(self, instance: RunnerInstance) -> None:
        """Let another instance start, after a delay that grows if this one ended soon."""
        if not instance.is_gone:
            leased_until = self._leased_until or self._clock()
            self._leaving = _LeavingInstance(instance, until=leased_until + OUTLIVES_LEASE_S)
        self._restarts.failed()
        self._instance = None
        self.restarts += 1

    def reports(self) -> list[Report | OfflineReport | BackfillEnded]:
        """Return the runner's reports since the last call."""
        found: list[Report | OfflineReport | BackfillEnded] = []
        while True:
            try:
                found.append(self._reports.get_nowait())
            except queue.Empty:
                return found

    def stop(self, *, within_s: float) -> None:
        """Stop the runner and all processes that it started; committed data stays."""
        if self._instance is None:
            return
        if not self._instance.end(within_s=within_s):
            log.warning("runner_did_not_stop", runner=self.name)
        self._instance = None
