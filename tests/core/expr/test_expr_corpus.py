"""Expressions match the table, by row and by column."""

import polars as pl

from narthex._expr.functions import FUNCTIONS, Nulls
from narthex._expr.polars.columns import cells_of, series_of
from narthex._expr.polars.evaluation import evaluate as evaluate_columns
from narthex._expr.python import evaluate
from narthex._expr.typing import infer
from narthex._ir.expression_nodes import Call, Ref
from narthex._ir.types import Optional, optional
from tests.cases import every
from tests.core.expr.expr_corpus import CORPUS, NOW, Case, same_cell
from tests.core.expr.expr_nodes import parts_of


@every("one", CORPUS, ids=lambda one: one.name)
def test_rows_match_the_table(one: Case) -> None:
    found = evaluate(one.written.node, one.row, one.types, now_us=NOW)

    assert same_cell(found, one.gives), found


@every("one", CORPUS, ids=lambda one: one.name)
def test_columns_match_the_table_on_every_row(one: Case) -> None:
    columns = [series_of(name, [cell] * 3, one.types[name]) for name, cell in one.row.items()]
    frame = pl.DataFrame([pl.Series("row", [0, 1, 2]), *columns])

    series = evaluate_columns(one.written.node, frame, one.types, NOW)

    found = cells_of(series, infer(one.written.node, one.types))
    assert len(found) == 3
    assert all(same_cell(cell, one.gives) for cell in found), found


def test_the_table_has_every_function_and_every_way_to_be_undefined() -> None:
    defined = {name for one in CORPUS if one.gives is not None for name in called(one)}
    undefined = {name for one in CORPUS if one.gives is None for name in called(one)}

    assert set(FUNCTIONS) - defined == set()
    assert {name for name, one in FUNCTIONS.items() if one.undefined} - undefined <= PARTS


def called(one: Case) -> set[str]:
    return {part.function for part in parts_of(one.written.node) if isinstance(part, Call)}


PARTS = {name for name in FUNCTIONS if name.startswith("dt.")} | {"num.cos", "num.tan"}
"""Undefined cases, one for each reason: beyond the years, or at infinity."""

NULLABLE = [
    one
    for one in CORPUS
    if isinstance(one.written.node, Call)
    and FUNCTIONS[one.written.node.function].nulls is Nulls.PROPAGATE
    and any(isinstance(part, Ref) for part in one.written.node.arguments)
]


@every("one", NULLABLE, ids=lambda one: one.name)
def test_null_in_is_null_out(one: Case) -> None:
    node = one.written.node
    assert isinstance(node, Call)
    for name in {part.name for part in node.arguments if isinstance(part, Ref)}:
        types = {**one.types, name: optional(one.types[name])}
        row = {**one.row, name: None}
        frame = pl.DataFrame(
            [series_of(known, [cell], types[known]) for known, cell in row.items()]
        )

        assert evaluate(node, row, types, now_us=NOW) is None
        assert evaluate_columns(node, frame, types, NOW).to_list() == [None]
        assert isinstance(infer(node, types), Optional)
