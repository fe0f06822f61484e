"""Every error has its own code, and `docs/errors.md` matches the classes."""

import runpy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from narthex.errors import NarthexError, catalogue
from narthex_ledger import LedgerError

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROOTS = (NarthexError, LedgerError)


@pytest.fixture(scope="module")
def render() -> Callable[[], str]:
    module: dict[str, Any] = runpy.run_path(str(DOCS / "render_errors.py"))
    found: Callable[[], str] = module["render"]
    return found


def descendants(cls: type[Exception]) -> list[type[Exception]]:
    return [cls, *(lower for child in cls.__subclasses__() for lower in descendants(child))]


def of_the_product(cls: type[Exception]) -> bool:
    return cls.__module__.split(".")[0] in {"narthex", "narthex_ledger"}


def test_the_page_matches_the_docstrings(render: Callable[[], str]) -> None:
    page = (DOCS / "errors.md").read_text(encoding="utf-8")

    assert page == render(), "run `python -m docs.render_errors`"


def test_no_two_errors_share_a_code() -> None:
    owned = Counter(
        vars(cls)["code"]
        for root in ROOTS
        for cls in descendants(root)
        if "code" in vars(cls) and of_the_product(cls)
    )

    assert [code for code, owners in owned.items() if owners > 1] == []


def test_every_error_has_a_remedy(render: Callable[[], str]) -> None:
    sections = render().split("\n### ")[1:]
    whole = {"NX000", "NX100", "NX950", "NX1100"}
    silent = [section.split("\n")[0] for section in sections if "**Instead:**" not in section]

    assert [title for title in silent if title.split()[0] not in whole] == []


def test_the_tree_at_the_top_of_the_file_names_every_error() -> None:
    text = (DOCS.parent / "core" / "narthex" / "errors.py").read_text(encoding="utf-8")
    tree = text.split('"""')[1]
    leaves = [cls for cls in catalogue().values() if not cls.__subclasses__()]

    assert [cls.__name__ for cls in leaves if f"{cls.__name__} " not in tree] == []
    assert [cls.code for cls in leaves if cls.code not in tree] == []
