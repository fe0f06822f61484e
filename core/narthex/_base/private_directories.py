"""Directories that only one account may enter, whatever the modes of the files in them."""

import contextlib
import stat
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o700
OF_GROUP: Final = 0o770


def make_private(directory: Path, *, is_of_group: bool = False) -> bool:
    """Create a directory for its owner alone, or also for its group; return False if it exists.

    Missing parents are created for their owner alone too. An existing directory is not changed.
    """
    if directory.is_dir():
        return False
    if not directory.parent.is_dir():
        make_private(directory.parent, is_of_group=is_of_group)
    try:
        directory.mkdir(mode=PRIVATE)
    except FileExistsError:  # another process was faster
        return False
    if is_of_group:
        inherited = directory.stat().st_mode & stat.S_ISGID
        directory.chmod(OF_GROUP | inherited)
    return True


def who_may_enter(directory: Path, *, is_of_group: bool = False) -> str:
    """Return who may enter or list a directory besides its owner: `all`, `group`, or nobody: ``.

    Of a directory that does not exist it is nobody. With `is_of_group`, the group counts as owner.
    """
    mode = 0
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & stat.S_IRWXO:
        return "all"
    return "group" if mode & stat.S_IRWXG and not is_of_group else ""
