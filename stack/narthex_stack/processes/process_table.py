"""Processes of this machine, distinguished from later ones that reuse their pids.

After a crash, a pid alone identifies nothing. A process is ours if its start time is the recorded
one, if its environment has our mark, or if it is in a session that one of ours leads.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import attrs

from narthex._base import Backoff

MARK = "NARTHEX_KEPT_BY"
"""The environment variable of each child: the home whose operator started it."""

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


@attrs.frozen(kw_only=True)
class Seen:
    """A process as the kernel shows it now."""

    process: Process
    session: int
    state: str


def seen(pid: int) -> Seen | None:
    """Return the process of a pid; None if there is none, or only a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may itself contain brackets and blanks.
    fields = text.rpartition(")")[2].split()
    if fields[_STATE] in {"Z", "X"}:
        return None
    return Seen(
        process=Process(pid=pid, start=int(fields[_START])),
        session=int(fields[_SESSION]),
        state=fields[_STATE],
    )


def process_of(pid: int) -> Process | None:
    """Return the identity of a running process by its pid."""
    found = seen(pid)
    return found.process if found else None


def is_alive(process: Process) -> bool:
    """Return whether this very process, not a later one of the same pid, is running."""
    return process_of(process.pid) == process


def everything() -> tuple[Seen, ...]:
    """Return the running processes of the machine."""
    numbers = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return tuple(found for number in numbers if (found := seen(number)))


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process started with; empty if it may not be read."""
    try:
        text = (_PROC / str(pid) / "environ").read_bytes()
    except (OSError, ProcessLookupError):
        return {}
    pairs = (entry.partition(b"=") for entry in text.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def leftovers(home: Path, recorded: Iterable[Process]) -> tuple[Process, ...]:
    """Return an installation's running processes: marked, recorded, or in a recorded session."""
    leaders = {process.pid: process for process in recorded}
    me = os.getpid()

    def is_ours(found: Seen) -> bool:
        if found.process.pid == me:
            return False
        leader = leaders.get(found.session)
        if leader is not None and found.process.start >= leader.start:
            now = process_of(leader.pid)
            if now is None or now == leader:
                return True
        return environment_of(found.process.pid).get(MARK) == str(home)

    return tuple(found.process for found in everything() if is_ours(found))


def send(process: Process, number: signal.Signals) -> None:
    """Signal this very process; do nothing if it is gone."""
    if not is_alive(process):
        return
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return


def wait_gone(waited: Iterable[Process], *, within_s: float) -> tuple[Process, ...]:
    """Wait until the processes are gone; return those that remain at the end."""
    alive = tuple(waited)
    for _ in _POLL.attempts(within_s=within_s):
        alive = tuple(process for process in alive if is_alive(process))
        if not alive:
            break
    return alive
