"""The processes of a platform, found by the home in their environment."""

from pathlib import Path

import psutil

from narthex._processes import environment_of
from narthex_stack.processes.leftovers import OPERATOR_HOME


def processes_of(home: Path) -> list[psutil.Process]:
    """Return what the operator of a home has started, and what these processes have."""
    return [
        process
        for process in psutil.process_iter()
        if environment_of(process.pid).get(OPERATOR_HOME) == str(home)
    ]
