"""The orphaned backends of a killed PostgreSQL server: a new server does not start beside them.

They are in sessions of their own, so a signal to the server's group does not reach them, and a
busy backend notices that its server is gone only when it next waits for something.
"""

import signal
from pathlib import Path

import attrs

from narthex._processes import Process, process_of, running_processes, send_signal, wait_gone
from narthex_stack.errors import PreparationError

END_WITHIN_S = 20.0

_SERVER_LINE, _MEMORY_LINE = 0, 6


@attrs.frozen
class _LockFile:
    """The content of a server's lock file.

    Attributes:
        server: The pid of the server.
        memory: The id of its shared memory.
    """

    server: int
    memory: int


def end_orphans(data: Path) -> None:
    """End the backends of a data directory's last server, if that server is dead.

    Raises:
        PreparationError: The backends do not end.
    """
    found = _lock_file(data)
    if found is None:
        return
    attached = _attached(found.memory)
    if process_of(found.server) in attached:
        # The server is running; a second one reports that itself.
        return
    for process in attached:
        send_signal(process, signal.SIGKILL)
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
        # No server was killed here, or it had no backend yet.
        return None


def _attached(memory: int) -> tuple[Process, ...]:
    """Return the processes that have a segment of System V shared memory attached."""
    return tuple(s.process for s in running_processes() if memory in _memories(s.process.pid))


def _memories(pid: int) -> frozenset[int]:
    """Return the ids of a process's shared memory segments; empty if it is not ours."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return frozenset()
    # The fields are address, permissions, offset, device, id, name.
    found = (line.split(maxsplit=5) for line in lines if "/SYSV" in line)
    return frozenset(int(fields[4]) for fields in found)
