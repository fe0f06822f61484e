"""How many bytes of a disk a directory occupies."""

import os

_BLOCK_BYTES = 512


def disk_bytes(directory: str) -> int | None:
    """Return how many bytes the files below a directory of this machine occupy.

    None if there is no such directory, or it is the URL of another store. Holes of sparse files
    occupy nothing; files that are deleted meanwhile are left out.
    """
    if "://" in directory or not os.path.isdir(directory):  # noqa: PTH112 (a text)
        return None
    return sum(map(_file_bytes, _files(directory)))


def _files(directory: str) -> list[str]:
    return [os.path.join(at, name) for at, _, names in os.walk(directory) for name in names]  # noqa: PTH118


def _file_bytes(file: str) -> int:
    try:
        return os.stat(file, follow_symlinks=False).st_blocks * _BLOCK_BYTES  # noqa: PTH116
    except FileNotFoundError:
        return 0
