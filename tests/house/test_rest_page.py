"""The page of the REST API is written from the routes."""

import pytest

from docs.render_rest import PAGE, render

pytestmark = pytest.mark.slow


def test_the_page_is_what_the_routes_declare() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `python -m docs.render_rest`"
