"""The places that the executors of a cluster must share with their driver."""

import secrets
from pathlib import Path

import attrs

from narthex._base import atomic_write
from narthex.settings import Settings
from narthex_stores import index_store

_MARK = ".shared"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class PlaceNotSharedError(RuntimeError):
    """An executor does not have a place of its driver; the message has the place and the remedy."""


@attrs.frozen(kw_only=True)
class SharedPlaces:
    """The places of a driver, for comparison on an executor.

    Attributes:
        mark: The content of a file in the checkpoint directory.
        machine: The running kernel of the driver's machine; empty if it has no name.
    """

    mark: str
    machine: str

    @classmethod
    def of(cls, settings: Settings) -> "SharedPlaces":
        """Return the places of this process; mark the checkpoint directory if it has no mark."""
        path = settings.checkpoint_dir / _MARK
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, secrets.token_hex(16), mode=0o644)
        return cls(mark=path.read_text(), machine=_machine())

    def require(self, settings: Settings) -> None:
        """Check that this process has the same places.

        Raises:
            PlaceNotSharedError: A place is missing, or another one has its path.
        """
        path = settings.checkpoint_dir / _MARK
        if not path.is_file() or path.read_text() != self.mark:
            raise PlaceNotSharedError(
                f"`{settings.checkpoint_dir}` on this executor is not the directory of the driver; "
                "set `NARTHEX_CHECKPOINT_DIR` to a directory that all machines share"
            )
        if self.machine != _machine() and not index_store(settings).is_shared:
            raise PlaceNotSharedError(
                "this executor and its driver are on two machines, but the indexes are LMDB "
                "directories of one machine; set `NARTHEX_INDEX_STORE` to servers of the Redis "
                "protocol"
            )


def _machine() -> str:
    return _BOOT.read_text().strip() if _BOOT.is_file() else ""
