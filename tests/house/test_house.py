"""The house rules that no other tool enforces."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
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
    "dags",
    "plugins",
    "stack",
)
MOST_LINES = 535
MOST_MODULES = 20
ONE_TREE = "core/narthex/errors.py"
MIGRATIONS = "ledger/narthex_ledger/db/migrations/versions"
"""One module for each revision: nobody looks for an idea there."""
"""One file contains all errors with their pages, however many there are."""
BANNED_NAMES = {"utils", "common", "helpers", "base", "manager"}
BANNED_WORDS = (
    r"\bDLQ\b",
    r"feature view",
    r"entity dataframe",
    r"\bmaterialize[ds]?\b",
    r"(?<!\[)\bartifact",  # in brackets it is a word of Ivy's patterns
    r"\bhelper",
)
BANNED_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "random"}
SANDBOX = "core/narthex/_runtime/workers"
DAGS = "dags"
RUN_JOB = "plugins/narthex_plugins/spark/run_job.py"
HOSTS = ("pypi.org", "pythonhosted", "maven.org", "maven.apache.org/maven2", "npmjs", "crates.io")


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(
        path
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
    )


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_file_holds_one_idea_and_so_is_short() -> None:
    lengths = {place(p): len(p.read_text(encoding="utf-8").splitlines()) for p in python_files()}

    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES}.keys() <= {
        ONE_TREE
    }


def test_a_folder_has_few_modules() -> None:
    modules = Counter(place(path.parent) for path in python_files())
    del modules[MIGRATIONS]

    assert {folder: n for folder, n in modules.items() if n > MOST_MODULES} == {}


def test_no_module_is_named_for_nothing_in_particular() -> None:
    assert [place(p) for p in python_files() if p.stem in BANNED_NAMES] == []


def test_a_door_to_airflow_has_at_most_sixty_lines_of_logic() -> None:
    lengths = {
        place(p): len(p.read_text(encoding="utf-8").splitlines())
        for p in (ROOT / DAGS).glob("*.py")
    }

    assert {name: lines for name, lines in lengths.items() if lines > 90} == {}


@pytest.mark.parametrize("word", BANNED_WORDS)
def test_one_idea_has_one_word(word: str) -> None:
    found = [
        f"{place(path)}:{number}"
        for path in python_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(word, line, re.IGNORECASE)
    ]

    assert found == []


def imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno


def test_nothing_is_pickled_and_chance_is_an_argument() -> None:
    found = [
        f"{place(path)}:{line} {name}"
        for path in python_files()
        for name, line in imports(tree_of(path))
        if name.split(".")[0] in BANNED_MODULES
    ]

    assert found == []


def test_code_of_authors_runs_only_in_the_sandbox() -> None:
    found = [
        f"{place(path)}:{node.lineno}"
        for path in python_files()
        if not place(path).startswith(SANDBOX)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"exec", "compile", "__import__"}
    ]

    assert found == []


ON_PROC = "spark_apps/narthex_spark_apps/supervision/runner/task_runner.py: write_text"
FORBIDDEN = "core/narthex/_runtime/confinement/seccomp.py: O_TRUNC"
"""One names its process to the kernel, in `/proc`; the other forbids the flag in the sandbox."""


def truncations(tree: ast.Module) -> Iterator[str]:
    """Yield the calls that empty a file which exists."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in {
            "O_TRUNC",
            "write_text",
            "write_bytes",
        }:
            yield node.attr
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
            modes = [*node.args, *(word.value for word in node.keywords if word.arg == "mode")]
            if name == "open" and any(
                isinstance(mode, ast.Constant)
                and isinstance(mode.value, str)
                and re.fullmatch(r"[bt]*w[bt+]*|r[bt]*\+[bt]*", mode.value)
                for mode in modes
            ):
                yield ast.unparse(node)


def test_no_code_writes_into_a_file_that_it_did_not_create() -> None:
    found = {
        f"{place(path)}: {call}" for path in python_files() for call in truncations(tree_of(path))
    }

    assert found == {ON_PROC, FORBIDDEN}


HEAVY = {"watchfiles", "alembic", "deltalake", "great_expectations"}
"""Libraries that most processes never use, imported on first use."""

HEAVY_MODULES = {
    "narthex._aggregates.many_buckets",
    "narthex._base.bracket_depths",
    "narthex_ledger",
    "narthex_server.lineage_events.loop",
    "narthex_stores",
}
"""Modules of this project that import such a library, numpy, Polars or SQLAlchemy; imported on
first use where a process needs none of them."""

COMMANDS = (
    "core/narthex/cli/",
    "expectations/narthex_expectations/answer_summaries.py",
    "expectations/narthex_expectations/audit_command.py",
    "expectations/narthex_expectations/profile_command.py",
    "proving/narthex_proving/prove_command.py",
    "server/narthex_server/security/key_commands.py",
    "spark_apps/narthex_spark_apps/cli/commands.py",
    "spark_apps/narthex_spark_apps/cli/snapshot_commands.py",
    "stack/narthex_stack/cli/commands.py",
)
"""Commands, which import when they run what their help does not need."""


def roots(imported: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(imported, ast.ImportFrom):
        return {(imported.module or "").split(".")[0]}
    return {name.name.split(".")[0] for name in imported.names}


def test_imports_are_at_the_top() -> None:
    found = [
        f"{place(path)}:{inner.lineno}"
        for path in python_files()
        if not place(path).startswith(("dags/", "plugins/", SANDBOX, *COMMANDS))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom) and not roots(inner) <= HEAVY
        if not (isinstance(inner, ast.ImportFrom) and inner.module in HEAVY_MODULES)
    ]

    assert found == []


def test_another_room_is_entered_by_its_front_door() -> None:
    packages = {room: next((ROOT / room).glob("narthex_*"), None) for room in ROOMS}
    names = {path.name for path in packages.values() if path is not None}
    found = [
        f"{place(path)}:{line} {name}"
        for path in python_files()
        for name, line in imports(tree_of(path))
        if name.split(".")[0] in names
        and "." in name
        and name.split(".")[0] not in path.relative_to(ROOT).parts
        and not place(path).startswith((RUN_JOB, f"{DAGS}/"))
    ]

    assert found == []


@cache
def exports(package: str) -> frozenset[str]:
    """The names in `__all__` of a package of the core; empty for a module inside a package."""
    path = ROOT / "core" / package.replace(".", "/") / "__init__.py"
    lists = [
        node.value
        for node in (tree_of(path).body if path.exists() else ())
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return frozenset(name for found in lists for name in ast.literal_eval(found))


def test_other_rooms_enter_the_core_by_its_doors() -> None:
    """A door is a public module, or the `__all__` of a private package."""
    found = [
        f"{place(path)}:{node.lineno} {node.module}.{alias.name}"
        for path in python_files()
        if not place(path).startswith("core/")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("narthex._")
        for alias in node.names
        if alias.name not in exports(node.module or "")
    ]

    assert found == []


def test_no_package_registry_is_named() -> None:
    files = [*python_files(), *(ROOT / "docs").rglob("*.md"), ROOT / "Makefile", ROOT / "README.md"]
    found = [place(p) for p in files for host in HOSTS if host in p.read_text(encoding="utf-8")]

    assert found == []


def test_a_module_that_is_run_as_a_program_is_one() -> None:
    started = {
        module
        for room in (*ROOMS, "tests", "bench", "examples")
        for path in (ROOT / room).rglob("*.py")
        for module in re.findall(r'"-m",\s*"(narthex[\w.]*)"', path.read_text(encoding="utf-8"))
    }

    assert "narthex.cli" in started
    assert {module for module in started if not is_program(module)} == set()


def is_program(module: str) -> bool:
    package = find_spec(f"{module}.__main__") if is_package(module) else find_spec(module)
    if package is None or package.origin is None:
        return False
    text = Path(package.origin).read_text(encoding="utf-8")
    return "if __name__ ==" in text


def is_package(module: str) -> bool:
    found = find_spec(module)
    return found is not None and found.submodule_search_locations is not None


def test_every_decision_has_a_page_with_its_three_parts() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    parts = ("## Context", "## Decision", "## Limits")

    assert pages
    assert [p.name for p in pages if not all(part in p.read_text() for part in parts)] == []


def test_every_decision_that_code_cites_exists() -> None:
    pages = {p.name[:4] for p in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}
    cited = {
        number
        for path in python_files()
        for number in re.findall(r"docs/decisions/(\d{4})", path.read_text(encoding="utf-8"))
    }

    assert cited - pages == set()


AUTHOR_ROOMS = ("core/narthex/_sdk/", "core/narthex/_connectors/", "core/narthex/compat/")
"""An author's class has the name of its record."""

AUTHORED_EXAMPLES = "reference/narthex_reference/conformance/"


def classes_of_rooms() -> Iterator[tuple[str, str]]:
    """Yield the classes at the top of the modules of all rooms: the name, and the file."""
    for path in python_files():
        if place(path).startswith((*AUTHOR_ROOMS, AUTHORED_EXAMPLES)):
            continue
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                yield node.name, place(path)


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, set[str]] = {}
    for name, file in classes_of_rooms():
        places.setdefault(name, set()).add(file)

    assert {name: sorted(files) for name, files in places.items() if len(files) > 1} == {}


_HTTPX = {"get", "post", "put", "patch", "delete", "head", "options", "request", "stream"}


@pytest.mark.slow
def test_calls_of_tests_say_how_long_they_wait() -> None:
    found = [
        f"{place(path)}:{node.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "httpx"
        and node.func.attr in {*_HTTPX, "Client", "AsyncClient"}
        and not {keyword.arg for keyword in node.keywords} & {"timeout", None}
    ]

    assert found == [], "five seconds, the default, are too few on a busy machine"
