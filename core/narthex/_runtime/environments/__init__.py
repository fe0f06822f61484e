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
    libraries,
    packages_directory,
    supplied_version,
)

__all__ = [
    "BuildFailedError",
    "NoEnvironmentError",
    "PackageSource",
    "build",
    "environments_directory",
    "is_built",
    "libraries",
    "packages_directory",
    "supplied_version",
]
