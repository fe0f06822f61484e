"""Parts of code that a page shows are Python, and import what exists."""

import ast
import importlib
import textwrap
from collections.abc import Iterator

import pytest

from tests.guides.pages import PAGES, ROOT, Block, blocks

pytestmark = pytest.mark.slow

PLUGINS = "narthex_plugins"


def imported(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules of ours that a fragment imports from, with the names."""
    tree = ast.parse(textwrap.dedent(block.text))
    assert tree.body
    for node in tree.body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                if module.partition(".")[0] in {"narthex", PLUGINS}:
                    yield module, [one.name for one in names]


def names_of(module: str) -> set[str]:
    """Return what a module has; one beside Airflow is read and not imported."""
    if not module.startswith(PLUGINS):
        return set(dir(importlib.import_module(module)))
    path = ROOT / "plugins" / f"{module.replace('.', '/')}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.ClassDef | ast.FunctionDef)}


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks(page, "py fragment")],
    ids=lambda block: block.place,
)
def test_a_fragment_imports_what_exists(block: Block) -> None:
    for module, names in imported(block):
        assert {*names} <= names_of(module)
