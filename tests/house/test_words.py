"""One idea has one word, and it is the field's word.

Names, help texts, SQL, templates and pages are searched for words that were replaced. The list
grows whenever a reader stumbles over a word; docs/glossary.md has the words that are used.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    "core",
    "ledger",
    "stores",
    "spark_apps",
    "expectations",
    "reference",
    "server",
    "plugins",
    "stack",
)

NAMES = {
    "asker": "principal",
    "askers": "principals",
    "sight": "visibility",
    "bill": "builder",
    "admitter": "row_parser",
    "tips": "end_offsets",
    "rehearse": "dry_run",
    "withdraw": "revert",
    "condemn": "force_destroy",
    "foretell": "preview",
    "faded": "decayed",
    "seam": "fault_hook",
    "bury": "reclaim_slots",
    "buried": "reclaimed",
    "former": "the supervisor lock",
    "tend": "reconcile",
    "banked": "retained",
    "work_off": "drain",
    "open_sea": "no_faults",
    "why_waiting": "commit_blockers",
    "each_after": "in_dependency_order",
    "held_by_name": "assets_by_dataset",
    "carry_on": "reuse_logs",
    "kept_for": "state_requirements",
    "render_trust": "render_lease",
    "asked_source": "polling_source",
    "kept_answers": "logged_queries",
    "Asking": "LookupBatch",
    "KeptAnswer": "LoggedQuery",
    "KeptFor": "StateRequirement",
    "KeptChild": "ChildProcess",
    "LeftOut": "FilteredRow",
    "LivingFolds": "IntervalFolds",
    "Playback": "HistoricalLookup",
    "Wish": "PlanRequest",
    "Driving": "Commits",
    "Controlling": "Tokens",
}
"""A refused word, which may be a part of a name, and what to write instead."""

TEXTS = {
    r"\baskers?\b": "principal, or client",
    r"\bkept answers?\b": "logged query",
    r"\bkept child\b": "child process",
    r"\basked sources?\b": "polling source",
    r"\bwork(s|ed|ing)? off\b": "drain",
    r"\blook-ups?\b": "lookup",
    r"\bthe bank\b": "the assets",
    r"\bformer li(fe|ves)\b": "the previous supervisor",
}
"""Refused words of pages, docstrings, help texts, templates and SQL, and their replacements."""

EVENTS = {
    "former_life_buried",
    "trust_ran_out",
    "narthex_kept_answers",
    "answer_not_kept",
    "child_said_something_else",
    "child_fell_silent",
}
"""Log events and metrics that were renamed."""

MIRRORS = {
    "Branch",  # one `when(…).then(…)` of an expression; a branch of a unit test's client
    "Clock",  # of the platform; of a unit test's client, which authors name
    "MockClient",  # in-process; with what Fennel's did besides
}
"""Names of public classes that a second room has too, for the reason beside them."""

AUTHORS = re.compile(r"/(declare|_sdk|_connectors|conformance|expr)/|/annotations\.py$")
"""Where classes are named as authors name them: each mirrors the record that it declares."""

IMPLIED = {"work_off", "carry_on", "kept_for"}
"""Names that are refused only as a whole: their words are common."""


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(
        path
        for room in (*ROOMS, "dags")
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.name.endswith("_pb2.py") and "migrations/versions" not in str(path)
    )


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def bound_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield names that a module gives to things: what it imports was named elsewhere."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, node.lineno
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def is_refused(name: str, word: str) -> bool:
    if word in IMPLIED or not word.islower():
        return name.strip("_") == word
    return re.search(rf"(?:^|_){word}(?:_|$)", name.lower()) is not None


def refused_names(tree: ast.Module, word: str) -> list[int]:
    return [line for name, line in bound_names(tree) if is_refused(name, word)]


@pytest.mark.parametrize("word", NAMES)
def test_no_name_has_a_word_that_was_replaced(word: str) -> None:
    found = [
        f"{place(path)}:{line}: write `{NAMES[word]}`"
        for path in python_files()
        for line in refused_names(tree_of(path), word)
    ]

    assert found == []


def test_a_refused_name_is_found() -> None:
    tree = ast.parse("def sight_of(asker: str) -> None:\n    seam = asker\n")

    assert refused_names(tree, "sight") == [1]
    assert refused_names(tree, "asker") == [1]
    assert refused_names(tree, "seam") == [2]
    assert refused_names(ast.parse("insight = 1"), "sight") == []


def pages() -> Iterator[Path]:
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.html"))


def strings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield docstrings, help texts, messages and SQL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno


@pytest.mark.parametrize("word", TEXTS)
def test_no_text_has_a_word_that_was_replaced(word: str) -> None:
    pattern = re.compile(word, re.IGNORECASE)
    found = [
        f"{place(path)}:{line}: write `{TEXTS[word]}`"
        for path in python_files()
        for text, line in strings(tree_of(path))
        if pattern.search(" ".join(text.split()))
    ]
    found += [
        f"{place(path)}:{number}: write `{TEXTS[word]}`"
        for path in pages()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []


def test_no_event_or_metric_has_its_old_name() -> None:
    found = [
        f"{place(path)}:{line}: `{text}`"
        for path in python_files()
        for text, line in strings(tree_of(path))
        if text in EVENTS
    ]

    assert found == []


def test_no_docstring_begins_with_give() -> None:
    found = [
        f"{place(path)}:{getattr(node, 'lineno', 1)}"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and re.match(r"Gives?\b", ast.get_docstring(node) or "")
    ]

    assert found == []


def test_one_class_name_means_one_thing() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in python_files():
        if AUTHORS.search(str(path)):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(place(path))
    found = {name: sorted(where) for name, where in places.items() if len(where) > 1}

    assert {name: where for name, where in found.items() if name not in MIRRORS} == {}
