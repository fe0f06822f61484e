"""The protocol of the supervisor and its children: one JSON object a line, over pipes.

The supervisor sends (to a child's stdin) the complete set of assignments, each time; the child
starts new ones and stops removed ones. With each renewal of the leases it also sends when they
expire. The child sends (on its stdout) reports, the running jobs, and signs of life.

When stdin ends, the supervisor is gone, and the child ends its own process group, because a Spark
driver's JVM outlives its Python. When the leases expire (the supervisor is stopped, or waits for
the ledger), the child stops its jobs by itself; if it cannot, it exits.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

import attrs
import structlog

from narthex._base import Json, from_plain, to_plain
from narthex._ir import ResolvedAsset

log = structlog.get_logger()


class GarbledLineError(ValueError):
    """A line of the protocol cannot be parsed."""


@attrs.frozen(kw_only=True)
class WorkAssignment:
    """One job or feed that a child should run.

    Attributes:
        epoch: The fence token of its slot; a write with a smaller one is refused.
        generation: Increases when the desired state of the job changes.
        start_offsets: Where a job's first live start reads from, by topic and partition; empty for
            the beginning.
    """

    asset: ResolvedAsset
    epoch: int
    generation: int
    start_offsets: tuple[tuple[str, int, int], ...] = ()

    def plain(self) -> Json:
        """Return its JSON form."""
        return {
            "asset": to_plain(self.asset),
            "epoch": self.epoch,
            "generation": self.generation,
            "start_offsets": [list(offset) for offset in self.start_offsets],
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
    """Everything that a child should run from now on.

    Attributes:
        turn: Increases with each set; a child reports the turn that it has adopted.
    """

    assignments: tuple[WorkAssignment, ...]
    offline: tuple[OfflineRun, ...] = ()
    turn: int = 0


@attrs.frozen(kw_only=True)
class Report:
    """The state of a job.

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


@attrs.frozen(kw_only=True)
class OfflineReport:
    """The state of an offline query: running, done or failed."""

    request_id: str
    epoch: int
    state: str
    progress: dict[str, Json] = attrs.field(factory=dict)
    error: str | None = None


@attrs.frozen(kw_only=True)
class RunningJobs:
    """The jobs that a child runs, or is still stopping, since it adopted a set.

    Attributes:
        turn: The newest set that it has received.
        assets: The jobs and feeds that it has not stopped yet.
    """

    turn: int
    assets: tuple[int, ...]


@attrs.frozen
class Alive:
    """A sign of life: the child's process is running, whatever it works on."""


ChildMessage: TypeAlias = Report | OfflineReport | RunningJobs | Alive
"""A message from a child."""


def render_lease(until: float) -> str:
    """Render when the leases expire, by the monotonic clock."""
    return json.dumps({"leased_until": until})


def render_desired(desired: DesiredAssignments) -> str:
    """Render the desired assignments of a child as one line."""
    return json.dumps(
        {
            "assign": [assignment.plain() for assignment in desired.assignments],
            "offline": [attrs.asdict(run) for run in desired.offline],
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
    )


def render_report(said: ChildMessage) -> str:
    """Render a message of a child as one line."""
    (name,) = (name for name, kind in _SAID.items() if isinstance(said, kind))
    return json.dumps({name: attrs.asdict(said)})


def parse_report(line: str) -> ChildMessage:
    """Parse a line that `render_report` made.

    Raises:
        GarbledLineError: The line is something else.
    """
    try:
        ((name, found),) = json.loads(line).items()
        if name == "standing":
            return RunningJobs(turn=found["turn"], assets=tuple(found["assets"]))
        return _SAID[name](**found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GarbledLineError(f"not a report: {error}") from error


_SAID: dict[str, type[Report | OfflineReport | RunningJobs | Alive]] = {
    "report": Report,
    "offline": OfflineReport,
    "standing": RunningJobs,
    "alive": Alive,
}


def send(said: ChildMessage) -> None:
    """Send a message to the supervisor at once; whole lines only, from any thread."""
    with _SENDING:
        sys.stdout.write(render_report(said) + "\n")
        sys.stdout.flush()


_SENDING = threading.Lock()

ALIVE_EVERY_S = 2.0
LOOK_EVERY_S = 0.25
LET_GO_WITHIN_S = 10.0
"""Time to stop work after the leases expire; epochs fence any write after that."""


class Inbox:
    """The newest set that the supervisor sent; ends the process when the pipe ends."""

    def __init__(self, source: TextIO, *, gone: Callable[[], None]) -> None:
        """Start reading `source`; call `gone` when it ends, or when work does not stop in time."""
        _tell_on_stderr()
        self._lines: queue.SimpleQueue[DesiredAssignments] = queue.SimpleQueue()
        self._source = source
        self._gone = gone
        self._told = DesiredAssignments(assignments=())
        self._leased_until = float("inf")
        self._let_go_since: float | None = None
        self._has_work = False
        self._lock = threading.Lock()
        for work in (self._read, self._watch, self._live):
            threading.Thread(target=work, name=f"inbox{work.__name__}", daemon=True).start()

    def _read(self) -> None:
        for line in self._source:
            if line.strip():
                self._take(line)
        self._gone()

    def _take(self, line: str) -> None:
        leased_until = json.loads(line).get("leased_until")
        if leased_until is None:
            desired = parse_desired(line)
            with self._lock:
                self._told = desired
                self._lines.put(desired)
            return
        with self._lock:
            self._leased_until = float(leased_until)
            if self._let_go_since is not None and time.monotonic() < self._leased_until:
                self._let_go_since = None
                self._lines.put(self._told)

    def _watch(self) -> None:
        """Stop all work when the leases expire; end the process if work continues."""
        while True:
            time.sleep(LOOK_EVERY_S)
            if self._is_stuck():
                self._gone()

    def _is_stuck(self) -> bool:
        """Whether work continues too long after the leases expired.

        A child that was stopped, or is slow to start, may first read an outdated expiry: its time
        to stop starts when it reads that.
        """
        with self._lock:
            now = time.monotonic()
            if now < self._leased_until:
                return False
            if self._let_go_since is None:
                self._let_go_since = now
                log.warning("lease_expired")
                self._lines.put(DesiredAssignments(assignments=(), turn=self._told.turn))
            is_late = now - self._let_go_since > LET_GO_WITHIN_S
            return is_late and self._has_work and not self._lines.empty()

    @staticmethod
    def _live() -> None:
        while True:
            send(Alive())
            time.sleep(ALIVE_EVERY_S)

    def newest(self, *, wait_s: float) -> DesiredAssignments | None:
        """Return the newest set that has not been returned yet, or None after `wait_s`."""
        desired: DesiredAssignments | None = None
        try:
            desired = self._lines.get(timeout=wait_s) if wait_s else self._lines.get_nowait()
            while True:
                desired = self._lines.get_nowait()
        except queue.Empty:
            if desired is not None:
                self._has_work = bool(desired.assignments or desired.offline)
            return desired


def _tell_on_stderr() -> None:
    """Log to stderr: stdout is for reports only.

    A traceback contains lines only: the values of all variables are megabytes, and secrets.
    """
    renderer = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    *before, _ = structlog.get_config()["processors"]
    structlog.configure(
        processors=[*before, renderer], logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )


def end_process_group() -> None:
    """Kill this process and its whole process group, at once: the supervisor is gone."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
