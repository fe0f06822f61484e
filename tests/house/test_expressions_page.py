"""`docs/reference/expressions.md` matches the definitions, and its examples hold."""

import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from narthex._expr.functions import EXAMPLE, EXAMPLE_NOW_US, FUNCTIONS
from narthex._expr.polars.columns import cells_of, series_of
from narthex._expr.polars.evaluation import evaluate as evaluate_columns
from narthex._expr.typing import infer
from narthex._ir.expression_nodes import Call
from tests.cases import every
from tests.core.expr.expr_corpus import same_cell
from tests.core.expr.expr_nodes import parts_of

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "render_expressions.py"))


def test_the_page_matches_the_definitions(page: dict[str, Any]) -> None:
    text = (DOCS / "reference" / "expressions.md").read_text(encoding="utf-8")

    assert text == page["render"](), "run `python -m docs.render_expressions`"


@every("name", FUNCTIONS)
def test_an_example_uses_its_function_and_columns_match_the_page(
    name: str, page: dict[str, Any]
) -> None:
    node = page["written_example"](FUNCTIONS[name])
    frame = pl.DataFrame([series_of(column, [cell], of) for column, (of, cell) in EXAMPLE.items()])
    schema = {column: of for column, (of, _) in EXAMPLE.items()}

    series = evaluate_columns(node, frame, schema, EXAMPLE_NOW_US)

    assert name in {part.function for part in parts_of(node) if isinstance(part, Call)}
    assert same_cell(cells_of(series, infer(node, schema))[0], page["result"](node))
