"""A carrier in memory: each job appends the numbers of its topic to a store with fences."""

from collections.abc import Iterator, Mapping

import attrs

from narthex._ir.assets import AssetKind, CheckpointSpec, ResolvedAsset
from narthex_spark_apps.supervision.runner import Ended, JobLoop, Progress, attempt
from narthex_spark_apps.supervision.runner.loop import RESTARTS
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    Report,
    RunnerMessage,
    RunningJobs,
    ShardId,
    WorkAssignment,
)
from narthex_stores import IndexFenced

TOPIC = "numbers"
OF_SHARD = 1000
"""Shard 1 of job 7 is the job 1007 of the store."""


class OutOfOrderError(RuntimeError):
    """The store fails, as the test requires."""


def assignment(
    asset_id: int, *, epoch: int = 1, generation: int = 1, shard: int = 0, shards: int = 1
) -> WorkAssignment:
    asset = ResolvedAsset(
        asset_id=asset_id,
        kind=AssetKind.STREAM_JOB,
        physical_name=f"job {asset_id}",
        fingerprint=b"",
        spec=CheckpointSpec(job="job"),
        needs=(),
    )
    return WorkAssignment(
        asset=asset, epoch=epoch, generation=generation, shard=shard, shards=shards
    )


@attrs.define
class Store:
    """The state that all processes share: a topic, and the rows and epoch of each job."""

    end: int = 0
    rows: dict[int, list[int]] = attrs.field(factory=dict)
    epochs: dict[int, int] = attrs.field(factory=dict)

    def known(self) -> Mapping[str, Mapping[int, int]]:
        return {TOPIC: {0: self.end}}

    def append(self, asset_id: int, epoch: int, row: int) -> None:
        if epoch < self.epochs.get(asset_id, 0):
            raise IndexFenced(f"epoch {epoch} must stop")
        self.epochs[asset_id] = epoch
        self.rows.setdefault(asset_id, []).append(row)


@attrs.define(eq=False)
class MemoryRun:
    """One run; it takes a row in a turn, and writes it in the next turn or when it is stopped."""

    asset_id: int
    epoch: int
    carrier: "MemoryCarrier"
    taken: int | None = None
    is_stopped: bool = False

    @property
    def written(self) -> int:
        return len(self.carrier.store.rows.get(self.asset_id, ()))

    def advance(self) -> None:
        if self.asset_id in self.carrier.fails:
            raise OutOfOrderError(self.asset_id)
        self.write()
        if self.written < self.carrier.store.end:
            self.taken = self.written

    def write(self) -> None:
        if self.taken is not None:
            row, self.taken = self.taken, None
            self.carrier.store.append(self.asset_id, self.epoch, row)

    def observe(self, progress: Progress) -> None:
        if self.asset_id in self.carrier.unobserved:
            raise OutOfOrderError(self.asset_id)
        progress.read = {TOPIC: {0: self.written}}
        progress.known = progress.is_running = True

    def stop(self) -> None:
        self.is_stopped = True
        self.write()
        if not self.carrier.is_slow:
            self.carrier.runs.remove(self)

    @property
    def is_over(self) -> bool:
        return self not in self.carrier.runs


@attrs.define(eq=False)
class MemoryCarrier:
    """All runs of one process.

    Attributes:
        runs: Those that are not over yet.
        fails: The jobs whose work fails.
        refuses: The jobs that cannot be started.
        unobserved: The jobs whose progress cannot be read.
        outdated: The jobs whose present run ends without an error, so that a new one starts.
        is_slow: Whether stopped runs go on until `finish`.
        doubled: The jobs that were started while an earlier run was left; must stay empty.
    """

    store: Store = attrs.field(factory=Store)
    runs: list[MemoryRun] = attrs.field(factory=list)
    fails: set[int] = attrs.field(factory=set)
    refuses: set[int] = attrs.field(factory=set)
    unobserved: set[int] = attrs.field(factory=set)
    outdated: set[int] = attrs.field(factory=set)
    is_slow: bool = False
    desired: Mapping[ShardId, WorkAssignment] = attrs.field(factory=dict)
    starts: list[tuple[int, int]] = attrs.field(factory=list)
    doubled: list[int] = attrs.field(factory=list)
    turn_s = 0.0
    expected = (OutOfOrderError,)

    def adopt(self, desired: Mapping[ShardId, WorkAssignment], /) -> None:
        self.desired = desired

    def start(self, assignment: WorkAssignment, progress: Progress) -> MemoryRun:
        asset_id = assignment.asset.asset_id + OF_SHARD * assignment.shard
        # The loop catches what is raised here, so the test looks at the list.
        if any(run.asset_id == asset_id for run in self.runs):
            self.doubled.append(asset_id)
        self.starts.append((asset_id, assignment.epoch))
        if asset_id in self.refuses:
            raise OutOfOrderError(asset_id)
        progress.topics, progress.ends = (TOPIC,), self.store
        run = MemoryRun(asset_id, assignment.epoch, self)
        self.runs.append(run)
        return run

    def advance(self, runs: Mapping[ShardId, MemoryRun]) -> Iterator[Ended]:
        for shard_id, run in runs.items():
            yield from attempt(shard_id, run.advance)
            if run.asset_id in self.outdated:
                self.outdated.remove(run.asset_id)
                yield Ended(shard_id)

    def finish(self) -> None:
        """Let the stopped runs end."""
        self.runs = [run for run in self.runs if not run.is_stopped]


@attrs.define
class Process:
    """A child process without a process: a loop, a clock, and what it has sent."""

    carrier: MemoryCarrier = attrs.field(factory=MemoryCarrier)
    now_s: float = 1000.0
    sent: list[RunnerMessage] = attrs.field(factory=list)
    loop: JobLoop[MemoryRun] = attrs.field(init=False)
    _turn: int = 0

    def __attrs_post_init__(self) -> None:
        backoff = attrs.evolve(RESTARTS, clock=lambda: self.now_s, random=lambda: 1.0)
        self.loop = JobLoop(self.carrier, send=self.sent.append, backoff=backoff)

    def assign(self, *assignments: WorkAssignment) -> None:
        self._turn += 1
        self.loop.turn(DesiredAssignments(assignments=assignments, turn=self._turn))

    def work(self, *, turns: int = 1, each_s: float = 0.1) -> None:
        for _ in range(turns):
            self.now_s += each_s
            self.loop.turn(None)

    @property
    def running(self) -> set[tuple[int, int]]:
        """Return the jobs and epochs that are not over."""
        return {(run.asset_id, run.epoch) for run in self.carrier.runs}

    def report(self) -> tuple[RunningJobs, dict[int, Report]]:
        """Return the newest report of this process."""
        self.sent.clear()
        self.loop.report()
        jobs = self.sent[0]
        assert isinstance(jobs, RunningJobs)
        reports = [message for message in self.sent if isinstance(message, Report)]
        return jobs, {report.asset_id + OF_SHARD * report.shard: report for report in reports}
