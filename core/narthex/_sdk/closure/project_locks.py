"""The lock of an author's project, and the packages of it that a function uses."""

import functools
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from narthex._authoring.project_directories import PROJECT_FILE, project_directory
from narthex._authoring.source_locations import place
from narthex._base.origin import Origin
from narthex._ir.code import MOST_PACKAGES, LockedPackage, UserCode
from narthex._sdk.closure.libraries import (
    imported_modules,
    modules_of,
    needs_of,
    version_of,
)
from narthex._sdk.closure.lock_lines import parse_lock
from narthex.errors import DefinitionError, RequirementsInvalid

KEY: Final = "requirements"
"""The key of `narthex.toml` that names the lock."""
MOST_BYTES: Final = 4 << 20
"""The greatest size of a lock."""

_OURS: Final = "narthex"


@attrs.frozen(kw_only=True)
class ProjectLock:
    """The packages that a project adds to those of the platform.

    Attributes:
        packages: By name.
        errors: Every mistake of the lock, at its line.
    """

    packages: Mapping[str, LockedPackage]
    errors: tuple[DefinitionError, ...] = ()

    def used_by(self, source: str) -> tuple[LockedPackage, ...]:
        """Return the locked packages that a text imports, and those they need, sorted by name.

        All that a package declares is included if the lock has it, also what is optional, because
        it finds those when it runs.
        """
        imported = imported_modules(source)
        pending = {name for name in self.packages if not imported.isdisjoint(modules_of(name))}
        found: set[str] = set()
        while pending:
            name = pending.pop()
            found.add(name)
            pending |= {one for one in needs_of(name) if one in self.packages} - found
        return tuple(self.packages[name] for name in sorted(found))


_NONE: Final = ProjectLock(packages={})


def lock_of(file: str) -> ProjectLock:
    """Return the lock of the project that has a file of Python; without one, an empty lock."""
    module = Path(file)
    if not module.is_file():
        return _NONE
    return lock_in(project_directory(module.absolute().parent))


def lock_in(directory: Path) -> ProjectLock:
    """Return the lock that the `narthex.toml` of a directory names; without one, an empty lock."""
    project = directory / PROJECT_FILE
    known = _state(project)
    named = _named(project, known) if known else ""
    if not named:
        return _NONE
    path = directory / named
    return _read(path, directory, _state(path), place(str(project), 1))


def installed_otherwise(locked: tuple[LockedPackage, ...]) -> Iterator[DefinitionError]:
    """Yield an error for each package that is installed here at another version, or not at all.

    Unit tests run the code with what is installed here, jobs with what is locked.
    """
    for one in locked:
        found = version_of(one.distribution)
        if found != one.version:
            here = "is not installed here" if found is None else f"is {found} here"
            yield RequirementsInvalid(
                f"`{one.distribution}` {here}, and {one.version} in the lock",
                origin=one.origin,
                hint=f"install the lock: `uv pip sync {Path(one.origin.file).name}`",
            )


def lock_disagreements(code: UserCode) -> Iterator[str]:
    """Yield what is wrong with the locked packages of received code."""
    names = [one.distribution for one in code.locked]
    if names != sorted(set(names)):
        yield f"the packages of `{code.entry}` are not sorted by name, each once"
    if len(names) > MOST_PACKAGES:
        yield f"`{code.entry}` uses {len(names)} packages; at most {MOST_PACKAGES} are allowed"
    for one in code.locked:
        if not one.is_well_formed:
            yield f"a package of `{code.entry}` has an invalid name, version or hash"


def _state(path: Path) -> tuple[int, ...]:
    """Return what changes when a file does; empty if there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


@functools.lru_cache(maxsize=16)
def _named(project: Path, _state: tuple[int, ...]) -> str:
    """Return the path of the lock; an invalid `narthex.toml` is reported by the commands."""
    try:
        found = tomllib.loads(project.read_text(encoding="utf-8")).get(KEY, "")
    except (OSError, ValueError):
        return ""
    return found if isinstance(found, str) else ""


@functools.lru_cache(maxsize=16)
def _read(path: Path, directory: Path, _state: tuple[int, ...], origin: Origin) -> ProjectLock:
    try:
        text = _text(path, directory)
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        mistake = RequirementsInvalid(
            f"the lock `{os.path.relpath(path, directory)}` cannot be read: {why}",
            origin=origin,
            hint=f"name a file of the project as `{KEY}` of `{PROJECT_FILE}`",
        )
        return ProjectLock(packages={}, errors=(mistake,))
    parsed = parse_lock(text, place(str(path), 1).file)
    return ProjectLock(
        packages=parsed.packages, errors=(*parsed.errors, *_unlike_ours(parsed.packages))
    )


def _text(path: Path, directory: Path) -> str:
    found = path.resolve(strict=True)
    if not found.is_relative_to(directory.resolve()):
        raise ValueError("it is outside the project")
    if not stat.S_ISREG(found.stat().st_mode):
        raise ValueError("it is not a regular file")
    with found.open("rb") as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return content.decode("utf-8")


def _unlike_ours(packages: Mapping[str, LockedPackage]) -> Iterator[DefinitionError]:
    """Yield an error for each package that the platform has at another version."""
    for name in sorted(_ours() & packages.keys()):
        ours, locked = version_of(name), packages[name]
        if ours is not None and ours != locked.version:
            yield RequirementsInvalid(
                f"`{name}` is {locked.version} in the lock, but the platform runs {ours}",
                origin=locked.origin,
                hint=f"compile it with the constraint `{name}=={ours}`",
            )


@functools.cache
def _ours() -> frozenset[str]:
    """Return the packages that `narthex` itself needs, which every platform has."""
    found: set[str] = set()
    pending = {_OURS}
    while pending:
        name = pending.pop()
        found.add(name)
        pending |= needs_of(name, optional=False) - found
    return frozenset(found)
