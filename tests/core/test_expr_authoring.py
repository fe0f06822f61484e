"""What authors write becomes the value that travels; what cannot stand is refused at once."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from narthex import expr, types
from narthex.errors import DurationInvalid
from narthex.expr import InvalidExprException, col, from_epoch, lit, now, when
from narthex.expr.functions import FUNCTIONS
from narthex.expr.nodes import Branch, Call, Case, Literal, Node, Ref
from narthex.expr.render import render
from narthex.records import from_plain, to_plain


def call(name: str, *arguments: Node, **options: object) -> Call:
    return Call(name, arguments, tuple(sorted(options.items())))  # type: ignore[arg-type]


A, ONE = Ref("a"), Literal(1, types.Int())


@pytest.mark.parametrize(
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
        (col("a").fillnull(1).isnull(), call("isnull", call("fillnull", A, ONE))),
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
        (
            when(col("a")).then(1).when(col("b")).then(1),
            Case((Branch(A, ONE), Branch(Ref("b"), ONE)), Literal(None, types.Null())),
        ),
        (when(col("a")).then(1).otherwise(1), Case((Branch(A, ONE),), ONE)),
    ],
)
def test_what_is_written_means_a_value(written: expr.Expr, means: Node) -> None:
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


@pytest.mark.parametrize(
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
        lambda: col("a").dt.strftime("%A"),
        lambda: col("a").dt.since(now(), unit="month"),
        lambda: col("a").dt.parts("hour", timezone="Europe/Berlin"),
        lambda: from_epoch(col("a"), unit="nanosecond"),
        lambda: col("a").is_in("abc"),
        lambda: col("a").is_in([]),
        lambda: expr.datetime(2024, 2, 30),
        lambda: expr.datetime(2024, 2, 3, timezone="Nowhere/Town"),
    ],
)
def test_what_cannot_stand_is_refused_where_it_is_written(write: object) -> None:
    assert callable(write)
    with pytest.raises(InvalidExprException):
        write()


def test_a_duration_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(DurationInvalid):
        col("a").dt.add("1 month")


def test_the_type_that_an_author_says_is_kept_as_written() -> None:
    typed = (col("a") + 1).astype(int | None)

    assert typed.dtype == types.Optional(types.Int())
    assert typed.node == call("add", A, ONE)


def test_an_expression_reads_as_it_was_written() -> None:
    written = when(~(col("a") > 1)).then(col("s").str.lower()).otherwise(lit("x"))

    assert (
        str(written) == 'when(~(col("a") > lit(1))).then(col("s").str.lower()).otherwise(lit("x"))'
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_is_an_expression_of_it(name: str) -> None:
    example = FUNCTIONS[name].example
    names = {"col": col, "now": now, "from_epoch": from_epoch, "int": int, "float": float}

    written = eval(example, names)  # noqa: S307 (our own text)

    if name != "cast":
        assert written.node.function == name
        assert render(written.node)


def test_the_type_of_an_expression_over_annotated_columns() -> None:
    assert (col("a") + 1).typeof({"a": float | None}) == types.Optional(types.Float())
