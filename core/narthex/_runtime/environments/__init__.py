"""Environments: directories with the packages of projects' locks, which workers import from."""

from narthex._runtime.environments.building import (
    BuildFailedError,
    PackageSource,
    build,
    is_built,
)
from narthex._runtime.environments.directories import (
    NoEnvironmentError,
    environments_directory,
    lacking,
    libraries,
    note_use,
    packages_directory,
    supplied_version,
)
from narthex._runtime.environments.removal import remove, remove_leftovers, unused

__all__ = [
    "BuildFailedError",
    "NoEnvironmentError",
    "PackageSource",
    "build",
    "environments_directory",
    "is_built",
    "lacking",
    "libraries",
    "note_use",
    "packages_directory",
    "remove",
    "remove_leftovers",
    "supplied_version",
    "unused",
]
