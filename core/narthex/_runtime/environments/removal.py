"""Remove environments that nothing has used for long, each whole or not at all."""

import contextlib
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from narthex._runtime.environments.directories import environments_directory

_REMOVED: Final = ".removed-"
_REMOVED_WITHIN_S: Final = 3600
"""After this time, a removal that has not ended was interrupted."""


def unused(home: Path, *, since_s: float) -> frozenset[str]:
    """Return the names of the finished environments that were last used before an instant.

    Args:
        home: The state directory of the installation.
        since_s: Seconds since 1970; the last use is known to the hour.
    """
    return frozenset(
        place.name
        for place in _entries(environments_directory(home))
        if not place.name.startswith(".") and _was_used_before(place, since_s)
    )


def remove(name: str, home: Path, *, since_s: float) -> bool:
    """Remove an environment, unless it has been used since an instant; return whether it is gone.

    It leaves its place before it is deleted, and returns to it if its use was noted in between: so
    whoever notes a use, and finds the environment after that, keeps it.
    """
    above = environments_directory(home)
    place = above / name
    removed = above / f"{_REMOVED}{int(_now_s())}-{secrets.token_hex(8)}"
    if not _was_used_before(place, since_s):
        return False
    with contextlib.suppress(FileNotFoundError):  # another process has removed it
        place.rename(removed)
        if not _was_used_before(removed, since_s):
            with contextlib.suppress(OSError):  # it was built anew meanwhile
                removed.rename(place)
            return False
    shutil.rmtree(removed, ignore_errors=True)
    return True


def remove_leftovers(home: Path) -> None:
    """Delete the rest of environments whose removal was interrupted."""
    for found in _entries(environments_directory(home)):
        begun, is_removed = found.name.removeprefix(_REMOVED), found.name.startswith(_REMOVED)
        if is_removed and int(begun.partition("-")[0]) < _now_s() - _REMOVED_WITHIN_S:
            shutil.rmtree(found, ignore_errors=True)


def _entries(above: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError):
        yield from above.iterdir()


def _was_used_before(place: Path, since_s: float) -> bool:
    try:
        return place.stat().st_mtime < since_s
    except FileNotFoundError:
        return False


def _now_s() -> float:
    return time.time()  # noqa: TID251 (the clock of files)
