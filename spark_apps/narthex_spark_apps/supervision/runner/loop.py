"""Run the assigned jobs of a runner: start, adopt, drain, restart and report them.

A newer generation of a job goes on with the same run. A newer epoch is a new run, which starts
once the earlier one is over. A job that fails restarts with backoff; its neighbours go on.
"""

import functools
from typing import Generic

import attrs
import structlog

from narthex._base import Backoff, Restarts
from narthex_spark_apps.supervision.runner.job_carrier import Carrier, Ended, RunT, attempt
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner.progress import Progress, describe_error
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    RunningJobs,
    ShardId,
    WorkAssignment,
)
from narthex_stores import IndexFenced

log = structlog.get_logger()

REPORT_EVERY_S = 0.5
RESTARTS = Backoff(first_s=1.0, greatest_s=30.0)
STEADY_S = 30.0
"""A job that ran this long restarts as if it had never failed."""


@attrs.define(eq=False)
class _Job(Generic[RunT]):
    """A desired shard of a job under one epoch.

    Attributes:
        assignment: Its newest assignment.
        run: Its present run; None while it waits for its start.
        is_refused: Whether another process runs the job, so that it is not started again.
    """

    assignment: WorkAssignment
    progress: Progress
    restarts: Restarts
    run: RunT | None = None
    is_refused: bool = False


@attrs.define(eq=False)
class JobLoop(Generic[RunT]):
    """All jobs of one runner, on one carrier.

    Attributes:
        send: Sends a message to what supervises the runner.
        backoff: When a failed job restarts; its clock is the clock of the loop.
    """

    carrier: Carrier[RunT]
    send: Send
    backoff: Backoff = RESTARTS
    _turn: int = 0
    _jobs: dict[ShardId, _Job[RunT]] = attrs.field(factory=dict)
    _ending: dict[ShardId, RunT] = attrs.field(factory=dict)
    _reported_at: float = float("-inf")

    @property
    def turn_s(self) -> float:
        """How long to wait for assignments before each turn."""
        return self.carrier.turn_s

    def turn(self, desired: DesiredAssignments | None) -> None:
        """Adopt the newest assignments, if there are any, and let all jobs work for a while."""
        if desired is not None:
            self.assign(desired)
        self.reconcile()
        now = self.backoff.clock()
        if now - self._reported_at >= REPORT_EVERY_S:
            self.report()
            self._reported_at = now

    def assign(self, desired: DesiredAssignments) -> None:
        """Adopt the desired set of jobs; stop the runs of all others, and of other epochs."""
        self._turn = desired.turn
        wanted = {a.shard_id: a for a in desired.assignments}
        for shard_id, job in list(self._jobs.items()):
            assignment = wanted.get(shard_id)
            if assignment is not None and assignment.epoch == job.assignment.epoch:
                job.assignment = assignment
            else:
                del self._jobs[shard_id]
                self._stop(job)
        self.carrier.adopt(wanted)
        for shard_id, assignment in wanted.items():
            if shard_id not in self._jobs:
                self._jobs[shard_id] = self._job(assignment)

    def _job(self, assignment: WorkAssignment) -> _Job[RunT]:
        progress = Progress(clock=self.backoff.clock, reads=assignment.reads)
        return _Job(assignment, progress, Restarts(self.backoff, steady_s=STEADY_S))

    def reconcile(self) -> None:
        """Start the jobs that should run and do not; let the others work."""
        self._ending = {shard_id: run for shard_id, run in self._ending.items() if not run.is_over}
        for shard_id, job in self._jobs.items():
            is_due = not job.is_refused and job.restarts.is_due
            if job.run is None and is_due and shard_id not in self._ending:
                self._start(shard_id, job)
        runs = {shard_id: job.run for shard_id, job in self._jobs.items() if job.run is not None}
        for ended in list(self.carrier.advance(runs)):
            self._ended(ended)

    def report(self) -> None:
        """Report to the supervisor which jobs this process has not stopped, and their states."""
        running = tuple(sorted({*self._jobs, *self._ending}))
        self.send(RunningJobs(turn=self._turn, shards=running))
        for job in self._jobs.values():
            if job.run is not None:
                observe = functools.partial(job.run.observe, job.progress)
                for ended in attempt(job.assignment.shard_id, observe):
                    self._ended(ended)
            self.send(job.progress.report(job.assignment))

    def _start(self, shard_id: ShardId, job: _Job[RunT]) -> None:
        def start() -> None:
            job.run = self.carrier.start(job.assignment, job.progress)

        job.restarts.started()
        for ended in attempt(shard_id, start):
            self._ended(ended)
        if job.run is not None:
            log.info("job_started", job=job.assignment.title, epoch=job.assignment.epoch)

    def _ended(self, ended: Ended) -> None:
        job = self._jobs[ended.shard_id]
        self._stop(job)
        if ended.error is None:
            return
        job.is_refused = ended.is_final or isinstance(ended.error, IndexFenced)
        job.progress.error = describe_error(ended.error)
        job.progress.restarts += 1
        job.restarts.failed()
        self._log(job, "job_failed", ended.error)

    def _stop(self, job: _Job[RunT]) -> None:
        """End the present run of a job; until it is over, no other run of the job starts."""
        job.progress.is_running = False
        if job.run is None:
            return
        run, job.run = job.run, None
        shard_id = job.assignment.shard_id
        self._ending[shard_id] = run
        for failed in attempt(shard_id, run.stop):
            self._log(job, "job_not_drained", failed.error)

    def _log(self, job: _Job[RunT], event: str, error: Exception | None) -> None:
        if error is None:
            return
        is_expected = isinstance(error, (*self.carrier.expected, IndexFenced))
        log.warning(
            event,
            job=job.assignment.title,
            epoch=job.assignment.epoch,
            error=describe_error(error),
            exc_info=None if is_expected else error,
        )
