"""Paths into JSON: `$`, then members `.name` or `['name']`, items `[0]` or `[-1]`, and `[*]`."""

import functools
import re
from collections.abc import Iterator
from typing import TypeAlias

import attrs

from narthex._base.records import Json


class PathError(ValueError):
    """A path that cannot be parsed."""


@attrs.frozen
class Every:
    """`*`: each member of an object, each item of a list."""


PathStep: TypeAlias = str | int | Every

_STEP = re.compile(
    r"""
    \.(?P<name>[^.\[\]'"*\s]+)
    | \[\s*(?P<index>-?[0-9]{1,9})\s*\]
    | \[\s*'(?P<single>[^']*)'\s*\]
    | \[\s*"(?P<double>[^"]*)"\s*\]
    | (?P<every>\.\*|\[\s*\*\s*\])
    """,
    re.VERBOSE,
)


@functools.lru_cache(maxsize=1024)
def parse_path(path: str) -> tuple[PathStep, ...]:
    """Parse a path into its steps; the root `$` alone has none.

    Raises:
        PathError: It does not begin with `$`, or has a part other than those above.
    """
    if not path.startswith("$"):
        raise PathError(f"path {path!r} does not begin with `$`")
    steps: list[PathStep] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise PathError(
                f"path {path!r} cannot be read at {path[at:]!r}; "
                "steps are `.name`, `['name']`, `[0]`, `[-1]` and `[*]`"
            )
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> PathStep:
    match found.lastgroup:
        case "index":
            return int(found["index"])
        case "every":
            return Every()
        case group:
            return str(found[group or "name"])


def find(said: Json, steps: tuple[PathStep, ...]) -> Iterator[Json]:
    """Yield every value that a path selects, in document order."""
    if not steps:
        yield said
        return
    for below in _below(said, steps[0]):
        yield from find(below, steps[1:])


def _below(said: Json, step: PathStep) -> list[Json]:
    match step, said:
        case str(), dict():
            return [said[step]] if step in said else []
        case int(), list():
            return [said[step]] if -len(said) <= step < len(said) else []
        case Every(), dict():
            return list(said.values())
        case Every(), list():
            return said
        case _:
            return []
