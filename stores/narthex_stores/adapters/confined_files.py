"""Find and open files below a root directory; no link and no name leads out of it.

A name is checked part by part while it is opened, each part relative to the open parent directory.
So a link that replaces a directory between a check and its use is never followed.
"""

import glob
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OutsideError(OSError):
    """A name leads over a link, out of its root, or to something other than a plain file."""


def open_beneath(root: Path, name: str) -> IO[bytes]:
    """Open a plain file below a root for reading.

    Raises:
        OutsideError: The name has `..`, a link or a device in it, or is absolute.
        OSError: The file does not exist, or may not be read.
    """
    *directories, last = _parts(name)
    with _entered(root, directories, name) as directory:
        try:
            number = os.open(last, _FILE, dir_fd=directory)
        except OSError as error:
            raise _explained(error, directory, last, name) from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OutsideError(f"`{name}` is not a plain file")
    return os.fdopen(number, "rb")


def find_beneath(root: Path, pattern: str) -> tuple[str, ...]:
    """Return the sorted names of the plain files that a `glob` pattern matches.

    Raises:
        OutsideError: One of them leads over a link.
    """
    _parts(pattern)
    found = []
    for name in sorted(glob.glob(pattern, root_dir=root, recursive=True)):  # noqa: PTH207 - `Path.glob` follows other rules
        *directories, last = _parts(name.rstrip("/"))
        with _entered(root, directories, name) as directory:
            mode = os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise _link(name)
        if stat.S_ISREG(mode):
            found.append(name)
    return tuple(found)


def require_no_links(root: Path, name: str) -> None:
    """Check that a directory below a root has no link in its name and none below it.

    Raises:
        OutsideError: There is a link.
        OSError: The directory does not exist.
    """
    parts = _parts(name)
    with _entered(root, parts, name) as directory:
        for below, directories, files, _ in os.fwalk(dir_fd=directory, follow_symlinks=False):
            for one in (*directories, *files):
                place = os.path.normpath(f"{name}/{below}/{one}")
                if _is_link(directory, os.path.join(below, one)):  # noqa: PTH118 - below a descriptor
                    raise _link(place)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if "\0" in name or any(part in {"", ".", ".."} for part in parts):
        raise OutsideError(f"`{name}` is not a relative path inside the directory")
    return parts


@contextmanager
def _entered(root: Path, parts: list[str], name: str) -> Iterator[int]:
    """Open a directory below a root, part by part; an operator may make the root itself a link."""
    directory = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for part in parts:
            try:
                entered = os.open(part, _DIRECTORY, dir_fd=directory)
            except OSError as error:
                raise _explained(error, directory, part, name) from None
            os.close(directory)
            directory = entered
        yield directory
    finally:
        os.close(directory)


def _explained(error: OSError, directory: int, part: str, name: str) -> OSError:
    return _link(name) if _is_link(directory, part) else error


def _is_link(directory: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _link(name: str) -> OutsideError:
    return OutsideError(f"`{name}` contains a symbolic link; put the files there instead")
