"""Find the processes of a driver: its JVM, Spark's daemon, and the workers of standing tasks."""

import signal
from collections.abc import Iterable
from pathlib import Path

from narthex._processes import Process, in_sessions, load_process, send_signal

DRIVER, JVM = "driver", "java"
WORKER_DAEMON = "worker_daemon"
"""Forks the Python workers, which have its command line too: the oldest is the daemon."""


def find_in_driver(pid_file: Path, name: str) -> Process | None:
    """Return the driver of a PID file, its JVM (`java`), its daemon, or a standing task by name."""
    driver = load_process(pid_file)
    if driver is None or name == DRIVER:
        return driver
    return find_oldest(name, in_sessions((driver,)))


def find_oldest(name: str, processes: Iterable[Process]) -> Process | None:
    """Return the oldest JVM (`java`), daemon or standing task of that name among processes."""
    of_name = is_worker_daemon if name == WORKER_DAEMON else lambda one: command_of(one) == name
    return min(filter(of_name, processes), key=lambda process: process.start, default=None)


def is_worker_daemon(process: Process) -> bool:
    """Whether a process is Spark's daemon of Python workers, or a worker without a task."""
    is_python = command_of(process).startswith("python")
    return is_python and WORKER_DAEMON in arguments_of(process)


def arguments_of(process: Process) -> str:
    """Return the command line of a process, with spaces between the arguments."""
    try:
        text = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.replace(b"\0", b" ").decode(errors="replace")


def command_of(process: Process) -> str:
    """Return the name that a process has in the kernel's table."""
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def signal_session(leader: Process, number: signal.Signals) -> None:
    """Signal a process and all that it started: Spark's workers have a group of their own."""
    for process in in_sessions((leader,)):
        send_signal(process, number)
