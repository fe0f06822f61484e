"""What the supervisor and its children say to each other: one JSON object a line, over pipes.

Down (a child's stdin): the complete set of what it shall run, each time; it starts what is new
and stops what is gone. Up (its stdout): reports. When stdin ends the supervisor is gone, and the
child ends its own process group, because a Spark driver's JVM outlives its Python.
"""

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import TextIO

import attrs
import structlog

from narthex.assets import ResolvedAsset
from narthex.records import Json, from_plain, to_plain


class GarbledLineError(ValueError):
    """A line of the protocol that cannot be read."""


@attrs.frozen(kw_only=True)
class Assignment:
    """One job or feed that a child shall run.

    Attributes:
        epoch: The fence token of its slot; a write with a smaller one is refused.
        generation: Grows when what is desired of the job changes.
        start_offsets: Where a job's first live start reads from, by topic and partition; empty
            for the beginning.
    """

    asset: ResolvedAsset
    epoch: int
    generation: int
    start_offsets: tuple[tuple[str, int, int], ...] = ()

    def plain(self) -> Json:
        """Render it for the pipe."""
        return {
            "asset": to_plain(self.asset),
            "epoch": self.epoch,
            "generation": self.generation,
            "start_offsets": [list(offset) for offset in self.start_offsets],
        }


@attrs.frozen(kw_only=True)
class OfflineRun:
    """One offline query that a driver shall answer.

    Attributes:
        request: What the server stored, as it stands in the ledger.
    """

    request_id: str
    epoch: int
    request: Json


@attrs.frozen(kw_only=True)
class Desired:
    """All that a child shall run from now on."""

    assignments: tuple[Assignment, ...]
    offline: tuple[OfflineRun, ...] = ()


@attrs.frozen(kw_only=True)
class Report:
    """How a job stands.

    Attributes:
        phase: starting, running, caught_up or failed.
        lag_ms: How long the oldest unread row has waited, as far as known.
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
    """How an offline query stands: running, done or failed."""

    request_id: str
    epoch: int
    state: str
    progress: dict[str, Json] = attrs.field(factory=dict)
    error: str | None = None


def render_desired(desired: Desired) -> str:
    """Render what a child shall run as one line."""
    return json.dumps(
        {
            "assign": [assignment.plain() for assignment in desired.assignments],
            "offline": [attrs.asdict(run) for run in desired.offline],
        }
    )


def parse_desired(line: str) -> Desired:
    """Read a line that `render_desired` made.

    Raises:
        GarbledLineError: It is something else.
    """
    try:
        found = json.loads(line)
        return Desired(
            assignments=tuple(_assignment(item) for item in found["assign"]),
            offline=tuple(OfflineRun(**run) for run in found["offline"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise GarbledLineError(f"not an assignment: {error}") from error


def _assignment(item: dict[str, Json]) -> Assignment:
    asset = from_plain(item["asset"])
    offsets = item["start_offsets"]
    if not isinstance(asset, ResolvedAsset) or not isinstance(offsets, list):
        raise GarbledLineError("an assignment without an asset")
    return Assignment(
        asset=asset,
        epoch=int(str(item["epoch"])),
        generation=int(str(item["generation"])),
        start_offsets=tuple(
            (str(entry[0]), int(str(entry[1])), int(str(entry[2])))
            for entry in offsets
            if isinstance(entry, list)
        ),
    )


def render_report(report: Report | OfflineReport) -> str:
    """Render a report as one line."""
    name = "report" if isinstance(report, Report) else "offline"
    return json.dumps({name: attrs.asdict(report)})


def parse_report(line: str) -> Report | OfflineReport:
    """Read a line that `render_report` made.

    Raises:
        GarbledLineError: It is something else.
    """
    try:
        found = json.loads(line)
        if "offline" in found:
            return OfflineReport(**found["offline"])
        return Report(**found["report"])
    except (ValueError, KeyError, TypeError) as error:
        raise GarbledLineError(f"not a report: {error}") from error


def send(report: Report | OfflineReport) -> None:
    """Write a report to the supervisor, at once; whole lines only, from any thread."""
    with _SENDING:
        sys.stdout.write(render_report(report) + "\n")
        sys.stdout.flush()


_SENDING = threading.Lock()


class Inbox:
    """The newest desired set that the supervisor sent; ends the process when the pipe ends."""

    def __init__(self, source: TextIO, *, gone: Callable[[], None]) -> None:
        """Start reading `source`; `gone` is called when it ends."""
        # Stdout is for reports alone; the story goes where people look for it.
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
        self._lines: queue.SimpleQueue[Desired] = queue.SimpleQueue()
        self._source = source
        self._gone = gone
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def _read(self) -> None:
        for line in self._source:
            if line.strip():
                self._lines.put(parse_desired(line))
        self._gone()

    def newest(self, *, wait_s: float) -> Desired | None:
        """Give the newest set that has not been given yet, or None after `wait_s`."""
        desired: Desired | None = None
        try:
            desired = self._lines.get(timeout=wait_s) if wait_s else self._lines.get_nowait()
            while True:
                desired = self._lines.get_nowait()
        except queue.Empty:
            return desired


def end_process_group() -> None:
    """End this process and all that it started, at once: their supervisor is gone."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
