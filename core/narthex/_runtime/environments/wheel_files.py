"""Unpack wheels into a directory without running anything, within bounds."""

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

MOST_BYTES: Final = 1 << 30
"""The most bytes of an environment, unpacked."""
MOST_FILES: Final = 50_000
"""The most files of an environment, and directories."""

_CHUNK: Final = 1 << 20
_DATA: Final = re.compile(r"[^/]+\.data/(?P<kind>[^/]+)/(?P<rest>.+)")
_LIBRARIES: Final = frozenset({"purelib", "platlib"})
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\\:]")


class WheelRefusedError(ValueError):
    """A wheel has a file that an environment may not have, or is too large."""


@attrs.define
class Room:
    """The bytes, and the files and directories, that an environment may still get."""

    bytes: int = MOST_BYTES
    files: int = MOST_FILES

    def take(self, size: int, wheel: str) -> None:
        """Take the room of one file, or of a directory.

        Raises:
            WheelRefusedError: There is none.
        """
        self.bytes -= size
        self.files -= 1
        if self.bytes < 0 or self.files < 0:
            raise WheelRefusedError(
                f"with `{wheel}`, the packages have more than {MOST_BYTES} bytes, or {MOST_FILES} "
                "files and directories, unpacked"
            )


def unpack(wheel: Path, target: Path, room: Room) -> None:
    """Write the modules and the metadata of a wheel below a directory.

    Scripts, headers and data outside of packages are left out, as are `.pth` files, which workers
    do not read. A file that another wheel has written stays as it is.

    Raises:
        WheelRefusedError: It is not a wheel, has a link or a path that leaves the directory, or is
            larger than there is room for.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            files = [*_files(archive, wheel.name)]
            directories: set[str] = set()
            for info, path in files:
                room.take(info.file_size, wheel.name)
                for above in _new_directories(path, directories):
                    room.take(0, wheel.name)
                    directories.add(above)
            for info, path in files:
                place = target / path
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    with archive.open(info) as packed, place.open("xb") as written:
                        while chunk := packed.read(_CHUNK):
                            written.write(chunk)
    except (OSError, RuntimeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise WheelRefusedError(f"`{wheel.name}` cannot be unpacked: {error}") from None


def _files(archive: zipfile.ZipFile, wheel: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    for info in archive.infolist():
        name = info.filename
        if name.endswith("/"):
            continue
        kind = stat.S_IFMT(info.external_attr >> 16)
        parts = name.split("/")
        if kind not in {0, stat.S_IFREG}:
            raise WheelRefusedError(f"`{wheel}` has `{name[:80]!r}`, which is not a regular file")
        if _CONTROL.search(name) or {"", ".", ".."} & set(parts):
            raise WheelRefusedError(f"`{wheel}` has a file with the path {name[:80]!r}")
        moved = _DATA.fullmatch(name)
        if moved is not None and moved["kind"] not in _LIBRARIES:
            continue
        path = moved["rest"] if moved is not None else name
        if "/" in path or not path.endswith(".pth"):
            yield info, path


def _new_directories(path: str, known: set[str]) -> Iterator[str]:
    """Yield the directories above a path that are not known, the innermost first."""
    above = path.rpartition("/")[0]
    while above and above not in known:
        yield above
        above = above.rpartition("/")[0]


def opened_to_all(directory: Path) -> None:
    """Let every account read what is below a directory, as workers have an account of their own."""
    for above, names, files in os.walk(directory):
        for name in names:
            Path(above, name).chmod(0o755)
        for name in files:
            Path(above, name).chmod(0o644)
    directory.chmod(0o755)
