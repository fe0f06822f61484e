"""Which commands, settings, wheels and values of the project a page may name."""

import functools
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import typer

from narthex.cli import make_app
from narthex.settings import Settings
from narthex_stack.install.config import FIELDS
from tests.guides.pages import ROOT
from tests.house.test_house import python_files

CHART: Final = ROOT / "docker" / "helm" / "narthex"
_SETTING: Final = re.compile(r"[\"'](NARTHEX_[A-Z_]+[A-Z])[\"']")
_TARGET: Final = re.compile(r"^([a-z-]+):(?!=)", re.MULTILINE)


@functools.cache
def program() -> Any:
    """Return the command `narthex`."""
    return typer.main.get_command(make_app())


def parse(words: Sequence[str]) -> None:
    """Parse a command line of `narthex`, without its first word, and carry out nothing.

    Raises:
        UsageError: There is no such command or option, a value is missing or does not fit.
    """
    command, name, rest, parent = program(), "narthex", [*words], None
    while True:
        context = command.make_context(name, rest, parent=parent)
        if not hasattr(command, "resolve_command"):
            return
        # The words that a group leaves to its commands are kept apart from those it parses.
        left = [*context._protected_args, *context.args]  # noqa: SLF001
        if not left and command.invoke_without_command:
            return
        name, command, rest = command.resolve_command(context, left)
        parent = context


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


@functools.cache
def make_targets() -> frozenset[str]:
    """Return what `make` builds."""
    return frozenset(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))


@functools.cache
def settings() -> frozenset[str]:
    """Return the variables of the environment that the project's code reads."""
    read = {name for path in python_files() for name in _SETTING.findall(path.read_text("utf-8"))}
    fields = {*(one.name for one in attrs.fields(Settings)), *FIELDS}
    return frozenset({*read, *(f"NARTHEX_{field.upper()}" for field in fields)})


@functools.cache
def wheels() -> frozenset[str]:
    """Return the names of our wheels, as names of files begin with them."""
    projects = [ROOT / "pyproject.toml", *sorted((ROOT / "wheels").glob("*/pyproject.toml"))]
    names = [tomllib.loads(one.read_text(encoding="utf-8"))["project"]["name"] for one in projects]
    return frozenset(name.replace("-", "_") for name in names)


def unknown_values(given: dict[str, Any], known: dict[str, Any], above: str = "") -> list[str]:
    """Return the values of a chart that a file gives and the chart does not have."""
    found: list[str] = []
    for key, value in given.items():
        if key not in known:
            found.append(f"{above}{key}")
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key]:
            found += unknown_values(value, known[key], f"{above}{key}.")
    return found
