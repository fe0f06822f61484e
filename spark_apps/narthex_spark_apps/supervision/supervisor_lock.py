"""Allows one supervisor at a time in a directory, and cleans up after its predecessor.

The holder of the directory's lock can be sure that the previous holder is dead. So it ends the
remaining driver and releases their slots at once, instead of waiting for the leases to expire.
"""

import fcntl
from pathlib import Path
from typing import TextIO

import attrs
import structlog

from narthex._base import atomic_write
from narthex._processes import end_leftovers
from narthex_ledger import Ledger

log = structlog.get_logger()


class AlreadySupervisedError(RuntimeError):
    """Another supervisor runs in the directory."""


@attrs.define
class SupervisorLock:
    """The lock on a directory, which proves that its previous supervisor is dead."""

    directory: Path
    _lock: TextIO
    _is_reclaimed: bool = False

    @classmethod
    def take_over(cls, directory: Path) -> "SupervisorLock":
        """Become the only supervisor of a directory.

        Raises:
            AlreadySupervisedError: Another supervisor runs there.
        """
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "supervisor.lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise AlreadySupervisedError(
                f"another supervisor uses `{directory}`; give this one another `--name`"
            ) from None
        return cls(directory, lock)

    def end_driver(self, name: str) -> None:
        """End the driver that the previous supervisor left running, with all that it started.

        It may be a stopped process, or one that was slow to notice that its supervisor is gone.
        """
        end_leftovers(self.directory / f"{name}.pid")

    def reclaim_slots(self, owner: str, ledger: Ledger) -> None:
        """Reclaim the slots of the previous supervisor, once; the owner is now `owner`.

        Raises:
            LedgerError: The ledger did not answer; call it again.
        """
        if self._is_reclaimed:
            return
        known = self.directory / "supervisor.owner"
        supervisor_lock = known.read_text() if known.is_file() else ""
        if supervisor_lock:
            ledger.engines.retire(supervisor_lock)
            log.info("slots_reclaimed", owner=supervisor_lock)
        atomic_write(known, owner)
        self._is_reclaimed = True
