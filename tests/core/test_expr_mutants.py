"""The table of expressions catches bugs: each that is seeded fails it."""

import polars as pl
import pytest

from narthex.evaluate.columns import cells_of, series_of
from narthex.evaluate.expressions import evaluate as evaluate_columns
from narthex.expr.plain import evaluate
from narthex.expr.typing import infer
from tests.core.expr_corpus import CORPUS, NOW, Case, same_cell
from tests.core.mutants_expr import MUTANTS, Mutant


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
    except Exception:  # noqa: BLE001 (a bug may also break)
        return True


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_seeded_bug_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.put_in(monkeypatch)

    assert any(fails(one) for one in CORPUS)


def test_without_a_bug_the_table_holds() -> None:
    assert not any(fails(one) for one in CORPUS)
