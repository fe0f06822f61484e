"""The processes of an installation that run on after its operator was killed."""

import os
from collections.abc import Iterable
from pathlib import Path

from narthex._processes import Process, environment_of, in_sessions, running_processes

OPERATOR_HOME = "NARTHEX_OPERATOR_HOME"
"""The environment variable of each service: the home whose operator started it."""


def leftovers(home: Path, recorded: Iterable[Process]) -> tuple[Process, ...]:
    """Return an installation's running processes: marked, recorded, or in a recorded session."""
    members = frozenset(in_sessions(recorded))
    me = os.getpid()

    def is_ours(process: Process) -> bool:
        return process in members or environment_of(process.pid).get(OPERATOR_HOME) == str(home)

    processes = (running.process for running in running_processes())
    return tuple(process for process in processes if process.pid != me and is_ours(process))
