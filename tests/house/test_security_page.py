"""Every promise of the security page names a test that exists, in the file that it names."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.house.test_house import ROOT

pytestmark = pytest.mark.slow

PAGE: Final = ROOT / "docs" / "security.md"
_TEST: Final = re.compile(r"\btest_[a-z0-9_]+")
_IN_FILE: Final = re.compile(r"`(?P<file>[\w/]*\btest_\w+\.py)?(?:::(?P<test>test_\w+))?")


@cache
def names_of_tests(path: Path) -> frozenset[str]:
    """Return the names of the tests of a file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def misplaced(text: str) -> Iterator[str]:
    """Yield each test that is not in the file that a text names before `::`, and missing files.

    A name that begins with `::` is in the file that was named last.
    """
    files, last = sorted((ROOT / "tests").rglob("test_*.py")), ""
    for found in _IN_FILE.finditer(text):
        last = found["file"] or last
        if not (found["file"] or found["test"]):
            continue
        ends = last.removeprefix("tests/")
        fitting = [path for path in files if path.as_posix().endswith(f"/tests/{ends}")]
        if not last.startswith("tests/"):
            fitting = [path for path in files if path.as_posix().endswith(f"/{last}")]
        if not fitting:
            yield f"{last} does not exist"
        elif found["test"] and not any(found["test"] in names_of_tests(path) for path in fitting):
            yield f"{last} has no {found['test']}"


def test_every_test_that_the_page_names_exists() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    known = {path.stem for path in files}.union(*map(names_of_tests, files))
    named = set(_TEST.findall(PAGE.read_text(encoding="utf-8")))

    assert len(named) > 50
    assert sorted(named - known) == []


def test_every_test_is_in_the_file_that_the_page_names() -> None:
    assert list(misplaced(PAGE.read_text(encoding="utf-8"))) == []


def test_a_test_of_another_file_is_found() -> None:
    text = (
        "`tests/house/test_security_page.py::test_a_test_of_another_file_is_found`, `::test_x`, "
        "`test_no.py`, `test_house.py::test_one_idea_has_one_word`, `tests/test_house.py`"
    )

    assert list(misplaced(text)) == [
        "tests/house/test_security_page.py has no test_x",
        "test_no.py does not exist",
        "tests/test_house.py does not exist",
    ]
