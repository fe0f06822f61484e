"""Which commands of the project, and values of its chart, a page may name."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import typer

from narthex.cli import make_app
from tests.guides.pages import ROOT

CHART: Final = ROOT / "docker" / "helm" / "narthex"


@functools.cache
def program() -> Any:
    """Return the command `narthex`."""
    return typer.main.get_command(make_app())


def unknown_words(words: Sequence[str]) -> Iterator[str]:
    """Yield the command, or the options, that `narthex` does not have; values are not looked at."""
    command, path = program(), []
    rest = [*words]
    options = {option for one in command.params for option in one.opts}
    while rest and hasattr(command, "resolve_command"):
        if rest[0] == "--help":
            return
        if rest[0] in options:
            del rest[:2]
            continue
        path.append(rest.pop(0))
        command = command.get_command(None, path[-1])
        if command is None:
            yield " ".join(path)
            return
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    yield from (
        f"{' '.join(path)} {word}"
        for word in (one.partition("=")[0] for one in rest if one.startswith("-"))
        if word not in known | {"--help", "-h"}
    )


def unknown_values(given: dict[str, Any], known: dict[str, Any], above: str = "") -> list[str]:
    """Return the values of a chart that a file gives and the chart does not have."""
    found: list[str] = []
    for key, value in given.items():
        if key not in known:
            found.append(f"{above}{key}")
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key]:
            found += unknown_values(value, known[key], f"{above}{key}.")
    return found
