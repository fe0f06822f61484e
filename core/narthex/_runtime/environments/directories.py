"""The directories of environments on this machine."""

import contextlib
import os
import sysconfig
import time
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from narthex._ir.code import LockedPackage
from narthex.settings import home_of

PACKAGES: Final = "site-packages"
"""The directory in an environment that workers read; modules in it are a library's, by its name."""

_NOTED_EVERY_S: Final = 3600.0


class NoEnvironmentError(RuntimeError):
    """The packages that code imports are not on this machine."""


def libraries() -> list[str]:
    """Return the directories of the platform's libraries, which workers import first."""
    return [*dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))]


def supplied_version(distribution: str) -> str | None:
    """Return the version of a distribution that the platform has; None if it lacks it."""
    context = metadata.DistributionFinder.Context(name=distribution, path=libraries())
    found = next(iter(metadata.MetadataPathFinder.find_distributions(context)), None)
    return None if found is None else found.version


def lacking(packages: Iterable[LockedPackage]) -> tuple[LockedPackage, ...]:
    """Return those packages of which the platform has no version, in their order.

    Workers import the platform's own of the others, whatever the lock has.
    """
    return tuple(one for one in packages if supplied_version(one.distribution) is None)


def environments_directory(home: Path) -> Path:
    """Return the directory of all environments of an installation."""
    return home / "environments"


def packages_directory(name: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the directory of the packages of an environment; empty for the name of none.

    Args:
        name: The name of the environment.
        environment: The variables that name the installation; by default, those of this process.

    Raises:
        NoEnvironmentError: It is not on this machine.
    """
    if not name:
        return ""
    home = home_of(os.environ if environment is None else environment)
    found = environments_directory(home) / name / PACKAGES
    if not found.is_dir():
        raise NoEnvironmentError(
            f"the packages of its lock are not on this machine, in `{found.parent}`; commit again, "
            "or copy the directory from the machine of the server"
        )
    note_use(name, home)
    return str(found)


def note_use(name: str, home: Path) -> None:
    """Let the time of an environment say when it was used, to the hour; do nothing without it."""
    place = environments_directory(home) / name
    now = time.time()  # noqa: TID251 (the clock of files)
    with contextlib.suppress(OSError):  # another account may own it
        if place.stat().st_mtime < now - _NOTED_EVERY_S:
            os.utime(place, (now, now))
