"""The protocol of a runner and what supervises it: one JSON object a line.

The supervising side sends the complete set of assignments, each time; the runner starts new ones
and stops removed ones. With each renewal of the leases it also sends when they expire, by the
runner's own clock: that of the newest heartbeat, and how long they last from its receipt. So an
expiry is never too late, however long the messages travel, and no clocks of two machines are
compared. The runner sends reports, the running jobs, and heartbeats; a standing task first sends
which process it is.

`narthex_spark_apps.supervision.runner` is the runner's side.
"""

import json
from typing import ClassVar, NamedTuple, TypeAlias

import attrs

from narthex._base import Json, from_plain, to_plain
from narthex._ir import ResolvedAsset

STOP_WITHIN_S = 10.0
"""Time to stop work after the leases expire; epochs fence any write after that."""

CODE_CACHE_SHARE = 0.85
"""A driver is replaced when its JVM uses this share of the code cache."""


class GarbledLineError(ValueError):
    """A line of the protocol cannot be parsed."""


class ShardId(NamedTuple):
    """One shard of a job or a feed."""

    asset_id: int
    shard: int = 0


@attrs.frozen(kw_only=True)
class WorkAssignment:
    """One shard of a job or feed that a runner should run.

    Attributes:
        shard: Which of the job's shards it is.
        shards: How many shards the job has.
        epoch: The fence token of its slot; a write with a smaller one is refused.
        generation: Increases when the desired state of the job changes.
        start_offsets: Where a job's first live start reads from, by topic and partition; empty for
            the beginning.
    """

    asset: ResolvedAsset
    epoch: int
    generation: int
    start_offsets: tuple[tuple[str, int, int], ...] = ()
    shard: int = 0
    shards: int = 1

    @property
    def shard_id(self) -> ShardId:
        """The identity of the shard among all work of a runner."""
        return ShardId(self.asset.asset_id, self.shard)

    @property
    def title(self) -> str:
        """The physical name of the job, with its shard if it has several, for logs."""
        name = self.asset.physical_name
        return name if self.shards == 1 else f"{name} shard {self.shard}"

    def reads(self, partition: int) -> bool:
        """Whether this shard reads a partition of the job's topics."""
        return partition % self.shards == self.shard

    def plain(self) -> Json:
        """Return its JSON form."""
        return {
            "asset": to_plain(self.asset),
            "epoch": self.epoch,
            "generation": self.generation,
            "start_offsets": [list(offset) for offset in self.start_offsets],
            "shard": self.shard,
            "shards": self.shards,
        }


@attrs.frozen(kw_only=True)
class OfflineRun:
    """One offline query that a driver should answer.

    Attributes:
        request: The request as the ledger stores it.
    """

    request_id: str
    epoch: int
    request: Json


@attrs.frozen(kw_only=True)
class DesiredAssignments:
    """Everything that a runner should run from now on.

    Attributes:
        offline: The offline queries that a driver answers.
        backfills: The commits whose backfills a driver carries out.
        turn: Increases with each set; a runner reports the turn that it has adopted.
    """

    assignments: tuple[WorkAssignment, ...]
    offline: tuple[OfflineRun, ...] = ()
    backfills: tuple[str, ...] = ()
    turn: int = 0


@attrs.frozen(kw_only=True)
class Report:
    """The state of a shard of a job.

    Attributes:
        phase: starting, running, caught_up or failed.
        lag_ms: How long the oldest unread row has waited, if known.
        progress: Offsets, counts and errors, for people, metrics and the next start.
    """

    asset_id: int
    epoch: int
    generation: int
    phase: str
    lag_ms: int | None = None
    progress: dict[str, Json] = attrs.field(factory=dict)
    shard: int = 0


@attrs.frozen(kw_only=True)
class OfflineReport:
    """The state of an offline query: running, done or failed."""

    request_id: str
    epoch: int
    state: str
    progress: dict[str, Json] = attrs.field(factory=dict)
    error: str | None = None


@attrs.frozen(kw_only=True)
class BackfillEnded:
    """A driver has carried out a commit's backfill, or could not: then `error` is not empty."""

    commit_id: str
    error: str = ""


@attrs.frozen(kw_only=True)
class RunningJobs:
    """The jobs that a runner runs, or is still stopping, since it adopted a set.

    Attributes:
        turn: The newest set that it has received.
        shards: The shards of jobs and feeds that it has not stopped yet.
    """

    turn: int
    shards: tuple[ShardId, ...]


@attrs.frozen(kw_only=True)
class Alive:
    """A heartbeat: the process of the runner is running.

    Attributes:
        at: The monotonic clock of the runner when it sent this.
    """

    at: float


@attrs.frozen(kw_only=True)
class JvmMemory:
    """The memory that the JVM of a driver uses, in bytes."""

    code_cache: int
    code_cache_limit: int
    heap: int
    heap_limit: int
    metaspace: int

    @property
    def exhausted(self) -> str:
        """Describe why the driver must be replaced before its JVM dies; empty if it need not.

        A full heap is collected, but a JVM with a full code cache ends with a fatal error.
        """
        if self.code_cache < CODE_CACHE_SHARE * self.code_cache_limit:
            return ""
        return (
            f"its JVM uses {self.code_cache >> 20} of {self.code_cache_limit >> 20} MiB for "
            "compiled code"
        )


@attrs.frozen(kw_only=True)
class Started:
    """The first message of a standing task: the process that runs it (`narthex._processes`)."""

    pid: int
    start: int
    host: str = ""


@attrs.frozen(kw_only=True)
class TaskFailed:
    """The last message of a standing task that ends by an error."""

    NAME: ClassVar[str] = "task_failed"

    error: str


RunnerMessage: TypeAlias = (
    Report | OfflineReport | BackfillEnded | RunningJobs | Alive | JvmMemory | Started | TaskFailed
)
"""A message from a runner."""


def render_lease(*, since: float, lasts_s: float) -> str:
    """Render how long the leases last.

    Args:
        since: A heartbeat of the runner, by the runner's clock (`Alive.at`).
        lasts_s: Seconds from the receipt of that heartbeat until the leases expire.
    """
    return json.dumps({"leased_since": since, "lasts_s": lasts_s})


def lease_end(line: str) -> float | None:
    """Return when the leases expire, by the runner's clock; None for another line."""
    found = json.loads(line)
    return float(found["leased_since"]) + float(found["lasts_s"]) if "lasts_s" in found else None


def render_desired(desired: DesiredAssignments) -> str:
    """Render the desired assignments of a runner as one line."""
    return json.dumps(
        {
            "assign": [assignment.plain() for assignment in desired.assignments],
            "offline": [attrs.asdict(run) for run in desired.offline],
            "backfills": list(desired.backfills),
            "turn": desired.turn,
        }
    )


def parse_desired(line: str) -> DesiredAssignments:
    """Parse a line that `render_desired` made.

    Raises:
        GarbledLineError: The line is something else.
    """
    try:
        found = json.loads(line)
        return DesiredAssignments(
            assignments=tuple(_assignment(item) for item in found["assign"]),
            offline=tuple(OfflineRun(**run) for run in found["offline"]),
            backfills=tuple(map(str, found["backfills"])),
            turn=int(found["turn"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise GarbledLineError(f"not an assignment: {error}") from error


def _assignment(item: dict[str, Json]) -> WorkAssignment:
    asset = from_plain(item["asset"])
    offsets = item["start_offsets"]
    if not isinstance(asset, ResolvedAsset) or not isinstance(offsets, list):
        raise GarbledLineError("an assignment without an asset")
    return WorkAssignment(
        asset=asset,
        epoch=int(str(item["epoch"])),
        generation=int(str(item["generation"])),
        start_offsets=tuple(
            (str(entry[0]), int(str(entry[1])), int(str(entry[2])))
            for entry in offsets
            if isinstance(entry, list)
        ),
        shard=int(str(item["shard"])),
        shards=int(str(item["shards"])),
    )


def render_report(message: RunnerMessage) -> str:
    """Render a message of a runner as one line."""
    (name,) = (name for name, kind in _MESSAGES.items() if isinstance(message, kind))
    plain = attrs.asdict(message, recurse=not isinstance(message, RunningJobs))
    return json.dumps({name: plain})


def parse_report(line: str) -> RunnerMessage:
    """Parse a line that `render_report` made.

    Raises:
        GarbledLineError: The line is something else.
    """
    try:
        ((name, found),) = json.loads(line).items()
        if name == "running":
            shards = tuple(ShardId(*shard) for shard in found["shards"])
            return RunningJobs(turn=found["turn"], shards=shards)
        return _MESSAGES[name](**found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GarbledLineError(f"not a report: {error}") from error


_MESSAGES: dict[str, type[RunnerMessage]] = {
    "report": Report,
    "offline": OfflineReport,
    "backfill_ended": BackfillEnded,
    "running": RunningJobs,
    "alive": Alive,
    "memory": JvmMemory,
    "started": Started,
    TaskFailed.NAME: TaskFailed,
}
