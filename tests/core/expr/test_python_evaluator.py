"""The table of nulls, overflows and edges, as values."""

import math

import pytest

from narthex._expr.python import NoPresentError, evaluate
from narthex._ir.expression_nodes import Literal
from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Datetime, Decimal, Null
from narthex._sdk.expressions.authoring import Expr
from narthex.expr import col, from_epoch, lit, now, when
from tests.cases import every

GREATEST, LEAST = 2**63 - 1, -(2**63)


def value(expression: Expr, **row: Cell) -> Cell:
    return evaluate(expression.node, row)


@every(
    ("expression", "gives"),
    [
        (lit(-7) // 2, -4),
        (lit(-7) % 2, 1),
        (lit(7) % -2, -1),
        (lit(-7.5) % 2, 0.5),
        (lit(-7.5) // 2, -4.0),
        (lit(1) // 0, None),
        (lit(1) % 0, None),
        (lit(1.0) // 0, None),
        (lit(1) / 0, math.inf),
        (lit(-1) / 0, -math.inf),
        (lit(0) / 0, None),
        (lit(GREATEST) + 1, None),
        (lit(LEAST) // -1, None),
        (-lit(LEAST), None),
        (lit(LEAST).abs(), None),
        (lit(10).num.pow(19), None),
        (lit(-1).num.pow(GREATEST), -1),
        (lit(2).num.pow(-1), None),
        (lit(2.0).num.pow(-1), 0.5),
        (lit(0.0).num.pow(-1), math.inf),
        (lit(1e200).num.pow(2), math.inf),
        (lit(2.5).round(), 3),
        (lit(-2.5).round(), -3),
        (lit(2.675).round(2), 2.68),
        (lit(7).round(1), 7.0),
        (lit(1e300).floor(), None),
        (lit(-1).num.sqrt(), None),
        (lit(0).num.log(), -math.inf),
        (lit(100).num.log(10), 2.0),
        (lit(1.0).num.to_string(), "1.0"),
        (lit("a") + "b", "ab"),
        (lit("naïve").str.len(), 5),
        (lit("a,,b").str.split(","), ("a", "", "b")),
        (lit("1.7").str.parse(int), 1),
        (lit("[1, 2]").str.parse(list[int]), (1, 2)),
        (lit("x").str.parse(int), None),
        (lit("NaN").str.parse(float), None),
        (lit("2013-02-30").str.strptime("%Y-%m-%d"), None),
        (lit("01.02.2013").str.strptime("%d.%m.%Y"), 1_359_676_800_000_000),
        (from_epoch(lit(1), unit="second"), 1_000_000),
        (from_epoch(lit(GREATEST), unit="second"), None),
        (lit(1).is_in([1.0, 2.0]), True),
        (lit("z").is_in(["a"]), False),
        (lit("b") > "a", True),
        (lit(None) == 1, None),
        (lit([1, 2], list[int]).list.at(-1), 2),
        (lit([1, 2], list[int]).list.at(2), None),
        (lit([], list[int]).list.sum(), 0),
        (lit([], list[int]).list.mean(), None),
        (lit([True], list[bool]).list.all(), True),
        (lit([], list[bool]).list.any(), False),
    ],
)
def test_the_value_of_constants(expression: Expr, gives: Cell) -> None:
    found = evaluate(expression.node, {}, {})

    assert found == gives
    assert type(found) is type(gives)


@pytest.mark.parametrize("unknown", [None, True, False])
def test_null_is_unknown_in_logic(unknown: bool | None) -> None:
    a, b = col("a"), col("b")

    assert value(a & b, a=unknown, b=False) is False
    assert value(a | b, a=unknown, b=True) is True
    assert value(a & b, a=None, b=True) is None
    assert value(a | b, a=None, b=False) is None
    assert value(~a, a=None) is None


def test_a_condition_that_is_null_does_not_hold() -> None:
    expression = when(col("a")).then(1).otherwise(2)

    assert value(expression, a=None) == 2


def test_nan_equals_itself_and_is_the_greatest() -> None:
    a, b = col("a"), col("b")

    assert value(a == b, a=math.nan, b=math.nan) is True
    assert value(a > b, a=math.nan, b=math.inf) is True
    assert value(a + b, a=math.nan, b=1.0) is None


def test_an_unknown_item_makes_containing_unknown() -> None:
    expression = col("l").list.contains(1)

    assert value(expression, l=(None, 1)) is True
    assert value(expression, l=(None, 2)) is None
    assert value(expression, l=(2,)) is False


def test_decimals_are_exact() -> None:
    schema: dict[str, DataType] = {"a": Decimal(2), "b": Decimal(1)}
    row: dict[str, Cell] = {"a": 125, "b": 5}
    a, b = col("a"), col("b")

    assert evaluate((a + b).node, row, schema) == 175
    assert evaluate((a - 1).node, row, schema) == 25
    assert evaluate((a * b).node, row, schema) == 625
    assert evaluate((a / b).node, row, schema) == 2.5
    assert evaluate((b < a).node, row, schema) is True
    assert evaluate(a.num.to_string().node, {"a": -5}, {"a": Decimal(2)}) == "-0.05"
    assert evaluate((a + a).node, {"a": 10**28 - 1}, {"a": Decimal(2)}) is None


def test_parts_and_spans_of_instants() -> None:
    schema: dict[str, DataType] = {"t": Datetime()}
    row: dict[str, Cell] = {"t": -1}
    t = col("t")

    assert evaluate(t.dt.year.node, row, schema) == 1969
    assert evaluate(t.dt.week.node, row, schema) == 1
    assert evaluate(t.dt.millisecond.node, row, schema) == 999
    assert evaluate(t.dt.microsecond.node, row, schema) == 999_999
    assert evaluate(t.dt.since_epoch().node, row, schema) == 0
    assert evaluate(t.dt.add("1s").node, row, schema) == 999_999
    assert evaluate(t.dt.strftime("%F %T.%f").node, row, schema) == "1969-12-31 23:59:59.999999"
    assert evaluate(t.dt.year.node, {"t": GREATEST}, schema) is None


def test_now_needs_an_instant() -> None:
    assert evaluate(now().node, {}, now_us=5) == 5
    with pytest.raises(NoPresentError):
        evaluate(now().node, {})


def test_an_expression_of_null_alone_is_null() -> None:
    assert evaluate(Literal(None, Null()), {}, {}) is None
