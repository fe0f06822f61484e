"""Every example of the guide and the README runs.

A block marked `python` is a whole file that an author could commit. Blocks marked `py` run in their
order, as one file per page, and their tests are called. A block marked `csv NAME` or `json NAME` is
a file beside it. A block `text output` after them is what they print. Blocks that need a platform
have the mark `py platform`, and are counted here. `tests/guides/pages.py` lists the marks of
commands. Blocks marked `pycon` are those of `docs/examples`, which doctest runs.
"""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from narthex.cli.projects.author_files import load_file
from narthex.errors import render_report
from tests.guides.pages import PAGES, blocks, place, sessions

pytestmark = pytest.mark.slow

NEED_THE_PLATFORM = {"docs/guide/quickstart.md": 1, "docs/guide/training.md": 5}
_FILE = re.compile(r"(?:csv|json) (\w+\.\w+)")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def whole_files() -> list[object]:
    return [
        pytest.param("\n" * block.line + block.text, id=block.place)
        for page in PAGES
        for block in blocks(page, "python")
    ]


def as_one_file(page: Path) -> str:
    """Join the blocks that run, each at its own line numbers."""
    text = ""
    for block in blocks(page, "py"):
        text += "\n" * (block.line - text.count("\n")) + block.text
    return text


def shown_output(page: Path) -> str:
    """Return what the blocks that run print, as the page shows it after each of them."""
    return "".join(shown or "" for _, shown in sessions(page, "py"))


def pages_that_run() -> list[object]:
    return [pytest.param(page, id=place(page)) for page in PAGES if blocks(page, "py")]


@pytest.mark.parametrize("code", whole_files())
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


def write_files_of(page: Path, directory: Path) -> None:
    """Write the files that a page shows."""
    for block in blocks(page):
        if found := _FILE.fullmatch(block.mark):
            (directory / found[1]).write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("page", pages_that_run())
def test_the_examples_of_a_page_run_one_after_the_other(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"page_{re.sub(r'[^a-z]', '_', page.stem)}"
    file = tmp_path / f"{name}.py"
    file.write_text(as_one_file(page), encoding="utf-8")
    write_files_of(page, tmp_path)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "features", module)  # what a reader saves as a file of its own
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])  # what an example installs ends here

    spec.loader.exec_module(module)
    for test, call in list(vars(module).items()):
        if test.startswith("test_"):
            call()
    printed = capsys.readouterr().out
    if shown := shown_output(page):
        assert trimmed(printed) == trimmed(shown)


def trimmed(text: str) -> list[str]:
    """Return lines without the spaces at their ends, which editors remove."""
    return [line.rstrip() for line in text.splitlines()]


def test_examples_that_need_the_platform_are_python_and_few() -> None:
    found = {place(page): [block.text for block in blocks(page, "py platform")] for page in PAGES}

    assert {name: len(codes) for name, codes in found.items() if codes} == NEED_THE_PLATFORM
    assert all(ast.parse(code).body for codes in found.values() for code in codes)


def test_every_block_of_python_is_marked_as_one_that_runs_or_cannot() -> None:
    known = {"python", "py", "py platform", "text", "text output", "toml", "yaml", "json", "sql"}
    known |= {"", "mermaid", "py fragment", "pycon"}
    marks = {
        f"{block.place}: {block.mark}"
        for page in PAGES
        for block in blocks(page)
        if block.mark not in known
        and not block.mark.startswith("sh")  # tests/guides/test_marks.py judges these
        and not _FILE.fullmatch(block.mark)
    }

    assert marks == set()


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{place(page)}: {target}"
        for page in PAGES
        for target in _LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []
