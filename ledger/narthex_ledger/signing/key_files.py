"""Files of the keys of an installation, which one account can read, and which may be replaced."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import attrs

from narthex._base import atomic_create

KEY_BYTES: Final = 32

_T = TypeVar("_T")


class KeyFileError(RuntimeError):
    """The files of the keys do not fit each other, or are not here; the message has a remedy."""


def load_key(path: Path) -> bytes:
    """Read a key, or create it; only its owner can read the file.

    Two processes may call it at once: one creates the key, both read it.
    """
    if not path.exists():
        atomic_create(path, secrets.token_bytes(KEY_BYTES))
    return path.read_bytes()


@attrs.define
class WatchedFile(Generic[_T]):
    """The content of a file that another process may replace while this one runs.

    Each reading compares the file's inode, size and time of modification, which takes some
    microseconds; only a replaced file is read again. A file that is gone keeps its content.
    """

    path: Path
    parse: Callable[[Path], _T]
    _read: tuple[tuple[int, ...], _T] | None = attrs.field(default=None, init=False)

    def content(self) -> _T:
        """Return the parsed content of the file as it is now.

        Raises:
            OSError: The file cannot be read, and was not read before.
        """
        known = self._read
        try:
            found = self.path.stat()
        except FileNotFoundError:
            if known is None:
                raise
            return known[1]
        version = (found.st_ino, found.st_size, found.st_mtime_ns)
        if known is None or known[0] != version:
            # A file that is replaced meanwhile is read again by the next reading.
            known = self._read = (version, self.parse(self.path))
        return known[1]
