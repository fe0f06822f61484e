"""What a supervisor finds of the life before its own: one may live in a directory at a time.

Whoever holds the directory's lock knows that the former holder is dead. So it ends the children
that were left and gives their slots back at once, instead of waiting for the leases to end.
"""

import fcntl
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import attrs
import structlog

from narthex_ledger import Ledger
from narthex_spark_apps.storage.atomic_write import replace
from narthex_spark_apps.supervision.child_process import end_leftover

log = structlog.get_logger()


class AlreadySupervisedError(RuntimeError):
    """Another supervisor lives in the directory."""


@attrs.define
class FormerLife:
    """The supervisor that had the directory before, and the lock that says it is dead."""

    directory: Path
    _lock: TextIO
    _is_buried: bool = False

    @classmethod
    def take_over(cls, directory: Path) -> "FormerLife":
        """Become the only supervisor of a directory.

        Raises:
            AlreadySupervisedError: Another one is.
        """
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "supervisor.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise AlreadySupervisedError(
                f"another supervisor lives in `{directory}`; give this one another `--name`"
            ) from None
        return cls(directory, lock)

    def end_children(self, modules: Mapping[str, str]) -> None:
        """End what the former life left running: a stopped process, or one that was slow to see.

        Args:
            modules: The program of each child that may be there.
        """
        for name, module in modules.items():
            end_leftover(self.directory / f"{name}.pid", module)

    def bury(self, owner: str, ledger: Ledger) -> None:
        """Give back the slots of the former life, once; from now on `owner` is the one here.

        Raises:
            LedgerError: The ledger did not answer; call it again.
        """
        if self._is_buried:
            return
        known = self.directory / "supervisor.owner"
        former = known.read_text() if known.is_file() else ""
        if former:
            ledger.retire_engine(former)
            log.info("former_life_buried", owner=former)
        replace(known, owner)
        self._is_buried = True
