"""Processes of this machine, distinguished from later ones that reuse their pids.

After a crash, a pid alone identifies nothing. A process is a recorded one if its start time is the
recorded one, and it belongs to a recorded one if it is in the session that the recorded one leads.
"""

import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path

import attrs

from narthex._base import Backoff, Json, atomic_write

_PROC = Path("/proc")
_STATE, _SESSION, _START = 0, 3, 19
_POLL = Backoff(first_s=0.05, greatest_s=0.1)


@attrs.frozen(kw_only=True)
class Process:
    """The identity of one process.

    Attributes:
        pid: The process id.
        start: The clock ticks from the machine's boot to its start.
    """

    pid: int
    start: int

    @classmethod
    def parse(cls, value: Json) -> "Process | None":
        """Parse the plain form; None if the value is not one."""
        match value:
            case {"pid": int(pid), "start": int(start)}:
                return cls(pid=pid, start=start)
            case _:
                return None

    def plain(self) -> dict[str, int]:
        """Return the plain form, for files."""
        return {"pid": self.pid, "start": self.start}

    def store(self, path: Path) -> None:
        """Write the plain form to a file, so that a later program finds the process."""
        atomic_write(path, json.dumps(self.plain()) + "\n")


def load_process(path: Path) -> Process | None:
    """Read a process that was stored; None if the file is missing or has other content."""
    try:
        return Process.parse(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None


@attrs.frozen(kw_only=True)
class RunningProcess:
    """A process in the kernel's table, with its session and its state."""

    process: Process
    session: int
    state: str


def find_process(pid: int) -> RunningProcess | None:
    """Return the running process of a pid; None if there is none, or only a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may itself contain brackets and blanks.
    fields = text.rpartition(")")[2].split()
    if fields[_STATE] in {"Z", "X"}:
        return None
    return RunningProcess(
        process=Process(pid=pid, start=int(fields[_START])),
        session=int(fields[_SESSION]),
        state=fields[_STATE],
    )


def process_of(pid: int) -> Process | None:
    """Return the identity of a running process by its pid."""
    running = find_process(pid)
    return running.process if running else None


def is_alive(process: Process) -> bool:
    """Return whether this very process, not a later one of the same pid, is running."""
    return process_of(process.pid) == process


def running_processes() -> tuple[RunningProcess, ...]:
    """Return the running processes of the machine."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return tuple(running for pid in pids if (running := find_process(pid)))


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process started with; empty if it may not be read."""
    try:
        text = (_PROC / str(pid) / "environ").read_bytes()
    except (OSError, ProcessLookupError):
        return {}
    pairs = (entry.partition(b"=") for entry in text.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def in_sessions(recorded: Iterable[Process]) -> tuple[Process, ...]:
    """Return the running processes of sessions that recorded processes lead, or led."""
    leaders = {process.pid: process for process in recorded}

    def is_member(running: RunningProcess) -> bool:
        leader = leaders.get(running.session)
        if leader is None or running.process.start < leader.start:
            return False
        return process_of(leader.pid) in {None, leader}

    return tuple(running.process for running in running_processes() if is_member(running))


def send_signal(process: Process, number: signal.Signals) -> None:
    """Signal this very process; do nothing if it is gone."""
    if not is_alive(process):
        return
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def wait_gone(processes: Iterable[Process], *, within_s: float) -> tuple[Process, ...]:
    """Wait until the processes are gone; return those that remain at the end."""
    alive = tuple(processes)
    for _ in _POLL.attempts(within_s=within_s):
        alive = tuple(process for process in alive if is_alive(process))
        if not alive:
            break
    return alive
