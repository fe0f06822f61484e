"""The backends of a PostgreSQL server that was killed: a new one does not start beside them.

They are in sessions of their own, so that a signal to the server's group does not reach them, and
one that computes sees that its server is gone only when it next waits for something.
"""

import signal
from pathlib import Path

import attrs

from narthex_stack.errors import PreparationError
from narthex_stack.processes.process_table import Process, everything, process_of, send, wait_gone

END_WITHIN_S = 20.0

_SERVER_LINE, _MEMORY_LINE = 0, 6


@attrs.frozen
class _LockFile:
    """What a server has written of itself.

    Attributes:
        server: The number of its process.
        memory: The number of its shared memory.
    """

    server: int
    memory: int


def end_orphans(data: Path) -> None:
    """End the backends of the server that had a data directory, if that server is dead.

    Raises:
        PreparationError: They do not end.
    """
    found = _lock_file(data)
    if found is None:
        return
    attached = _attached(found.memory)
    if process_of(found.server) in attached:
        # It lives; a second server says so itself.
        return
    for process in attached:
        send(process, signal.SIGKILL)
    left = wait_gone(attached, within_s=END_WITHIN_S)
    if left:
        numbers = ", ".join(str(process.pid) for process in left)
        raise PreparationError(
            f"processes {numbers} of the killed server of `{data}` do not end; end them"
        )


def _lock_file(data: Path) -> _LockFile | None:
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        return _LockFile(int(lines[_SERVER_LINE]), int(lines[_MEMORY_LINE].split()[1]))
    except (FileNotFoundError, IndexError, ValueError):
        # No server was killed here, or before it had any backend.
        return None


def _attached(memory: int) -> tuple[Process, ...]:
    """List the processes that have a piece of System V shared memory."""
    return tuple(s.process for s in everything() if memory in _memories(s.process.pid))


def _memories(pid: int) -> frozenset[int]:
    """Return the numbers of the shared memory that a process has; nothing when it is not ours."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return frozenset()
    # Address, permissions, offset, device, number, name.
    found = (line.split(maxsplit=5) for line in lines if "/SYSV" in line)
    return frozenset(int(fields[4]) for fields in found)
