"""Atomic and durable writes of small files: readers see the old file or the new one, never a part.

This also holds after a power failure: the content reaches the disk before the name, and the name
before `atomic_write` returns.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

Sync = Callable[[int], None]
"""Forces the file or directory of a descriptor to disk, as `os.fsync` does."""

PRIVATE_MODE = 0o600
"""Only the owner of the file may read it."""


def atomic_write(
    path: Path, content: str | bytes, *, mode: int = PRIVATE_MODE, sync: Sync = os.fsync
) -> None:
    """Replace a file, or create it with its directories.

    A symbolic link at `path` is replaced, not followed.

    Raises:
        OSError: The file cannot be written; the old one remains.
    """
    with _written(path, content, mode=mode, sync=sync) as fresh:
        fresh.replace(path)


def atomic_create(
    path: Path, content: str | bytes, *, mode: int = PRIVATE_MODE, sync: Sync = os.fsync
) -> bool:
    """Create a file with its directories; return False, and change nothing, if it exists.

    Of several processes that call it at once, one creates the file.

    Raises:
        OSError: The file cannot be written.
    """
    with _written(path, content, mode=mode, sync=sync) as fresh:
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            return False
    return True


def sync_path(path: Path, *, sync: Sync = os.fsync) -> None:
    """Force the content of a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _written(path: Path, content: str | bytes, *, mode: int, sync: Sync) -> Iterator[Path]:
    """Write a durable temporary file beside `path`; afterwards, make the new name durable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            sync(file.fileno())
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
    sync_path(path.parent, sync=sync)
