"""The types of expressions: the lattice, the rules, and everything that is wrong at once."""

import pytest

from narthex._expr.type_lattice import lca, promotable
from narthex._expr.typing import ExpressionTypeError, check, fit, infer, references
from narthex._ir.expression_nodes import Call
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Null,
    OneOf,
    Optional,
    Regex,
    Str,
    Struct,
    StructField,
)
from narthex._sdk.expressions.authoring import Expr
from narthex.expr import col, lit, repeat, var, when
from tests.cases import every

INT, FLOAT, STR, BOOL = Int(), Float(), Str(), Bool()
ONE, OTHER = (Struct(name, (StructField("x", of),)) for name, of in (("P", INT), ("Q", FLOAT)))
SCHEMA: dict[str, DataType] = {
    "amount": Between(INT, 0, 9),
    "code": Regex("[a-z]+"),
    "kind": OneOf(STR, ("a", "b")),
    "maybe": Optional(FLOAT),
    "at": Datetime(),
    "day": Date(),
    "price": Decimal(2),
    "raw": Bytes(),
    "vector": Embedding(3),
    "names": List(Optional(STR)),
    "counts": Map(INT),
    "point": ONE,
    "ok": BOOL,
}


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (INT, FLOAT),
        (INT, Optional(FLOAT)),
        (Null(), Optional(STR)),
        (Optional(INT), Optional(FLOAT)),
        (ONE, OTHER),
        (List(INT), List(FLOAT)),
        (INT, Between(INT, 0, 1)),
        (STR, Regex("x")),
    ],
)
def test_what_is_promotable(found: DataType, wanted: DataType) -> None:
    assert promotable(found, wanted)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (FLOAT, INT),
        (Optional(INT), INT),
        (INT, STR),
        (INT, Decimal(2)),
        (Decimal(2), FLOAT),
        (Null(), INT),
        (OTHER, ONE),
        (BOOL, INT),
        (Date(), Datetime()),
    ],
)
def test_what_is_not_promotable(found: DataType, wanted: DataType) -> None:
    assert not promotable(found, wanted)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (INT, FLOAT, FLOAT),
        (INT, Optional(FLOAT), Optional(FLOAT)),
        (Null(), STR, Optional(STR)),
        (Between(INT, 0, 1), INT, INT),
        (ONE, OTHER, Struct("", (StructField("x", FLOAT),))),
        (Decimal(2), Decimal(4), Decimal(4)),
        (Decimal(2), INT, Decimal(2)),
        (STR, INT, None),
        (BOOL, INT, None),
        (Decimal(2), FLOAT, None),
    ],
)
def test_the_common_type_of_two(one: DataType, other: DataType, common: DataType | None) -> None:
    assert lca(one, other) == common
    assert lca(other, one) == common


@every(
    ("expression", "of"),
    [
        (col("amount") + 1, INT),
        (col("amount") / 2, FLOAT),
        (col("maybe") * col("amount"), Optional(FLOAT)),
        (col("code") + col("kind"), STR),
        (col("code").str.len(), INT),
        (col("code") < "m", BOOL),
        (col("at") > col("at").dt.sub("1d"), BOOL),
        (col("day") == col("day"), BOOL),
        (col("maybe") == lit(None), Optional(BOOL)),
        (col("maybe").fillnull(1), FLOAT),
        (col("price") * col("price"), Decimal(4)),
        (col("price") + 1, Decimal(2)),
        (col("price") / col("price"), FLOAT),
        (col("price") > 3, BOOL),
        (col("price") // 2, INT),
        (col("price") % 2, Decimal(2)),
        (col("vector").list.map("e", var("e") > 0), List(BOOL)),
        (col("names").list.map("e", var("e").str.len()), List(Optional(INT))),
        (col("names").list.filter("e", var("e").isnull()), List(Optional(STR))),
        (lit(None, list[int] | None).list.map("e", var("e") / 2), Optional(List(FLOAT))),
        (repeat(col("maybe"), 2), List(Optional(FLOAT))),
        (col("code").str.json_extract("$.x"), Optional(STR)),
        (col("code").str.parse(dict[str, list[int]]), Map(List(INT))),
        (col("at").dt.with_tz("Asia/Tokyo").hour, INT),
        (Expr(Call("struct.make", (col("amount").node,), target=ONE)), ONE),
        (Expr(Call("struct.make", (col("amount").node,), target=OTHER)), OTHER),
        (Expr(Call("list.zip", (col("vector").node,), target=OTHER)), List(OTHER)),
        (col("amount").num.round(1), FLOAT),
        (col("amount").num.pow(2), INT),
        (col("vector").list.at(0), Optional(FLOAT)),
        (col("names").list.contains("x"), Optional(BOOL)),
        (col("counts").dict.get("k"), Optional(INT)),
        (col("counts").dict.get("k", 0.5), FLOAT),
        (col("point").struct.get("x"), INT),
        (when(col("ok")).then(1), Optional(INT)),
        (when(col("ok")).then(1).otherwise(2.0), FLOAT),
        (col("maybe").isnull() & col("ok"), BOOL),
        (col("kind").is_in(["a"]), BOOL),
    ],
)
def test_the_type_of_an_expression(expression: Expr, of: DataType) -> None:
    assert infer(expression.node, SCHEMA) == of


@every(
    "expression",
    [
        col("code") + 1,
        col("at") - col("at"),
        col("ok") + col("ok"),
        col("price") * 1.5,
        col("price") // 1.5,
        col("raw") < col("raw"),
        col("code") == 1,
        col("amount") & col("ok"),
        col("day").dt.year,
        col("amount").str.len(),
        col("names").list.sum(),
        col("point").struct.get("y"),
        when(col("amount")).then(1),
        when(col("ok")).then(1).otherwise("x"),
        col("code").is_in(["a", 1]),
        col("code").str.parse(bytes),
        var("e"),
        col("vector").list.map("e", var("f")),
        col("vector").list.map("e", var("e").str.len()),
        col("vector").list.map("e", col("vector").list.map("f", var("f"))),
        col("vector").list.filter("e", var("e")),
        col("names").list.filter("e", var("e") == "x"),
        col("code").list.map("e", var("e")),
        col("code").list.filter("e", var("e") == "x"),
        repeat(1, col("maybe")),
        repeat(1, lit(None, int | None)),
        Expr(Call("struct.make", (col("maybe").node,), target=OTHER)),
        Expr(Call("struct.make", (), target=OTHER)),
        Expr(Call("list.zip", (col("amount").node,), target=OTHER)),
        Expr(Call("dt.hour", (col("at").node,), (("timezone", "Nowhere/Town"),))),
        Expr(Call("str.reverse", (col("code").node,))),
    ],
)
def test_expressions_without_a_type(expression: Expr) -> None:
    with pytest.raises(ExpressionTypeError):
        infer(expression.node, SCHEMA)


def test_all_mistakes_are_reported_at_once_with_a_hint() -> None:
    expression = (col("amonut") > 1) & (col("code") - 1 == 0)

    found = check(expression.node, SCHEMA)

    assert [str(problem) for problem in found] == [
        'column `amonut` not found, in col("amonut"); hint: did you mean `amount`?',
        '`str` - `int`; both sides of `-` are numbers, in (col("code") - lit(1))',
    ]


def test_mistakes_in_variables_are_reported_together() -> None:
    inner = var("x").list.map("y", var("y"))
    expression = col("vector").list.map("e", inner + col("nothing"))

    found = check(expression.node, SCHEMA)

    assert [problem.message for problem in found] == [
        "variable `x` is not bound",
        "`list.map` is inside another function with a variable",
        "column `nothing` not found",
    ]
    assert found[0].hint == "the variable here is `e`"


def test_an_expression_is_made_to_fit_its_column() -> None:
    fitted = fit(col("amount").node, SCHEMA, target=Optional(FLOAT))

    assert infer(fitted, SCHEMA) == Optional(FLOAT)
    with pytest.raises(ExpressionTypeError, match="expected to be `int`, found `float`"):
        fit((col("amount") / 2).node, SCHEMA, target=INT)


def test_the_columns_that_an_expression_reads() -> None:
    expression = when(col("ok")).then(col("amount") + 1).otherwise(col("maybe"))

    assert references(expression.node) == {"ok", "amount", "maybe"}
