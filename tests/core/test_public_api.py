"""The public API is what people have agreed to: a change of it shows as a change of a file."""

import difflib
import importlib
import inspect
import textwrap

import pytest

from docs.public_api import MODULES, Entry, entries
from docs.render_reference import SNAPSHOT, snapshot

DOCUMENTED_ELSEWHERE = {"Expr"}
"""Its methods are in `docs/reference/expressions.md`."""


def test_the_public_api_is_the_one_that_was_agreed_to() -> None:
    agreed = SNAPSHOT.read_text(encoding="utf-8")

    changes = difflib.unified_diff(
        agreed.splitlines(), snapshot().splitlines(), "agreed", "found", lineterm="", n=1
    )

    told = "\n".join(changes)
    assert not told, f"{told}\n\nIf it is meant, run `python -m docs.render_reference`."


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_a_docstring(module: str) -> None:
    silent = [
        name
        for entry in entries(module)
        for name, of in (
            (entry.name, entry),
            *((f"{entry.name}.{one.name}", one) for one in _documented(entry)),
        )
        if not of.doc
    ]

    assert silent == []


def _documented(entry: Entry) -> list[Entry]:
    if entry.name in DOCUMENTED_ELSEWHERE:
        return []
    return [one for one in entry.members if one.kind != "attribute"]


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_describe_existing_parameters_only(module: str) -> None:
    wrong = [
        f"{place}: {name}"
        for entry in entries(module)
        for place, of in ((entry.name, entry), *((one.name, one) for one in entry.members))
        for name in _described(of.doc)
        if name not in _names(of)
    ]

    assert wrong == []


def _described(doc: str) -> list[str]:
    """Return the parameters that a docstring's `Args` is about."""
    _, found, after = doc.partition("Args:\n")
    block = after.split("\n\n")[0] if found else ""
    lines = textwrap.dedent(block).splitlines()
    return [line.split(":")[0].lstrip("*") for line in lines if line and not line.startswith(" ")]


def _names(entry: Entry) -> set[str]:
    return {one.split(":")[0].split("=")[0].lstrip("*") for one in entry.parameters or ()}


@pytest.mark.parametrize("module", MODULES)
def test_parameters_are_those_that_calls_take(module: str) -> None:
    found = importlib.import_module(module)
    differing = []
    for entry in entries(module):
        value = getattr(found, entry.name)
        if entry.parameters is None or not callable(value):
            continue
        names = {one for one in _names(entry) if one not in {"", "/"}}
        if names != set(inspect.signature(value).parameters):
            differing.append(entry.name)

    assert differing == []
