"""Copies of projects' folders, in which author code can neither reach nor name anything else.

Folders and their content are hostile: no symbolic link is followed, neither on the way to a folder
nor in it, and only regular files are copied.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

import attrs

MOST_FILES: Final = 2_000
MOST_BYTES: Final = 32 << 20
_CHUNK: Final = 1 << 20
_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ProjectRefused(ValueError):
    """A project cannot be read; the message has what to change."""


@attrs.define(kw_only=True)
class CopiedFiles:
    """The amount that was copied of a folder.

    Attributes:
        left_out: Paths of what is not a regular file, such as symbolic links.
    """

    files: int = 0
    size_bytes: int = 0
    left_out: list[str] = attrs.field(factory=list)


def copy_folder(root: Path, folder: PurePosixPath, target: Path) -> CopiedFiles:
    """Copy a folder below a root to the same path below `target`, readable by every account.

    Folders and files whose names begin with a dot, and `__pycache__`, are not copied. Nothing that
    exists is opened for writing: the call creates `target`, and each file in it.

    Raises:
        ProjectRefused: The folder is not below the root, the root or the folder does not exist, the
            folder is reached by a symbolic link, it is larger than 2,000 files or 32 MiB, or the
            target exists or is inside of the folder.
    """
    _require_below(root, folder)
    copied = CopiedFiles()
    with _opened(root, folder) as descriptor:
        _create(target, beside=(root / folder).resolve())
        for place, folders, files, inside in os.fwalk(".", dir_fd=descriptor):
            folders[:] = sorted(name for name in folders if not _is_hidden(name))
            here = folder / place
            (target / here).mkdir(parents=True, exist_ok=True)
            for name in sorted(name for name in files if not _is_hidden(name)):
                _copy(inside, name, here / name, target, copied)
            copied.left_out += [
                str(here / name) for name in folders if _is_link(name, dir_fd=inside)
            ]
    for made in (target, *target.rglob("*")):
        made.chmod(0o755 if made.is_dir() else 0o644)
    return copied


def _require_below(root: Path, folder: PurePosixPath) -> None:
    """Refuse a folder that is not below the root, whatever the root has.

    Joined to another path, an absolute folder is itself, so that it would be its own target.
    """
    if folder.is_absolute() or ".." in folder.parts or "\0" in str(folder):
        raise ProjectRefused(
            f"`{folder}` is not below `{root}`; write a relative path without `..`"
        )


def _create(target: Path, *, beside: Path) -> None:
    """Create the directory of a copy, outside of what is copied."""
    if target.resolve().is_relative_to(beside):
        raise ProjectRefused(
            f"`{target}` is inside of `{beside}`, which is copied; name a directory outside of it"
        )
    try:
        target.mkdir()
    except FileExistsError:
        raise ProjectRefused(f"`{target}` exists; name a new directory for the copy") from None


@contextmanager
def _opened(root: Path, folder: PurePosixPath) -> Iterator[int]:
    """Open a folder below a root, step by step, so that no link can lead out of the root."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ProjectRefused(f"`{root}` cannot be read: {error.strerror}; create it") from None
    try:
        for part in folder.parts:
            try:
                inner = os.open(part, _OPEN_FOLDER, dir_fd=descriptor)
            except OSError as error:
                raise _refusal(root, folder, part, error) from None
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _refusal(root: Path, folder: PurePosixPath, part: str, error: OSError) -> ProjectRefused:
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return ProjectRefused(
            f"`{part}` of `{folder}` is not a folder, or is a symbolic link; name the folder itself"
        )
    return ProjectRefused(
        f"`{folder}` below `{root}` cannot be read: {error.strerror}; name a folder that exists"
    )


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


def _is_link(name: str, *, dir_fd: int) -> bool:
    return stat.S_ISLNK(os.lstat(name, dir_fd=dir_fd).st_mode)


def _copy(inside: int, name: str, path: PurePosixPath, target: Path, copied: CopiedFiles) -> None:
    try:
        descriptor = os.open(name, _OPEN_FILE, dir_fd=inside)
    except OSError:
        copied.left_out.append(str(path))
        return
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            copied.left_out.append(str(path))
            return
        copied.files += 1
        with (target / path).open("xb") as made:
            while chunk := file.read(_CHUNK):
                copied.size_bytes += len(chunk)
                if copied.files > MOST_FILES or copied.size_bytes > MOST_BYTES:
                    raise ProjectRefused(
                        f"the project has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB; "
                        "name a folder that has the definitions only"
                    )
                made.write(chunk)
