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
    "proving",
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
    "keeper": "operator",
    "keepers": "operators",
    "tether": "die_with_parent",
    "tethered": "dying_with_parent",
    "judged": "checked",
    "story": "log, or output",
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
    r"\bplain evaluator\b": "Python backend",
    r"\bsign of life\b": "heartbeat",
    r"\btaken back\b": "retracted, or reverted",
    r"\basked for new rows\b": "polled",
    r"\bunder way\b": "in flight, or pending",
    r"\bset aside\b": "quarantined",
}
"""Refused words of pages, docstrings, help texts, templates and SQL, and their replacements."""

HABITS = {
    r"(?:^|[.;] )(?:Who|Whom|Whoever|Whatever)\b(?![^.]*\?)": "a subject, such as `the job`",
    r"^What\b(?![^.]*\?)": "the noun, such as `The rows`",
    r"\b(?:to|by|for|of|from|with|than) (?:whoever|whomever)\b": "the noun",
    r"\bin vain\b|\bas (?:it|they) (?:is|are) meant\b": "what happens",
    r"(?<![Tt]here )(?<!if )\b(?:is|are|was|were) no "
    r"(?!longer|more|later|less|such|further|other)": "`is not a`, or the verb",
    r"\b(?:stands|stood) (?!for\b)": "is stored, exists, or is current",
    r"\b(?:tells?|told) (?:of|apart|when|how|what|who|whether|that|until)\b": "report, distinguish",
    r"\b(?:is|are|was|were|be) told\b": "is reported, is emitted",
    r"\b(?:says|said) (?:of|how|what|who|whose|whether|which|so)\b": "the verb, such as `returns`",
    r"\b(?:buries|buried)\b": "reclaims",
    r"\b[Nn]obody (?:has|is|else|knows|asks|asked|reads|serves)\b": "the subject that does not",
    r"\bas [`{}a-z_ ]+ says\b|\bwhat [a-z` ]+ says\b": "`matches`, or `follows`",
}
"""Sentences that read as if translated, and what to write instead: subject, verb, object."""

POETRY = re.compile(
    r"_(?:told|tells|stands|stood|nobody|whoever|whatever|whom|says|said|taken_back|is_no|are_no"
    r"|goes_on|lets_go|let_go|kept_as|lives)(?:_|$)|^test_(?:what|who)_(?!is_promotable|is_not_pro)"
)
"""What names of tests do not have: a test is named after the behaviour that it checks."""

CLASSES = {
    "Also",
    "Asker",
    "Beside",
    "Fate",
    "Foretold",
    "Held",
    "Judged",
    "Life",
    "Look",
    "Plant",
    "Says",
    "Seam",
    "Told",
    "Wanted",
}
"""Refused names of classes of tests and benches: they do not name the thing."""

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
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.name.endswith("_pb2.py") and "migrations/versions" not in str(path)
    )


@cache
def prose_files() -> tuple[Path, ...]:
    """Return all files with texts that people read: the rooms, pages, examples, benches, tests."""
    rooms = ("bench", "examples", "docs", "tests")
    others = (path for room in rooms for path in sorted((ROOT / room).rglob("*.py")))
    return (*python_files(), *(path for path in others if path != Path(__file__)))


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


@cache
def places_of_names() -> dict[str, list[str]]:
    """Return where each name of the product is given."""
    places: dict[str, list[str]] = {}
    for path in python_files():
        for name, line in bound_names(tree_of(path)):
            places.setdefault(name, []).append(f"{place(path)}:{line}")
    return places


@pytest.mark.parametrize("word", NAMES)
def test_no_name_has_a_word_that_was_replaced(word: str) -> None:
    found = [
        f"{where}: write `{NAMES[word]}`"
        for name, places in places_of_names().items()
        if is_refused(name, word)
        for where in places
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
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md")
    yield from (ROOT / name for name in names)
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
        for text, line in sentences(path)
        if pattern.search(text)
    ]
    found += [
        f"{place(path)}:{number}: write `{TEXTS[word]}`"
        for path in pages()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []


@cache
def sentences(path: Path) -> tuple[tuple[str, int], ...]:
    return tuple(prose_of(path))


def prose_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the prose of a file: strings and docstrings, or lines without code."""
    if path.suffix == ".py":
        for text, line in strings(tree_of(path)):
            prose = " ".join(text.split())
            if " " in prose:
                yield prose, line
        return
    is_code = False
    for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        is_code ^= row.startswith("```")
        if not is_code:
            yield row.lstrip("-*| "), number


ANY_HABIT = re.compile("|".join(f"(?:{habit})" for habit in HABITS))


def habits_of(text: str) -> list[str]:
    if ANY_HABIT.search(text) is None:
        return []
    return [advice for habit, advice in HABITS.items() if re.search(habit, text)]


def test_no_sentence_has_a_habit_that_was_dropped() -> None:
    found = [
        f"{place(path)}:{line}: write {advice}: {text[:80]}"
        for path in (*prose_files(), *pages())
        for text, line in sentences(path)
        for advice in habits_of(text)
    ]

    assert found == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Who waited in vain leaves that to the next call.",
        "What becomes of a row.",
        "This is no route whose door can be closed.",
        "Return the rows that stood then.",
        "Mistakes are told together.",
        "A job that tells of its rows.",
        "Run it as its definition says.",
    ],
)
def test_a_dropped_habit_is_found(sentence: str) -> None:
    assert habits_of(sentence) != []


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no secret `a`.",
        "Which rows are late?",
        "The name stands for the branch.",
        "Return the broker that a job reads from.",
    ],
)
def test_a_plain_sentence_passes(sentence: str) -> None:
    assert habits_of(sentence) == []


def test_names_of_tests_are_sentences_about_behaviour() -> None:
    found = [
        f"{place(path)}:{node.lineno}: {node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and POETRY.search(node.name)
        if node.name.startswith("test_")
    ]

    assert found == []


def test_no_class_has_a_private_name() -> None:
    found = [
        f"{place(path)}:{node.lineno}: {node.name}"
        for path in prose_files()
        if place(path).startswith(("tests/", "bench/"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and node.name.strip("_") in CLASSES
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
        for path in prose_files()
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
