"""Check the table of expressions, on rows and on columns."""

import polars as pl

from narthex._expr.polars.columns import cells_of, series_of
from narthex._expr.polars.evaluation import evaluate as evaluate_columns
from narthex._expr.python import evaluate
from narthex._expr.typing import infer
from tests.core.expr.expr_corpus import CORPUS, NOW, Case, same_cell


def holds_on_rows(one: Case) -> bool:
    return same_cell(evaluate(one.written.node, one.row, one.types, now_us=NOW), one.gives)


def holds_on_columns(one: Case) -> bool:
    columns = [series_of(name, [cell], one.types[name]) for name, cell in one.row.items()]
    frame = pl.DataFrame([pl.Series("row", [0]), *columns])
    series = evaluate_columns(one.written.node, frame, one.types, NOW)
    found = cells_of(series, infer(one.written.node, one.types))
    return all(same_cell(cell, one.gives) for cell in found)


def fails(one: Case) -> bool:
    try:
        return not (holds_on_rows(one) and holds_on_columns(one))
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 (a bug may also break)
        return True


def corpus_failed() -> str | None:
    """Evaluate the table; return the first case that does not hold, None where all do."""
    return next((repr(one) for one in CORPUS if fails(one)), None)
