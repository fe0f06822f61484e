"""Find the processes of a driver: its JVM, and the Python workers of its standing tasks."""

import signal
from pathlib import Path

from narthex._processes import Process, in_sessions, load_process, send_signal

DRIVER, JVM = "driver", "java"


def find_in_driver(pid_file: Path, name: str) -> Process | None:
    """Return the driver of a PID file, its JVM (`java`), or a standing task by name."""
    driver = load_process(pid_file)
    if driver is None or name == DRIVER:
        return driver
    members = (process for process in in_sessions((driver,)) if command_of(process) == name)
    return min(members, key=lambda process: process.start, default=None)


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
