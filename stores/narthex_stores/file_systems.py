"""Arrow's file systems, by path or URL."""

from pathlib import Path

from pyarrow import fs


def file_system_of(root: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a directory of this machine or a URL, and the path in it.

    It is written in C++. Arrow's threads may still close files of a scan when the scan has
    returned; files of a file system in Python need the interpreter for that, and the process
    would abort if it ends meanwhile.
    """
    if "://" in root:
        system, path = fs.FileSystem.from_uri(root)
        return system, str(path)
    return fs.LocalFileSystem(), str(Path(root).absolute())
