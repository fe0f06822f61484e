"""The libraries that code imports, with their versions."""

import ast
import functools
import re
import sys
from collections.abc import Collection, Mapping
from importlib import metadata

from narthex._ir.code import Requirement

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MODULES = frozenset({".py", ".so", ".pyd"})
_OURS = "narthex"
_INTERCHANGE = "pandas"


def normalised(name: str) -> str:
    """Return a distribution's name in the form in which indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_modules(source: str) -> frozenset[str]:
    """Return the top-level modules that a text imports, except those of Python itself."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return frozenset(found - sys.stdlib_module_names - {_OURS})


@functools.cache
def _providers() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@functools.cache
def distribution_of(module: str) -> str | None:
    """Return the distribution that provides a module; None without one."""
    try:
        return normalised(metadata.distribution(module).name)
    except metadata.PackageNotFoundError:
        provided = _providers().get(module)
        return normalised(provided[0]) if provided else None


@functools.cache
def modules_of(distribution: str) -> frozenset[str]:
    """Return the top-level modules of an installed distribution; none if it is not installed."""
    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return frozenset()
    named = (found.read_text("top_level.txt") or "").split()
    files = [file.parts for file in found.files or () if file.suffix in _MODULES]
    return frozenset(named) | {parts[0].partition(".")[0] for parts in files}


@functools.cache
def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def needs_of(distribution: str, *, optional: bool = True) -> frozenset[str]:
    """Return the names of what an installed distribution requires.

    Args:
        distribution: Its name; without such a distribution, nothing is required.
        optional: Include the requirements of optional extras.
    """
    try:
        lines = metadata.requires(distribution) or ()
    except metadata.PackageNotFoundError:
        return frozenset()
    return frozenset(
        normalised(match.group())
        for line in lines
        if (optional or "extra ==" not in line) and (match := _NAME.match(line))
    )


def requirements_of(
    source: str, *, without: Collection[str] = frozenset()
) -> tuple[Requirement, ...]:
    """Return the libraries that a text imports, with their requirements, sorted by name.

    pandas is always included, as code receives its frames. Modules without a distribution are left
    out.

    Args:
        source: The text.
        without: Distributions to leave out, with what only they require: a lock has them.
    """
    modules = imported_modules(source) | {_INTERCHANGE}
    pending = {distribution_of(module) for module in modules} - {None}
    found: dict[str, str] = {}
    while pending:
        name = pending.pop()
        version = version_of(name) if name else None
        if name is None or version is None or name in found or name in without:
            continue
        found[name] = version
        pending |= needs_of(name, optional=False)
    return tuple(Requirement(distribution=name, version=found[name]) for name in sorted(found))
