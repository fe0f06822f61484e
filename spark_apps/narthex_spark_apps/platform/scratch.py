"""A directory for the temporary files of a driver, which a driver that is killed leaves behind."""

import os
import shutil
from pathlib import Path

from narthex._processes import Process, is_alive, process_of


def scratch_directory(root: Path) -> Path:
    """Return the directory of this process below `root`, and create it if it does not exist.

    The directories of processes that have ended are deleted first.

    Raises:
        OSError: The directory could not be created.
    """
    root.mkdir(parents=True, exist_ok=True)
    for path in root.iterdir():
        owner = _owner(path)
        if owner is not None and not is_alive(owner):
            shutil.rmtree(path, ignore_errors=True)
    this = process_of(os.getpid())
    if this is None:
        raise RuntimeError("the kernel does not list this process")
    directory = root / f"{this.pid}-{this.start}"
    directory.mkdir(exist_ok=True)
    return directory


def _owner(path: Path) -> Process | None:
    """Return the process that a directory belongs to; None if it is not one of these."""
    pid, _, start = path.name.partition("-")
    if not (pid.isdecimal() and start.isdecimal()):
        return None
    return Process(pid=int(pid), start=int(start))
