"""Each evaluator of expressions gives what plain Python gives, and types never lie."""

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narthex._expr.functions import FUNCTIONS
from narthex._expr.polars.columns import cells_of, frame_of, series_of
from narthex._expr.polars.evaluation import evaluate as evaluate_columns
from narthex._expr.python import evaluate, prepare
from narthex._expr.typing import fit, infer, is_total, references
from narthex._ir.expression_nodes import Call, Literal, Node, Ref
from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Decimal, List, Map, Optional, Struct, optional
from tests.core.expr.expr_corpus import same_cell
from tests.core.expr.expr_questions import (
    BOOL,
    DAY,
    FLOAT,
    INT,
    MONEY,
    NOW_US,
    POINT,
    SCHEMA,
    STR,
    TIME,
    Question,
    call,
    cells,
    expressions,
    leaf,
    questions,
    special,
    with_rows,
)


def fits(cell: Cell, of: DataType) -> bool:
    match of, cell:
        case Optional(), None:
            return True
        case Optional(), _:
            return fits(cell, of.of)
        case List(), tuple():
            return all(fits(item, of.of) for item in cell)
        case Map(), dict():
            return all(fits(item, of.of) for item in cell.values())
        case Struct(), dict():
            return all(fits(cell[field.name], field.type) for field in of.fields)
        case _:
            return fits_scalar(cell, of)


def fits_scalar(cell: Cell, of: DataType) -> bool:
    wanted = {FLOAT: float, BOOL: bool, STR: str}.get(of, int)
    limit = 10**28 if isinstance(of, Decimal) else 2**63
    return type(cell) is wanted and (type(cell) is not int or -limit <= cell < limit)


quick = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@quick
@given(questions)
def test_columns_give_what_rows_give(question: Question) -> None:
    node, given_rows = question
    prepared = prepare(node, SCHEMA)
    wanted = [prepared(row, NOW_US) for row in given_rows]
    used = {name: SCHEMA[name] for name in sorted(references(node))}
    columns = {name: [row[name] for row in given_rows] for name in used}
    frame = pl.DataFrame({"row": range(len(given_rows))}).with_columns(
        series_of(name, column, SCHEMA[name]) for name, column in columns.items()
    )

    found = cells_of(evaluate_columns(node, frame, SCHEMA, NOW_US), infer(node, SCHEMA))

    assert len(found) == len(wanted)
    assert all(map(same_cell, found, wanted)), (found, wanted)


@quick
@given(questions)
def test_a_value_is_of_the_type_that_was_inferred(question: Question) -> None:
    node, given_rows = question
    of = infer(node, SCHEMA)
    allowed = of if is_total(node) else optional(of)

    for row in given_rows:
        assert fits(evaluate(node, row, SCHEMA, now_us=NOW_US), allowed)


@quick
@given(expressions(INT, 2).flatmap(with_rows))
def test_an_int_expression_fits_a_float_column(question: Question) -> None:
    node, given_rows = question
    target = optional(FLOAT)

    fitted = fit(node, SCHEMA, target=target)

    assert infer(fitted, SCHEMA) == target
    for row in given_rows:
        found, before = (evaluate(one, row, SCHEMA, now_us=NOW_US) for one in (fitted, node))
        assert found == (None if before is None else float(before))  # type: ignore[arg-type]


@quick
@given(st.data(), st.sampled_from([INT, FLOAT, STR, TIME, DAY]))
def test_comparisons_are_a_total_order(data: st.DataObject, of: DataType) -> None:
    one, other = (data.draw(cells(of)) for _ in range(2))
    row: dict[str, Cell] = {"x": one, "y": other}

    held = [
        evaluate(Call(name, (Ref("x"), Ref("y"))), row, {"x": of, "y": of})
        for name in ("lt", "eq", "gt")
    ]

    assert held.count(True) == 1
    assert evaluate(Call("le", (Ref("x"), Ref("y"))), row) is (held[0] or held[1])
    assert evaluate(Call("ge", (Ref("x"), Ref("y"))), row) is (held[2] or held[1])
    assert evaluate(Call("ne", (Ref("x"), Ref("y"))), row) is (not held[1])


@quick
@given(questions)
def test_defined_operations_on_non_null_values_give_no_null(question: Question) -> None:
    node, given_rows = question
    of = infer(node, SCHEMA)

    for row in given_rows:
        value = evaluate(node, row, SCHEMA, now_us=NOW_US)
        assert value is not None or isinstance(of, Optional) or not is_total(node)


def test_the_generated_expressions_reach_every_function() -> None:
    reached = (INT, FLOAT, BOOL, STR, TIME, MONEY, List(INT), POINT)
    names = {name for of in reached for name in named(of)}

    assert set(FUNCTIONS) - names == set()


def named(of: DataType) -> set[str]:
    found: set[str] = set()
    for strategy in [*special(of, leaf), *[call("fillnull", leaf(of), leaf(of))]]:
        pending = [sample(strategy)]
        while pending:
            node = pending.pop()
            if isinstance(node, Call):
                found.add(node.function)
                pending += node.arguments
    return found


def sample(strategy: st.SearchStrategy[Node]) -> Node:
    caught: list[Node] = []

    @settings(max_examples=1, database=None, derandomize=True)
    @given(strategy)
    def catch(node: Node) -> None:
        caught.append(node)

    catch()
    return caught[0]


def test_a_constant_has_a_value_on_each_row() -> None:
    frame = pl.DataFrame({"a": series_of("a", [1, 2, 3], INT)})

    found = evaluate_columns(Literal("x", STR), frame, {"a": INT})

    assert found.to_list() == ["x", "x", "x"]


def test_an_empty_frame_gives_an_empty_series_of_the_type() -> None:
    frame = frame_of({"a": []}, {"a": INT})
    node = Call("div", (Ref("a"), Literal(2, INT)))

    found = evaluate_columns(node, frame, {"a": INT})

    assert found.dtype == pl.Float64
    assert found.len() == 0
