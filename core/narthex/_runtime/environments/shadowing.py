"""The modules of an environment that the platform has under the same name."""

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_OURS: Final = "narthex"
_UNIMPORTANT: Final = frozenset({"tests", "docs", "examples", "benchmarks", "scripts"})
"""Directories that many wheels contain by mistake."""


def shadowed_modules(packages: Path, libraries: Sequence[str]) -> Iterator[str]:
    """Yield the modules at the top of a directory that Python or the platform has too.

    Workers import the platform's; the author's own environment might import the other one. Parts
    of a namespace package that the platform has parts of are not among them.

    Args:
        packages: The directory.
        libraries: The directories of the platform's libraries.
    """
    for name in sorted(_top_level(packages)):
        if name in sys.stdlib_module_names or name.split("_")[0] == _OURS:
            yield name
        elif name not in _UNIMPORTANT:
            theirs = PathFinder.find_spec(name, list(libraries))
            ours = PathFinder.find_spec(name, [str(packages)])
            if theirs is not None and ours is not None and (theirs.loader or ours.loader):
                yield name


def _top_level(packages: Path) -> Iterator[str]:
    for found in packages.iterdir():
        name = found.name.split(".")[0]
        is_metadata = found.is_dir() and found.suffix in {".dist-info", ".egg-info", ".data"}
        if name.isidentifier() and not is_metadata:
            yield name
