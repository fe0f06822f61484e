"""The directories of environments on this machine."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from narthex.settings import home_of

PACKAGES: Final = "packages"
"""The directory in an environment that workers read."""


class NoEnvironmentError(RuntimeError):
    """The packages that code imports are not on this machine."""


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
    return str(found)
