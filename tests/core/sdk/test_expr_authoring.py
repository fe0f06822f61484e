"""Expressions of authors become values; invalid ones are refused at once."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import List, Optional  # noqa: UP035 (what authors write, and what is printed)

import pandas as pd
import pytest
from hypothesis import assume, given

from narthex import expr
from narthex._base.records import from_plain, to_plain
from narthex._expr.render import render
from narthex._expr.time_zones import has_year
from narthex._expr.typing import ExpressionTypeError
from narthex._ir import types
from narthex._ir.expression_nodes import Branch, Call, Case, Literal, Node, Ref, Var
from narthex.dtypes import Decimal as DecimalAnnotation
from narthex.dtypes import between, struct
from narthex.errors import DurationInvalid
from narthex.expr import (
    EvalContext,
    InvalidExprException,
    TimeUnit,
    col,
    from_epoch,
    lit,
    make_struct,
    now,
    repeat,
    var,
    when,
)
from tests.cases import every
from tests.core.expr.expr_nodes import parts_of
from tests.core.expr.expr_questions import any_expression

STR_OR_NULL = types.Optional(types.Str())


@struct
class Spot:
    x: int
    label: Optional[str]  # noqa: UP045 (as authors write it)


def call(name: str, *arguments: Node, **options: object) -> Call:
    return Call(name, arguments, tuple(sorted(options.items())))  # type: ignore[arg-type]


A, ONE, YES = Ref("a"), Literal(1, types.Int()), Literal(True, types.Bool())
INCREASED = call("add", Var("e"), ONE)


@every(
    ("written", "means"),
    [
        (col("a") + 1, call("add", A, ONE)),
        (1 - col("a"), call("sub", ONE, A)),
        (1 * col("a"), call("mul", ONE, A)),
        (col("a") / 1, call("div", A, ONE)),
        (1 // col("a"), call("floordiv", ONE, A)),
        (col("a") % 1, call("mod", A, ONE)),
        (-col("a"), call("neg", A)),
        (~(col("a") == 1), call("not", call("eq", A, ONE))),
        (col("a") != 1, call("ne", A, ONE)),
        (col("a") >= 1, call("ge", A, ONE)),
        (True & col("a"), call("and", Literal(True, types.Bool()), A)),
        (col("a") | col("a"), call("or", A, A)),
        (col("a").fillnull(1).isnull(), call("isnull", call("fillnull", A, ONE))),  # noqa: PD003
        (col("a").round(2), call("num.round", A, precision=2)),
        (col("a").num.log(10), call("num.log", A, base=10.0)),
        (col("a").str.split(","), call("str.split", A, sep=",")),
        (col("a").str.parse(int), Call("str.parse", (A,), target=types.Int())),
        (col("a").dt.add("1d 1s"), call("dt.add", A, duration_us=86_401_000_000)),
        (col("a").dt.since(now(), unit="day"), call("dt.since", A, call("now"), unit="day")),
        (col("a").dt.parts("hour"), call("dt.hour", A)),
        (col("a").dt.strftime("%F"), call("dt.strftime", A, format="%Y-%m-%d")),
        (from_epoch(col("a"), unit="second"), call("from_epoch", A, unit="second")),
        (col("a").is_in([1]), call("is_in", A, ONE)),
        (col("a").list.at(1), call("list.at", A, ONE)),
        (col("a").dict.get("k", 1), call("dict.get", A, Literal("k", types.Str()), ONE)),
        (col("a").struct.get("x"), call("struct.get", A, field="x")),
        (repeat(col("a"), 1), call("repeat", A, ONE)),
        (col("a").list.map("e", var("e") + 1), call("list.map", A, INCREASED, var="e")),
        (col("a").list.filter("e", True), call("list.filter", A, YES, var="e")),
        (col("a").dt.with_tz("Asia/Tokyo").hour, call("dt.hour", A, timezone="Asia/Tokyo")),
        (col("a").dt.with_tz("UTC").hour, call("dt.hour", A)),
        (col("a").dt.parts(TimeUnit.DAY, "Asia/Tokyo"), call("dt.day", A, timezone="Asia/Tokyo")),
        (col("a").dt.since_epoch(TimeUnit.DAY), call("dt.since_epoch", A, unit="day")),
        (
            col("a").str.strptime("%D", "Asia/Tokyo"),
            call("str.strptime", A, format="%m/%d/%y", timezone="Asia/Tokyo"),
        ),
        (col("a").str.json_extract("$.x"), call("str.json_extract", A, path="$.x")),
        (
            when(col("a")).then(1).when(col("b")).then(1),
            Case((Branch(A, ONE), Branch(Ref("b"), ONE)), Literal(None, types.Null())),
        ),
        (when(col("a")).then(1).otherwise(1), Case((Branch(A, ONE),), ONE)),
    ],
)
def test_author_expressions_become_nodes(written: expr.Expr, means: Node) -> None:
    assert written.node == means
    assert from_plain(to_plain(written.node)) == means


@pytest.mark.parametrize(
    ("value", "means"),
    [
        (None, Literal(None, types.Null())),
        (True, Literal(True, types.Bool())),
        (1.5, Literal(1.5, types.Float())),
        ("x", Literal("x", types.Str())),
        (b"x", Literal(b"x", types.Bytes())),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), Literal(1_000_000, types.Datetime())),
        (date(1970, 1, 2), Literal(1, types.Date())),
        (Decimal("1.25"), Literal(125, types.Decimal(2))),
    ],
)
def test_a_constant_has_its_own_type(value: object, means: Literal) -> None:
    assert lit(value).node == means


def test_a_constant_can_be_given_another_type() -> None:
    assert lit(1, float).node == Literal(1.0, types.Float())
    assert lit(None, int | None).node == Literal(None, types.Optional(types.Int()))
    assert lit([1, 2], list[int]).node == Literal((1, 2), types.List(types.Int()))


def test_a_wall_clock_in_a_timezone_is_an_instant() -> None:
    noon = expr.datetime(1970, 1, 1, 12, timezone="Europe/Berlin")

    assert noon.node == Literal(11 * 3_600_000_000, types.Datetime())


@every(
    "write",
    [
        lambda: bool(col("a")),
        lambda: col("a") and col("b"),
        lambda: 1 < col("a") < 2,
        lambda: 1 in col("a"),
        lambda: col("a") ^ col("b"),
        lambda: list(col("a")),
        lambda: col(""),
        lambda: col(1),
        lambda: col("a") + col("b").astype(int),
        lambda: col("a") + len,
        lambda: lit(object()),
        lambda: lit("x", int),
        lambda: lit(2**63),
        lambda: lit(True, int),
        lambda: when(col("a")).otherwise(1),
        lambda: col("a").round(-1),
        lambda: col("a").num.log(1),
        lambda: col("a").str.split(""),
        lambda: col("a").str.strptime("%d.%m"),
        lambda: col("a").str.strptime("%Y-%m-%d %B"),
        lambda: col("a").str.strptime("%H:%M"),
        lambda: col("a").str.strptime("%Y-%d"),
        lambda: col("a").str.strptime("%Y %a"),
        lambda: col("a").str.strptime("%C-%m-%d"),
        lambda: col("a").str.strptime("%Y-%V-%u"),
        lambda: col("a").str.strptime("%G-%V"),
        lambda: col("a").str.strptime("%Y-%W"),
        lambda: col("a").str.strptime("%Y-%W-%U-%u"),
        lambda: col("a").str.strptime("%Y-%j-%d"),
        lambda: col("a").str.strptime("%F %a %u"),
        lambda: col("a").str.strptime("%L"),
        lambda: col("a").dt.strftime("%-f"),
        lambda: col("a").dt.strftime("%#z"),
        lambda: col("a").str.strptime("%F %Q"),
        lambda: col("a").str.strptime("%F %I:%M"),
        lambda: col("a").str.strptime("%F %"),
        lambda: col("a").str.strptime("%F", "Nowhere/Town"),
        lambda: col("a").str.json_extract("a.b"),
        lambda: col("a").str.json_extract("$.a[x]"),
        lambda: col("a").dt.strftime("%Q"),
        lambda: col("a").dt.with_tz("Nowhere/Town"),
        lambda: col("a").dt.parts("fortnight"),
        lambda: col("a").dt.since_epoch("month"),
        lambda: col("a")[0],
        lambda: var(""),
        lambda: col("a").list.map("", col("b")),
        lambda: col("a").list.filter(1, col("b")),
        lambda: col("a").struct.get(col("b")),
        lambda: make_struct({"x": 1}, Spot),
        lambda: Spot.expr(x=1, label=None, z=2),
        lambda: make_struct({"x": 1}, int),
        lambda: lit([1, "x"], list[int]),
        lambda: lit({"x": 1}, Spot),
        lambda: lit(Decimal("1.255"), DecimalAnnotation[2]),
        lambda: expr.datetime(2021, 3, 14, 2, 30, timezone="America/New_York"),
        lambda: col("a").dt.since(now(), unit="month"),
        lambda: col("a").dt.parts("hour", timezone="Europe/Nowhere"),
        lambda: from_epoch(col("a"), unit="nanosecond"),
        lambda: col("a").is_in("abc"),
        lambda: col("a").is_in([]),
        lambda: expr.datetime(2024, 2, 30),
        lambda: expr.datetime(2024, 2, 3, timezone="Nowhere/Town"),
    ],
)
def test_an_invalid_expression_is_refused_at_its_line(write: object) -> None:
    assert callable(write)
    with pytest.raises(InvalidExprException):
        write()


def test_a_duration_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(DurationInvalid):
        col("a").dt.add("1 month")


def test_a_declared_type_is_recorded_as_written() -> None:
    typed = (col("a") + 1).astype(int | None)

    assert typed.dtype == types.Optional(types.Int())
    assert typed.node == call("add", A, ONE)


def test_an_expression_reads_as_it_was_written() -> None:
    written = when(~(col("a") > 1)).then(col("s").str.lower()).otherwise(lit("x"))

    assert (
        str(written) == 'when(~(col("a") > lit(1))).then(col("s").str.lower()).otherwise(lit("x"))'
    )


def test_the_type_of_an_expression_over_annotated_columns() -> None:
    a = col("a")

    assert (a + 1).typeof({"a": float | None}) == Optional[float]  # noqa: UP045 (it is made so)
    assert a.list.map("e", var("e") / 2).typeof({"a": list[int]}) == List[float]  # noqa: UP006
    assert a.str.parse(Spot).typeof({"a": str}) is Spot
    assert a.list.at(0).typeof({"a": list[Spot]}) == Optional[Spot]  # noqa: UP045
    assert Spot.zip(x=a, label=a.list.map("e", lit(None))).typeof({"a": list[int]}) == List[Spot]  # noqa: UP006
    with pytest.raises(ExpressionTypeError):
        a.typeof({})


def test_expressions_fit_column_types() -> None:
    assert lit(50).matches_type(between(int, 1, 10), {})
    assert (col("a") / 2).matches_type(float | None, {"a": int})
    assert not (col("a") / 2).matches_type(int, {"a": int})


SPOT = types.Struct(
    "Spot", (types.StructField("x", types.Int()), types.StructField("label", STR_OR_NULL))
)


def test_structs_are_made_member_by_member_in_the_order_of_the_class() -> None:
    made = Spot.expr(label=col("b"), x=1)

    assert made.node == Call("struct.make", (ONE, Ref("b")), target=SPOT)
    assert make_struct({"x": 1, "label": col("b")}, Spot).node == made.node


def test_a_constant_struct_is_given_as_an_instance_or_as_a_dict() -> None:
    means = Literal((1, None), SPOT)

    assert lit(Spot(x=1, label=None)).node == means
    assert lit({"x": 1, "label": None}, Spot).node == means
    assert lit([Spot(x=1, label=None)], list[Spot]).node.value == ((1, None),)
    assert lit({"k": 1}, dict[str, int]).node.value == (("k", 1),)


def test_all_mistakes_of_a_struct_are_reported_at_once() -> None:
    with pytest.raises(InvalidExprException) as raised:
        Spot.expr(y=1)

    assert "no member `y`" in str(raised.value)
    assert "member `x` is missing; member `label` is missing" in str(raised.value)


NAMES = {name: getattr(expr, name) for name in expr.__all__} | {
    "date": date,
    "decimal": Decimal,
    "List": list,
    "Dict": dict,
    "Optional": Optional,
    "Point": Spot,
    "Decimal": DecimalAnnotation,
}


def renamed(node: Node) -> Node:
    """Return an expression over the struct of this file."""
    return from_plain(json.loads(json.dumps(to_plain(node)).replace('"Point"', '"Spot"')))  # type: ignore[return-value]


def is_writable(part: Node) -> bool:
    """Return whether authors can write a node: no cast, and no instant without a year."""
    match part:
        case Call(function="cast"):
            return False
        case Literal(type=types.Datetime(), value=int(instant)):
            return has_year(instant)
        case _:
            return True


@given(any_expression)
def test_a_printed_expression_parses_to_the_same_expression(node: Node) -> None:
    assume(all(map(is_writable, parts_of(node))))
    meant = renamed(node)

    assert eval(render(meant), {**NAMES, "Spot": Spot}).node == meant  # noqa: S307 (our own text)


def test_expressions_evaluate_on_a_frame() -> None:
    frame = pd.DataFrame(
        {
            "a": [1, 2, None],
            "l": [[1, 2], [], [3]],
            "t": pd.to_datetime(["2021-01-01", None, "1970-01-02"]),
        },
        index=[5, 6, 7],
    )
    schema = {"a": Optional[int], "l": list[int], "t": Optional[datetime]}  # noqa: UP045

    whole = (col("a") + 1).eval(frame, schema)
    lists = col("l").list.map("e", var("e") * 2).eval(frame, schema)
    instants = col("t").dt.add("1d").eval(frame, schema)
    structs = Spot.expr(x=col("l").list.sum(), label="x").eval(frame, schema)

    assert whole.tolist() == [2, 3, pd.NA]
    assert list(whole.index) == [5, 6, 7]
    assert str(whole.dtype) == "Int64"
    assert lists.tolist() == [[2, 4], [], [6]]
    assert instants[7] == pd.Timestamp("1970-01-03", tz="UTC")
    assert structs.tolist() == [Spot(x=3, label="x"), Spot(x=0, label="x"), Spot(x=3, label="x")]


def test_a_frame_has_structs_as_dicts_on_request() -> None:
    frame = pd.DataFrame({"a": ['{"x": 1}']})

    found = col("a").str.parse(Spot).eval(frame, {"a": str}, parse=False)

    assert found.tolist() == [{"x": 1, "label": None}]


def test_the_present_of_a_frame_is_a_column_of_it_or_the_clock() -> None:
    frame = pd.DataFrame({"asked_at": [datetime(2024, 1, 2, tzinfo=UTC)], "a": [1]})
    context = EvalContext(now_col_name="asked_at")

    assert now().dt.day.eval(frame, {}, context=context).tolist() == [2]
    assert now().dt.year.eval(frame, {})[0] >= 2024


def test_a_result_is_brought_to_the_type_that_the_author_wants() -> None:
    frame = pd.DataFrame({"a": [1, 2]})

    found = col("a").eval(frame, {"a": int}, output_dtype=float)

    assert str(found.dtype) == "Float64"
    with pytest.raises(ExpressionTypeError):
        col("a").eval(frame, {"a": int}, output_dtype=str)


def test_a_frame_that_is_not_of_the_schema_is_refused() -> None:
    frame = pd.DataFrame({"a": ["x"]})

    with pytest.raises(InvalidExprException, match="column `a`: found 'x'"):
        (col("a") + 1).eval(frame, {"a": int})
    with pytest.raises(InvalidExprException, match="column `b` of the schema is not in the frame"):
        (col("b") + 1).eval(frame, {"b": int})
