"""Every promise of the security page names a test that exists."""

import ast
import re

from tests.house.test_house import ROOT

PAGE = ROOT / "docs" / "security.md"
_TEST = re.compile(r"\btest_[a-z0-9_]+")


def test_every_test_that_the_page_names_exists() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    known = {path.stem for path in files} | {
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    named = set(_TEST.findall(PAGE.read_text(encoding="utf-8")))

    assert len(named) > 50
    assert sorted(named - known) == []
