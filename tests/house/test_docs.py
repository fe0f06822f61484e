"""Every example of the guide is a file that an author could commit."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from narthex.author_files import load_file
from narthex.errors import render_report

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
DOCS = GUIDE.parent
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Give each block of a language with its place, at its own line numbers."""
    for page in sorted(GUIDE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in _BLOCK.finditer(text):
            if block[1] == language:
                line = text.count("\n", 0, block.start(2))
                yield f"{page.name}:{line + 1}", "\n" * line + block[2]


def named(language: str) -> list[object]:
    return [pytest.param(code, id=place) for place, code in blocks(language)]


@pytest.mark.parametrize("code", named("python"))
def test_an_example_is_sound(
    code: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = re.sub(r"\W", "_", request.node.callspec.id)
    file = tmp_path / f"{name}.py"
    file.write_text(code, encoding="utf-8")
    monkeypatch.setitem(sys.modules, name, None)

    found = load_file(file)

    assert render_report(found.check()) == ""
    assert [*found.datasets, *found.featuresets]


@pytest.mark.parametrize("code", named("py"))
def test_an_example_that_needs_the_platform_is_python(code: str) -> None:
    assert ast.parse(code).body


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in DOCS.rglob("*.md")
        for target in _LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []
