"""`docs/reference` matches the docstrings of the public modules."""

import pytest

from docs.render_reference import REFERENCE, pages

PAGES = pages()
WRITTEN_BY_OTHERS = {"commands.md", "connectors.md", "rest.md", "expressions.md", "metrics.md"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_matches_the_docstrings(name: str) -> None:
    text = (REFERENCE / name).read_text(encoding="utf-8")

    assert text == PAGES[name], "run `python -m docs.render_reference`"


def test_no_page_is_left_over() -> None:
    assert {page.name for page in REFERENCE.glob("*.md")} == {*PAGES} | WRITTEN_BY_OTHERS
