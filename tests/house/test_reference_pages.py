"""`docs/reference` matches the docstrings of the public modules."""

import functools

import pytest

from docs.render_reference import REFERENCE, pages
from tests.cases import every

pytestmark = pytest.mark.slow

rendered = functools.cache(pages)
WRITTEN_BY_OTHERS = {"commands.md", "connectors.md", "rest.md", "expressions.md", "metrics.md"}


@every("name", rendered)
def test_a_page_matches_the_docstrings(name: str) -> None:
    text = (REFERENCE / name).read_text(encoding="utf-8")

    assert text == rendered()[name], "run `python -m docs.render_reference`"


def test_no_page_is_left_over() -> None:
    assert {page.name for page in REFERENCE.glob("*.md")} == {*rendered()} | WRITTEN_BY_OTHERS
