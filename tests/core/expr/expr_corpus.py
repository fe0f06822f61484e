"""The expected results of each expression function, written by hand, for every evaluator.

A case is an expression, its columns with their types and cells, and the cell that it gives.
Instants are microseconds, dates days, decimals unscaled; `None` is null.
"""

import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal as PythonDecimal
from typing import Optional

import attrs

from narthex._ir.expression_nodes import Call
from narthex._ir.facts import Cell
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
    OneOf,
    Regex,
    Str,
    Struct,
    StructField,
)
from narthex._ir.types import Optional as Maybe
from narthex.dtypes import struct
from narthex.expr import (
    Expr,
    col,
    datetime,
    from_epoch,
    lit,
    make_struct,
    now,
    repeat,
    var,
    when,
)

GREATEST, LEAST = 2**63 - 1, -(2**63)
INF, NAN = math.inf, math.nan
SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
NOW = 1_700_000_000_000_000
MOST = 10**28 - 1


@struct
class Point:
    x: int
    y: Optional[float]  # noqa: UP045 (as authors write it)


@struct
class Pair:
    left: int
    right: float


POINT = Struct("Point", (StructField("x", Int()), StructField("y", Maybe(Float()))))

Typed = tuple[DataType, Cell]


@attrs.frozen(eq=False)
class Case:
    """An expression over one row, and what it gives."""

    written: Expr
    gives: Cell
    types: Mapping[str, DataType]
    row: Mapping[str, Cell]

    @property
    def name(self) -> str:
        return f"{self.written} over {dict(self.row)}"


def cast(written: Expr, target: DataType) -> Expr:
    """Return an expression with the cast that `astype` comes to in a column of the target."""
    return Expr(Call("cast", (written.node,), target=target))


def case(written: Expr, gives: Cell, **columns: Typed) -> Case:
    types = {name: of for name, (of, _) in columns.items()}
    return Case(written, gives, types, {name: cell for name, (_, cell) in columns.items()})


def typed(of: DataType):  # noqa: ANN201
    def of_cell(cell: Cell) -> Typed:
        return (of, cell)

    return of_cell


i, f, b, s = typed(Int()), typed(Float()), typed(Bool()), typed(Str())
t, d, raw = typed(Datetime()), typed(Date()), typed(Bytes())
oi, of_, ob, os_ = (typed(Maybe(one)) for one in (Int(), Float(), Bool(), Str()))
ot = typed(Maybe(Datetime()))
li, lf, lb, ls = (typed(List(one)) for one in (Int(), Float(), Bool(), Str()))
loi, lof, lob = (typed(List(Maybe(one))) for one in (Int(), Float(), Bool()))
oli = typed(Maybe(List(Int())))
p, op, mi = typed(POINT), typed(Maybe(POINT)), typed(Map(Int()))
vector = typed(Embedding(2))
EMPTY: tuple[Cell, ...] = ()
A, B = col("a"), col("b")


def money(scale: int, cell: Cell) -> Typed:
    return (Decimal(scale), cell)


ARITHMETIC = [
    case(A + B, 5, a=i(7), b=i(-2)),
    case(A + B, 9.5, a=i(7), b=f(2.5)),
    case(A + B, None, a=oi(None), b=i(1)),
    case(A + 1, None, a=i(GREATEST)),
    case(A - 1, None, a=i(LEAST)),
    case(A - B, GREATEST, a=i(-1), b=i(LEAST)),
    case(A * B, None, a=i(2**32), b=i(2**31)),
    case(A * B, LEAST, a=i(-(2**32)), b=i(2**31)),
    case(1 - A, -6, a=i(7)),
    case(A + B, "ab", a=s("a"), b=s("b")),
    case(A + B, None, a=s("a"), b=os_(None)),
    case(A + B, "é語", a=s("é"), b=s("語")),
    case(A + 0.1, 0.30000000000000004, a=f(0.2)),
    case(A + B, None, a=f(INF), b=f(-INF)),
    case(A - B, None, a=f(INF), b=f(INF)),
    case(A * 2, INF, a=f(1e308)),
    case(A * 0, None, a=f(INF)),
    case(A + 1, None, a=f(NAN)),
    case(A / B, 3.5, a=i(7), b=i(2)),
    case(A / B, INF, a=i(1), b=i(0)),
    case(A / B, -INF, a=i(-1), b=i(0)),
    case(A / B, -INF, a=f(1.0), b=f(-0.0)),
    case(A / B, None, a=i(0), b=i(0)),
    case(A / B, 0.1, a=i(1), b=i(10)),
    case(A / B, 1 / 3, a=i(1), b=i(3)),
    case(A / B, None, a=f(INF), b=f(INF)),
    case(A // B, -4, a=i(-7), b=i(2)),
    case(A // B, -4, a=i(7), b=i(-2)),
    case(A // B, 3, a=i(-7), b=i(-2)),
    case(A // B, None, a=i(7), b=i(0)),
    case(A // B, None, a=i(LEAST), b=i(-1)),
    case(A // B, -4.0, a=f(-7.5), b=i(2)),
    case(A // B, None, a=f(1.0), b=f(0.0)),
    case(A % B, 1, a=i(-7), b=i(2)),
    case(A % B, -1, a=i(7), b=i(-2)),
    case(A % B, None, a=i(7), b=i(0)),
    case(A % B, 0.5, a=f(-7.5), b=i(2)),
    case(A % B, 0, a=i(LEAST), b=i(-1)),
    case(A % B, None, a=f(INF), b=f(2.0)),
    case(A % B, 5.0, a=f(5.0), b=f(INF)),
    case(-A, -7, a=i(7)),
    case(-A, None, a=i(LEAST)),
    case(-A, -2.5, a=f(2.5)),
    case(-A, None, a=oi(None)),
]

DECIMALS = [
    case(A + B, 175, a=money(2, 125), b=money(1, 5)),
    case(A - 1, 25, a=money(2, 125)),
    case(A * B, 625, a=money(2, 125), b=money(1, 5)),
    case(A * 3, 375, a=money(2, 125)),
    case(A / B, 2.5, a=money(2, 125), b=money(1, 5)),
    case(A // B, -3, a=money(2, -125), b=money(1, 5)),
    case(A // B, None, a=money(2, -125), b=money(1, 0)),
    case(A // 1, None, a=money(1, MOST)),
    case(A % B, 25, a=money(2, -125), b=money(1, 5)),
    case(A % B, -25, a=money(2, 125), b=money(1, -5)),
    case(A % 0, None, a=money(2, 125)),
    case(A + A, None, a=money(2, MOST)),
    case(A - A, 0, a=money(2, MOST)),
    case(A * A, None, a=money(2, 10**14)),
    case(A * A, 10**26, a=money(2, 10**13)),
    case(A + A, 2 * 12345678901, a=money(10, 12345678901)),
    case(A + B, 10**27 + 1, a=money(10, 10**27), b=money(10, 1)),
    case(A * A, 3 * 3, a=money(5, 3)),
    case(A * B, 12345678 * 87654321, a=money(5, 12345678), b=money(4, 87654321)),
    case(-A, -125, a=money(2, 125)),
    case(A.abs(), 125, a=money(2, -125)),
    case(B < A, True, a=money(2, 125), b=money(1, 5)),
    case(A == 1, True, a=money(2, 100)),
    case(A == B, True, a=money(2, 110), b=money(1, 11)),
    case(A.is_in([1, PythonDecimal("1.25")]), True, a=money(2, 125)),
    case(A.num.to_string(), "1.25", a=money(2, 125)),
    case(A.num.to_string(), "-0.05", a=money(2, -5)),
    case(A + lit(PythonDecimal("0.5")), 175, a=money(2, 125)),
    case(when(B).then(A).otherwise(2), 200, a=money(2, 125), b=b(False)),
]

COMPARISON = [
    case(A == B, True, a=i(7), b=f(7.0)),
    case(A == B, None, a=i(7), b=oi(None)),
    case(A != B, True, a=s("a"), b=s("A")),
    case(A == None, None, a=oi(1)),  # noqa: E711 (as authors may write it)
    case(A == B, True, a=f(NAN), b=f(float("nan"))),
    case(A > B, True, a=f(NAN), b=f(INF)),
    case(A < B, False, a=f(NAN), b=f(NAN)),
    case(A <= B, True, a=f(NAN), b=f(NAN)),
    case(A == B, True, a=f(0.0), b=f(-0.0)),
    case(A < B, True, a=i(LEAST), b=i(GREATEST)),
    case(A < B, True, a=s("B"), b=s("a")),
    case(A < B, True, a=s("a"), b=s("ab")),
    case(A < B, True, a=s("z"), b=s("é")),
    case(A < B, True, a=s("￰"), b=s("😀")),
    case(A >= B, True, a=s(""), b=s("")),
    case(A < B, True, a=t(-1), b=t(0)),
    case(datetime(2013, 1, 1) < A, True, a=t(1_700_000_000_000_000)),
    case(A <= B, True, a=d(-1), b=d(0)),
    case(lit(date(1970, 1, 2)) == A, True, a=d(1)),
    case(A == B, True, a=raw(b"\x00\xff"), b=raw(b"\x00\xff")),
    case(A == B, True, a=li((1, 2)), b=li((1, 2))),
    case(A != B, True, a=li((1, 2)), b=li((2, 1))),
    case(A == B, True, a=loi((1, None)), b=loi((1, None))),
    case(A == B, True, a=p({"x": 1, "y": None}), b=p({"x": 1, "y": None})),
    case(A == B, True, a=mi({"x": 1, "y": 2}), b=mi({"y": 2, "x": 1})),
    case(A == B, False, a=p({"x": 1, "y": 0.5}), b=p({"x": 1, "y": 1.5})),
    case(A.is_in([1, 2]), True, a=i(2)),
    case(A.is_in([1.5, 2.0]), True, a=i(2)),
    case(A.is_in(["a"]), False, a=s("b")),
    case(A.is_in(["a"]), None, a=os_(None)),
    case(A.is_in([1, None]), None, a=i(1)),
    case(A.call("is_in", 1, B), None, a=i(1), b=oi(None)),
    case(A == "ok", True, a=(OneOf(Str(), ("ok", "no")), "ok")),
    case(A > 3, True, a=(Between(Int(), 0, 9), 5)),
    case(A + 1, 6, a=(Between(Int(), 0, 9), 5)),
    case(A.str.upper(), "AB", a=(Regex("[a-z]+"), "ab")),
]

CASTS = [
    case(cast(A, Float()), 7.0, a=i(7)),
    case(cast(A, Maybe(Float())), None, a=oi(None)),
    case(cast(A, Maybe(Int())), 7, a=i(7)),
    case(cast(A, List(Float())), (1.0, 2.0), a=li((1, 2))),
    case(cast(A, Map(Float())), {"k": 1.0}, a=mi({"k": 1})),
    case(cast(A, Decimal(2)), 700, a=i(7)),
    case(cast(A, Decimal(2)), 110, a=money(1, 11)),
    case(cast(A, Decimal(2)), None, a=money(1, MOST)),
    case(cast(A, Float()), float(2**53), a=i(2**53 + 1)),
    case(cast(A, List(Float())), (0.5, 1.5), a=vector((0.5, 1.5))),
]

LOGIC = [
    case(A & B, False, a=ob(None), b=b(False)),
    case(A & B, None, a=ob(None), b=b(True)),
    case(A & B, True, a=b(True), b=b(True)),
    case(A | B, True, a=ob(None), b=b(True)),
    case(A | B, None, a=ob(None), b=b(False)),
    case(A | B, False, a=b(False), b=b(False)),
    case(~A, False, a=b(True)),
    case(~A, None, a=ob(None)),
    case(A.isnull(), True, a=oi(None)),
    case(A.isnull(), False, a=oi(0)),
    case(A.isnull(), False, a=of_(NAN)),
    case((A // 0).isnull(), True, a=i(1)),
    case(A.fillnull(0), 0, a=oi(None)),
    case(A.fillnull(0), 5, a=oi(5)),
    case(A.fillnull(0.5), 5.0, a=oi(5)),
    case(A.fillnull("x"), "x", a=os_(None)),
    case(A.fillnull(B), None, a=oi(None), b=oi(None)),
    case(A.fillnull(lit([1], list[int])), (1,), a=oli(None)),
    case(A.fillnull(Point.expr(x=1, y=None)), {"x": 1, "y": None}, a=op(None)),
    case(A.fillnull(lit(Point(x=2, y=0.5))), {"x": 2, "y": 0.5}, a=op(None)),
    case(when(A > 1).then("x").otherwise("y"), "x", a=i(2)),
    case(when(A > 1).then("x").otherwise("y"), "y", a=oi(None)),
    case(when(A > 1).then("x"), None, a=i(1)),
    case(when(A > 2).then(1).when(A > 1).then(2.5).otherwise(3), 2.5, a=i(2)),
    case(when(A > 2).then(1).when(A > 1).then(2.5).otherwise(3), 1.0, a=i(3)),
    case(when(A > 1).then(1).when(A > 0).then(2).otherwise(3), 1, a=i(2)),
    case(lit(None).isnull(), True, a=i(2)),
    case(lit({"k": 1}, dict[str, int]).dict.get("k"), 1),
    case(lit([Point(x=1, y=None)], list[Point]).list.at(0).struct.get("x"), 1),
]

NUMBERS = [
    case(A.abs(), 7, a=i(-7)),
    case(A.abs(), None, a=i(LEAST)),
    case(A.abs(), 2.5, a=f(-2.5)),
    case(A.round(), 3, a=f(2.5)),
    case(A.round(), -3, a=f(-2.5)),
    case(A.round(), 2, a=f(2.4999)),
    case(A.round(), 7, a=i(7)),
    case(A.round(), None, a=f(1e300)),
    case(A.round(), None, a=f(INF)),
    case(A.round(), None, a=f(NAN)),
    case(A.round(2), 2.68, a=f(2.675)),
    case(A.round(1), 0.3, a=f(0.25)),
    case(A.round(1), -0.3, a=f(-0.25)),
    case(A.round(1), 7.0, a=i(7)),
    case(A.round(1), INF, a=f(INF)),
    case(A.ceil(), 3, a=f(2.1)),
    case(A.ceil(), -2, a=f(-2.9)),
    case(A.floor(), 2, a=f(2.9)),
    case(A.floor(), -3, a=f(-2.1)),
    case(A.floor(), None, a=f(2.0**63)),
    case(A.floor(), LEAST, a=f(-(2.0**63))),
    case(A.floor(), None, a=of_(None)),
    case(A.num.sqrt(), 3.0, a=i(9)),
    case(A.num.sqrt(), None, a=f(-1.0)),
    case(A.num.sqrt(), INF, a=f(INF)),
    case(A.num.log(), 0.0, a=i(1)),
    case(A.num.log(), -INF, a=f(0.0)),
    case(A.num.log(), None, a=f(-1.0)),
    case(A.num.log(10), 2.0, a=i(100)),
    case(A.num.log(2), 3.0, a=i(8)),
    case(A.num.sin(), 0.0, a=i(0)),
    case(A.num.sin(), None, a=f(INF)),
    case(A.num.cos(), 1.0, a=i(0)),
    case(A.num.tan(), 0.0, a=i(0)),
    case(A.num.arcsin(), math.pi / 2, a=i(1)),
    case(A.num.arcsin(), None, a=f(1.5)),
    case(A.num.arccos(), 0.0, a=i(1)),
    case(A.num.arccos(), None, a=f(-1.5)),
    case(A.num.arctan(), math.pi / 2, a=f(INF)),
    case(A.num.arctan(), None, a=f(NAN)),
    case(A.ceil(), None, a=f(INF)),
    case(A.num.is_nan(), True, a=f(NAN)),
    case(A.num.is_nan(), False, a=i(1)),
    case(A.num.is_nan(), None, a=of_(None)),
    case(A.num.is_infinite(), True, a=f(-INF)),
    case(A.num.is_infinite(), False, a=f(NAN)),
    case(A.num.to_string(), "7", a=i(7)),
    case(A.num.to_string(), "2.5", a=f(2.5)),
    case(A.num.to_string(), "1e+300", a=f(1e300)),
    case(A.num.to_string(), None, a=of_(None)),
    case(A.num.pow(2), 49, a=i(7)),
    case(A.num.pow(0), 1, a=i(0)),
    case(A.num.pow(2), None, a=i(2**32)),
    case(A.num.pow(-1), None, a=i(2)),
    case(A.num.pow(B), 1024, a=i(2), b=i(10)),
    case(A.num.pow(-1), 0.5, a=f(2.0)),
    case(A.num.pow(0.5), None, a=f(-2.0)),
    case(A.num.pow(B), INF, a=f(0.0), b=i(-1)),
    case(A.num.pow(2), INF, a=f(1e200)),
    case(A.num.pow(0), 1.0, a=f(NAN)),
]

TEXTS = [
    case(A.str.len(), 0, a=s("")),
    case(A.str.len(), 5, a=s("naïve")),
    case(A.str.len(), 2, a=s("😀z")),
    case(A.str.len(), None, a=os_(None)),
    case(A.str.lower(), "éß", a=s("Éß")),
    case(A.str.lower(), "ας", a=s("ΑΣ")),
    case(A.str.lower(), "i̇", a=s("İ")),
    case(A.str.lower(), "a\U00010d50", a=s("A\U00010d50")),
    case(A.str.upper(), "SS", a=s("ß")),
    case(A.str.upper(), "ﬁ".upper(), a=s("ﬁ")),
    case(A.str.upper(), "Aɤ", a=s("aɤ")),
    case(A.str.concat(B), "ab", a=s("a"), b=s("b")),
    case(A.str.concat(B), None, a=s("a"), b=os_(None)),
    case(A.str.contains("b"), True, a=s("abc")),
    case(A.str.contains(""), True, a=s("")),
    case(A.str.contains("."), False, a=s("abc")),
    case(A.str.contains(B), None, a=s("abc"), b=os_(None)),
    case(A.str.startswith("é"), True, a=s("étude")),
    case(A.str.startswith("e"), False, a=s("étude")),
    case(A.str.endswith("語"), True, a=s("日本語")),
    case(A.str.endswith(""), True, a=s("x")),
    case(A.str.split(","), ("a", "", "b"), a=s("a,,b")),
    case(A.str.split(","), ("",), a=s("")),
    case(A.str.split(", "), ("a,b", "c"), a=s("a,b, c")),
    case(A.str.split("."), ("a", "b", ""), a=s("a.b.")),
    case(A.str.split(","), None, a=os_(None)),
    case(A.str.json_extract("$.a"), "x", a=s('{"a": "x"}')),
    case(A.str.json_extract("$.a"), "1", a=s('{"a": 1}')),
    case(A.str.json_extract("$.a"), "true", a=s('{"a": true}')),
    case(A.str.json_extract("$.a"), None, a=s('{"a": null}')),
    case(A.str.json_extract("$.a"), None, a=s('{"b": 1}')),
    case(A.str.json_extract("$.a.b[1]"), "é", a=s('{"a": {"b": ["x", "é"]}}')),
    case(A.str.json_extract("$['a'][-1]"), '{"c":[1,2.5]}', a=s('{"a": [{"c": [1, 2.5]}]}')),
    case(A.str.json_extract("$[*].n"), "1", a=s('[{"m": 0}, {"n": 1}, {"n": 2}]')),
    case(A.str.json_extract("$.a"), None, a=s("no json")),
    case(A.str.json_extract("$"), '{"a":"é"}', a=s('{"a" : "é"}')),
    case(A.str.json_extract("$.a"), None, a=s('{"a": "\\ud800"}')),
    case(A.str.json_extract("$.a"), None, a=os_(None)),
    case(A.str.parse(int), 1, a=s("1.7")),
    case(A.str.parse(int), -1, a=s("-1.7")),
    case(A.str.parse(int), None, a=s("9223372036854775808")),
    case(A.str.parse(int), None, a=s("1e400")),
    case(A.str.parse(int), None, a=s("true")),
    case(A.str.parse(int), None, a=s('"1"')),
    case(A.str.parse(float), 1.0, a=s("1")),
    case(A.str.parse(float), None, a=s("NaN")),
    case(A.str.parse(float), None, a=s("1e999")),
    case(A.str.parse(bool), True, a=s("true")),
    case(A.str.parse(bool), None, a=s("1")),
    case(A.str.parse(str), "a1", a=s('"a1"')),
    case(A.str.parse(str), None, a=s('"\\udc00"')),
    case(A.str.parse(list[int]), (1, 2), a=s(" [1, 2.9] ")),
    case(A.str.parse(list[int]), None, a=s("[1, null]")),
    case(A.str.parse(list[Optional[int]]), (1, None), a=s("[1, null]")),  # noqa: UP045
    case(A.str.parse(dict[str, int]), {"a": 1}, a=s('{"a": 1}')),
    case(A.str.parse(Point), {"x": 1, "y": None}, a=s('{"x": 1}')),
    case(A.str.parse(Point), {"x": 1, "y": 2.0}, a=s('{"x": 1, "y": 2, "z": 3}')),
    case(A.str.parse(Point), None, a=s('{"y": 2.0}')),
    case(A.str.parse(int), None, a=os_(None)),
    case(A.str.parse(int), None, a=s("")),
]

FORMATS = [
    case(A.str.strptime("%Y-%m-%d"), 1_609_459_200 * SECOND, a=s("2021-01-01")),
    case(A.str.strptime("%Y-%m-%d"), 1_609_459_200 * SECOND, a=s("2021-1-1")),
    case(A.str.strptime("%Y-%m-%d"), None, a=s("2021-02-30")),
    case(A.str.strptime("%Y-%m-%d"), None, a=s("2021-01-01 ")),
    case(A.str.strptime("%Y-%m-%d"), None, a=s("0000-01-01")),
    case(A.str.strptime("%Y-%m-%d"), None, a=os_(None)),
    case(A.str.strptime("%Y%m%d"), 1_609_459_200 * SECOND, a=s("20210101")),
    case(A.str.strptime("%Y%m%d"), None, a=s("202111")),
    case(A.str.strptime("%d/%m/%y"), 0, a=s("01/01/70")),
    case(A.str.strptime("%d/%m/%y"), 36_159 * DAY, a=s("31/12/68")),
    case(A.str.strptime("%F %T"), 1_609_459_260 * SECOND, a=s("2021-01-01 00:01:00")),
    case(A.str.strptime("%F %T"), None, a=s("2021-01-01 24:00:00")),
    case(A.str.strptime("%F %T"), None, a=s("2021-01-01 00:00:60")),
    case(A.str.strptime("%F %T%.f"), 123_456, a=s("1970-01-01 00:00:00.1234567")),
    case(A.str.strptime("%F %T%.f"), 0, a=s("1970-01-01 00:00:00")),
    case(A.str.strptime("%F %T.%f"), 120_000, a=s("1970-01-01 00:00:00.12")),
    case(A.str.strptime("%F %T%.3f"), 123_000, a=s("1970-01-01 00:00:00.123")),
    case(A.str.strptime("%F %T%.3f"), None, a=s("1970-01-01 00:00:00.1234")),
    case(A.str.strptime("%F %T%z"), -5 * HOUR - 30 * MINUTE, a=s("1970-01-01 00:00:00+0530")),
    case(A.str.strptime("%F %T%z"), 8 * HOUR, a=s("1970-01-01 00:00:00-08:00")),
    case(A.str.strptime("%FT%T%z"), 0, a=s("1970-01-01T00:00:00Z")),
    case(A.str.strptime("%F %T%z"), None, a=s("1970-01-01 00:00:00+2500")),
    case(A.str.strptime("%FT%T"), None, a=s("1970-01-01t00:00:00")),
    case(A.str.strptime("%e %b %Y"), 9 * DAY, a=s("10 Jan 1970")),
    case(A.str.strptime("%e %b %Y"), 31 * DAY, a=s(" 1 FEB 1970")),
    case(A.str.strptime("%B %d, %Y"), 31 * DAY, a=s("february 1, 1970")),
    case(A.str.strptime("%B %d, %Y"), 31 * DAY, a=s("Feb 1, 1970")),
    case(A.str.strptime("%b %d %Y"), None, a=s("Foo 1 1970")),
    case(A.str.strptime("%a %F"), 0, a=s("Thu 1970-01-01")),
    case(A.str.strptime("%a %F"), None, a=s("Fri 1970-01-01")),
    case(A.str.strptime("%A %F"), 0, a=s("thursday 1970-01-01")),
    case(A.str.strptime("%Y-%j"), 59 * DAY, a=s("1970-060")),
    case(A.str.strptime("%Y-%j"), None, a=s("1970-366")),
    case(A.str.strptime("%Y-%j"), 1095 * DAY, a=s("1972-366")),
    case(A.str.strptime("%F %I:%M %p"), 0, a=s("1970-01-01 12:00 am")),
    case(A.str.strptime("%F %I:%M %p"), 12 * HOUR + 5 * MINUTE, a=s("1970-01-01 12:05 PM")),
    case(A.str.strptime("%F %I:%M %p"), None, a=s("1970-01-01 13:05 PM")),
    case(A.str.strptime("%s"), -1 * SECOND, a=s("-1")),
    case(A.str.strptime("%s%.3f"), 1_500_000, a=s("1.500")),
    case(A.str.strptime("%F %T.%f"), 123_456, a=s("1970-01-01 00:00:00.123456789")),
    case(A.str.strptime("%Y"), 365 * DAY, a=s("1971")),
    case(A.str.strptime("%Y-%m"), 31 * DAY, a=s("1970-02")),
    case(A.str.strptime("%b %Y"), 31 * DAY, a=s("feb 1970")),
    case(A.str.strptime("%C%y-%m-%d"), 365 * DAY, a=s("1971-01-01")),
    case(A.str.strptime("%C%y-%m-%d"), None, a=s("0000-01-01")),
    case(A.str.strptime("%G-W%V-%u"), 19_782 * DAY, a=s("2024-W09-4")),
    case(A.str.strptime("%G-W%V-%a"), 19_782 * DAY, a=s("2024-W09-thu")),
    case(A.str.strptime("%g%V%w"), 19_785 * DAY, a=s("24090")),
    case(A.str.strptime("%G-W%V-%u"), None, a=s("2024-W53-1")),
    case(A.str.strptime("%Y-%U-%w"), 19_782 * DAY, a=s("2024-08-4")),
    case(A.str.strptime("%Y-%U-%w"), None, a=s("2024-00-0")),
    case(A.str.strptime("%Y-%W-%u"), 19_782 * DAY, a=s("2024-09-4")),
    case(A.str.strptime("%Y-%W-%a"), None, a=s("2024-53-Wed")),
    case(A.str.strptime("%F %u"), 0, a=s("1970-01-01 4")),
    case(A.str.strptime("%F %u"), None, a=s("1970-01-01 5")),
    case(A.str.strptime("%F %w"), 3 * DAY, a=s("1970-01-04 0")),
    case(A.str.strptime("%F %w"), None, a=s("1970-01-04 1")),
    case(A.str.strptime("%x %X"), HOUR, a=s("01/01/70 01:00:00")),
    case(A.str.strptime("%v %r"), 13 * HOUR, a=s(" 1-Jan-1970 01:00:00 PM")),
    case(A.str.strptime("%c"), HOUR, a=s("Thu Jan  1 01:00:00 1970")),
    case(A.str.strptime("%+"), 500_000, a=s("1970-01-01T01:00:00.5+01:00")),
    case(A.str.strptime("%+"), 0, a=s("1970-01-01T00:00:00Z")),
    case(A.str.strptime("%F %T%#z"), -HOUR, a=s("1970-01-01 00:00:00+01")),
    case(A.str.strptime("%F %T%#z"), 90 * MINUTE, a=s("1970-01-01 00:00:00-0130")),
    case(A.str.strptime("%F %T %Z"), 0, a=s("1970-01-01 00:00:00 CET")),
    case(A.str.strptime("%-d.%-m.%Y"), 31 * DAY, a=s("1.2.1970")),
    case(A.str.strptime("%_d.%_m.%Y"), 31 * DAY, a=s(" 1. 2.1970")),
    case(A.str.strptime("%F", "America/New_York"), 5 * HOUR, a=s("1970-01-01")),
    case(
        A.str.strptime("%F %R", "America/New_York"),
        None,
        a=s("2021-03-14 02:30"),
    ),
    case(
        A.str.strptime("%F %R", "America/New_York"),
        1_636_263_000 * SECOND,
        a=s("2021-11-07 01:30"),
    ),
    case(A.str.strptime("%F %T%z", "Asia/Tokyo"), 0, a=s("1970-01-01 00:00:00+0000")),
]

INSTANTS = [
    case(A.dt.year, 1969, a=t(-1)),
    case(A.dt.month, 12, a=t(-1)),
    case(A.dt.day, 31, a=t(-1)),
    case(A.dt.hour, 23, a=t(-1)),
    case(A.dt.minute, 59, a=t(-1)),
    case(A.dt.second, 59, a=t(-1)),
    case(A.dt.millisecond, 999, a=t(-1)),
    case(A.dt.microsecond, 999_999, a=t(-1)),
    case(A.dt.week, 53, a=t(1_609_459_260 * SECOND)),
    case(A.dt.week, 1, a=t(0)),
    case(A.dt.year, None, a=t(GREATEST)),
    case(A.dt.year, 9999, a=t(253_402_300_799_999_999)),
    case(A.dt.year, None, a=t(253_402_300_800_000_000)),
    case(A.dt.year, 1, a=t(-62_135_596_800_000_000)),
    case(A.dt.year, None, a=t(-62_135_596_800_000_001)),
    case(A.dt.year, None, a=ot(None)),
    case(A.dt.parts("hour"), 1, a=t(HOUR)),
    case(A.dt.with_tz("Asia/Kolkata").hour, 5, a=t(0)),
    case(A.dt.with_tz("Asia/Kolkata").minute, 30, a=t(0)),
    case(A.dt.with_tz("America/New_York").day, 31, a=t(0)),
    case(A.dt.with_tz("America/New_York").year, 1969, a=t(0)),
    case(A.dt.with_tz("America/New_York").hour, 20, a=t(1_625_097_600 * SECOND)),
    case(A.dt.with_tz("America/New_York").hour, 1, a=t(1_636_263_000 * SECOND)),
    case(A.dt.with_tz("America/New_York").hour, 1, a=t(1_636_266_600 * SECOND)),
    case(A.dt.with_tz("America/New_York").year, None, a=t(-62_135_596_800_000_000)),
    case(A.dt.parts("hour", "Asia/Tokyo"), 9, a=t(0)),
    case(A.dt.with_tz("Asia/Tokyo").week, 2, a=t(4 * DAY - HOUR)),
    case(A.dt.with_tz("UTC").hour, 1, a=t(HOUR)),
    case(A.dt.since(B, "day"), 32, a=t(1_612_234_800 * SECOND), b=t(1_609_459_260 * SECOND)),
    case(A.dt.since(B), -1, a=t(0), b=t(1_999_999)),
    case(A.dt.since(B), 1, a=t(1_999_999), b=t(0)),
    case(A.dt.since(B, "year"), 0, a=t(0), b=t(364 * DAY)),
    case(A.dt.since(B, "year"), 1, a=t(365 * DAY), b=t(0)),
    case(A.dt.since(B, "week"), 1, a=t(13 * DAY), b=t(0)),
    case(A.dt.since(B, "hour"), 24, a=t(DAY), b=t(0)),
    case(A.dt.since(B, "minute"), -1440, a=t(0), b=t(DAY)),
    case(A.dt.since(B, "millisecond"), 1, a=t(1999), b=t(0)),
    case(A.dt.since(B, "microsecond"), None, a=t(GREATEST), b=t(-1)),
    case(A.dt.since(B, "millisecond"), (2**64 - 1) // 1000, a=t(GREATEST), b=t(LEAST)),
    case(A.dt.since(B, "day"), None, a=t(0), b=ot(None)),
    case(A.dt.since_epoch("day"), 18_628, a=t(1_609_459_260 * SECOND)),
    case(A.dt.since_epoch("day"), 0, a=t(-1)),
    case(A.dt.since_epoch("year"), 51, a=t(1_609_459_260 * SECOND)),
    case(A.dt.since_epoch("microsecond"), LEAST, a=t(LEAST)),
    case(A.dt.add("1d 12h"), 129_600_000_000, a=t(0)),
    case(A.dt.add("1d"), None, a=t(GREATEST)),
    case(A.dt.sub("90m"), -5_400_000_000, a=t(0)),
    case(A.dt.sub("1s"), None, a=t(LEAST)),
    case(from_epoch(A, unit="second"), 1_725_321_570_000_000, a=i(1_725_321_570)),
    case(from_epoch(A, unit="millisecond"), -1000, a=i(-1)),
    case(from_epoch(A, unit="microsecond"), LEAST, a=i(LEAST)),
    case(from_epoch(A, unit="second"), None, a=i(GREATEST)),
    case(from_epoch(A, unit="second"), None, a=oi(None)),
    case(now(), NOW),
    case(now().dt.since(A, unit="second"), 1, a=t(NOW - SECOND)),
    case(datetime(1970, 1, 1, 9, timezone="Asia/Tokyo") == A, True, a=t(0)),
    case(A.dt.strftime("%Y-%m-%d %H:%M:%S"), "1969-12-31 23:59:59", a=t(-1)),
    case(A.dt.strftime("%F %T.%f"), "1969-12-31 23:59:59.999999", a=t(-1)),
    case(A.dt.strftime("%D %R 100%%"), "01/02/70 03:04 100%", a=t(DAY + 3 * HOUR + 4 * MINUTE)),
    case(A.dt.strftime("%a %e %b %y"), "Thu  1 Jan 70", a=t(0)),
    case(A.dt.strftime("%A %d %B, %j"), "Friday 01 January, 001", a=t(1_609_459_260 * SECOND)),
    case(A.dt.strftime("%G-W%V-%u %w"), "2020-W53-5 5", a=t(1_609_459_260 * SECOND)),
    case(A.dt.strftime("%u %w"), "7 0", a=t(3 * DAY)),
    case(A.dt.strftime("%I:%M %p, %l %P"), "12:00 AM, 12 am", a=t(0)),
    case(A.dt.strftime("%I %p %k"), "01 PM 13", a=t(13 * HOUR)),
    case(A.dt.strftime("%k|%l"), " 9| 9", a=t(9 * HOUR)),
    case(A.dt.strftime("%s %.3f %6f"), "-1 .999 999999", a=t(-1)),
    case(A.dt.strftime("%z %:z %Z"), "+0000 +00:00 UTC", a=t(0)),
    case(A.dt.strftime("plain é"), "plain é", a=t(0)),
    case(A.dt.strftime("%C %g"), "20 20", a=t(1_609_459_260 * SECOND)),
    case(A.dt.strftime("%U %W"), "00 00", a=t(1_609_459_260 * SECOND)),
    case(A.dt.strftime("%U %W"), "01 00", a=t(1_609_459_260 * SECOND + 2 * DAY)),
    case(A.dt.strftime("%U %W"), "01 01", a=t(1_609_459_260 * SECOND + 3 * DAY)),
    case(A.dt.strftime("%x %X|%v|%r"), "01/01/70 13:00:00| 1-Jan-1970|01:00:00 PM", a=t(13 * HOUR)),
    case(A.dt.strftime("%c"), "Thu Jan  1 00:00:00 1970", a=t(0)),
    case(A.dt.strftime("%+"), "1969-12-31T23:59:59.999999+00:00", a=t(-1)),
    case(A.dt.strftime("%.f|%9f|%.9f"), "|000000000|.000000000", a=t(0)),
    case(A.dt.strftime("%.f|%9f|%.9f"), ".005|005000000|.005000000", a=t(5000)),
    case(A.dt.strftime("%::z %:::z"), "+00:00:00 +00", a=t(0)),
    case(A.dt.strftime("%-d.%-m.%-y|%_d|%0e|%-j"), "1.1.70| 1|01|1", a=t(0)),
    case(A.dt.strftime("%_j|%-H|%_H|%-I|%0k|%-Y"), "  1|3| 3|3|03|1970", a=t(3 * HOUR)),
    case(A.dt.strftime("%::z %:::z", "Asia/Kolkata"), "+05:30:00 +05", a=t(0)),
    case(A.dt.strftime("%Y"), "0001", a=t(-62_135_596_800_000_000)),
    case(A.dt.strftime("%Y"), None, a=t(LEAST)),
    case(
        A.dt.with_tz("Asia/Kolkata").strftime("%F %R %z %Z"), "1970-01-01 05:30 +0530 IST", a=t(0)
    ),
    case(A.dt.strftime("%R %:z", "America/New_York"), "19:00 -05:00", a=t(0)),
]

ITEM = var("e")
LISTS = [
    case(A.list.len(), 3, a=li((1, 2, 3))),
    case(A.list.len(), 0, a=li(EMPTY)),
    case(A.list.len(), None, a=oli(None)),
    case(A.list.len(), 2, a=vector((0.5, 1.5))),
    case(A.list.at(0), 1, a=li((1, 2, 3))),
    case(A.list.at(-1), 3, a=li((1, 2, 3))),
    case(A.list.at(-3), 1, a=li((1, 2, 3))),
    case(A.list.at(-4), None, a=li((1, 2, 3))),
    case(A.list.at(3), None, a=li((1, 2, 3))),
    case(A.list.at(B), None, a=li((1, 2, 3)), b=i(LEAST)),
    case(A.list.at(B), None, a=li((1, 2, 3)), b=i(2**32)),
    case(A.list.at(0), None, a=li(EMPTY)),
    case(A.list.at(B), None, a=li((1,)), b=oi(None)),
    case(A.list.at(1), 1.5, a=vector((0.5, 1.5))),
    case(A.list.contains(2), True, a=li((1, 2))),
    case(A.list.contains(2.0), True, a=li((1, 2))),
    case(A.list.contains(3), False, a=li((1, 2))),
    case(A.list.contains(1), True, a=loi((None, 1))),
    case(A.list.contains(2), None, a=loi((None, 1))),
    case(A.list.contains(2), False, a=loi(EMPTY)),
    case(A.list.contains(B), None, a=li((1,)), b=oi(None)),
    case(
        A.list.contains(make_struct({"x": 1, "y": 0.5}, Point)),
        True,
        a=(List(POINT), ({"x": 1, "y": 0.5}, {"x": 2, "y": None})),
    ),
    case(A.list.hasnull(), True, a=loi((1, None))),
    case(A.list.hasnull(), False, a=loi(EMPTY)),
    case(A.list.sum(), 6, a=li((1, 2, 3))),
    case(A.list.sum(), 0, a=li(EMPTY)),
    case(A.list.sum(), None, a=loi((1, None))),
    case(A.list.sum(), None, a=li((GREATEST, 1))),
    case(A.list.sum(), GREATEST, a=li((GREATEST, 1, -1))),
    case(A.list.sum(), 0.0, a=lf(EMPTY)),
    case(A.list.sum(), 0.6000000000000001, a=lf((0.1, 0.2, 0.3))),
    case(A.list.sum(), None, a=lf((INF, -INF))),
    case(A.list.min(), -1, a=li((3, -1))),
    case(A.list.max(), 3, a=li((3, -1))),
    case(A.list.min(), None, a=li(EMPTY)),
    case(A.list.max(), None, a=loi((1, None))),
    case(A.list.min(), 1.0, a=lf((NAN, 1.0))),
    case(A.list.mean(), 2.5, a=li((1, 2, 3, 4))),
    case(A.list.mean(), None, a=li(EMPTY)),
    case(A.list.mean(), None, a=lof((1.0, None))),
    case(A.list.all(), True, a=lb(EMPTY)),
    case(A.list.any(), False, a=lb(EMPTY)),
    case(A.list.all(), False, a=lob((False, None))),
    case(A.list.all(), None, a=lob((True, None))),
    case(A.list.any(), True, a=lob((True, None))),
    case(A.list.any(), None, a=lob((False, None))),
    case(A.list.filter("e", ITEM > 1), (2, 3), a=li((1, 2, 3))),
    case(A.list.filter("e", ITEM > B), (3,), a=li((1, 2, 3)), b=i(2)),
    case(A.list.filter("e", ITEM > 1), (), a=li(EMPTY)),
    case(A.list.filter("e", ITEM > 1), None, a=oli(None)),
    case(A.list.filter("e", ~ITEM.isnull()), (1,), a=loi((1, None))),
    case(A.list.filter("e", (10 // ITEM) > 1), (1, 2), a=li((0, 1, 2, 9))),
    case(A.list.map("e", ITEM * 2), (2, 4), a=li((1, 2))),
    case(A.list.map("e", ITEM * B), (1.5, 3.0), a=li((1, 2)), b=f(1.5)),
    case(A.list.map("e", ITEM + 1), (2, None), a=loi((1, None))),
    case(A.list.map("e", ITEM + 1), None, a=li((1, GREATEST))),
    case(A.list.map("e", ITEM + 1), (), a=li(EMPTY)),
    case(A.list.map("e", ITEM + 1), None, a=oli(None)),
    case(A.list.map("e", when(ITEM > 1).then(ITEM)), (None, 2), a=li((1, 2))),
    case(A.list.map("e", ITEM.num.to_string()), ("1", "2"), a=li((1, 2))),
    case(A.list.map("e", ITEM.str.upper()), ("É",), a=ls(("é",))),
    case(A.list.map("e", lit(1)), (1, 1), a=ls(("x", "y"))),
    case(A.list.map("e", ITEM.fillnull(0)).list.sum(), 1, a=loi((1, None))),
    case(A.list.map("e", ITEM + 1).list.filter("x", var("x") > 2), (3,), a=li((1, 2))),
    case(
        A.list.map("e", ITEM.struct.get("x")),
        (1, 2),
        a=(List(POINT), ({"x": 1, "y": 0.5}, {"x": 2, "y": None})),
    ),
    case(repeat(A, 3), (1, 1, 1), a=i(1)),
    case(repeat(A, 0), (), a=i(1)),
    case(repeat(A, B), None, a=i(1), b=i(-1)),
    case(repeat(A, 2), (None, None), a=oi(None)),
    case(repeat(A // 0, 2), None, a=i(1)),
    case(repeat(A, B), None, a=i(1), b=i(2**32)),
    case(repeat(A, 2), ({"x": 1, "y": None},) * 2, a=p({"x": 1, "y": None})),
]

RECORDS = [
    case(A.struct.get("x"), 1, a=p({"x": 1, "y": None})),
    case(A.struct.get("y"), None, a=p({"x": 1, "y": None})),
    case(A.struct.get("x"), None, a=op(None)),
    case(Point.expr(x=A, y=B), {"x": 1, "y": 0.5}, a=i(1), b=f(0.5)),
    case(Point.expr(x=A, y=B), {"x": 1, "y": 2.0}, a=i(1), b=i(2)),
    case(Point.expr(x=A, y=None), {"x": 1, "y": None}, a=i(1)),
    case(Point.expr(x=A // 0, y=None), None, a=i(1)),
    case(Point.expr(y=B, x=A).struct.get("x"), 1, a=i(1), b=f(0.5)),
    case(make_struct({"x": 1, "y": A}, Point), {"x": 1, "y": 0.5}, a=f(0.5)),
    case(Point.zip(x=A, y=B), ({"x": 1, "y": 4.0}, {"x": 2, "y": 5.0}), a=li((1, 2)), b=li((4, 5))),
    case(Point.zip(x=A, y=B), ({"x": 1, "y": 4.0},), a=li((1, 2)), b=li((4,))),
    case(Point.zip(x=A, y=B), ({"x": 1, "y": 4.0},), a=li((1,)), b=li((4, 5, 6))),
    case(Point.zip(x=A, y=B), (), a=li(EMPTY), b=li((7,))),
    case(Point.zip(x=A, y=B), None, a=oli(None), b=li((7,))),
    case(Point.zip(x=A, y=B), ({"x": 1, "y": None},), a=li((1,)), b=lof((None,))),
    case(
        Pair.zip(left=A, right=B).list.map("e", ITEM.struct.get("left") / ITEM.struct.get("right")),
        (0.25, 0.5),
        a=li((1, 3)),
        b=li((4, 6)),
    ),
    case(A.dict.get("k"), 1, a=mi({"k": 1})),
    case(A.dict.get("z"), None, a=mi({"k": 1})),
    case(A.dict.get("z", 0.5), 0.5, a=mi({"k": 1})),
    case(A.dict.get("k", 0.5), 1.0, a=mi({"k": 1})),
    case(A.dict.get(B), 2, a=mi({"é": 2}), b=s("é")),
    case(A.dict.get(B, 3), None, a=mi({"k": 2}), b=os_(None)),
    case(A.dict.get("k", 3), None, a=(Maybe(Map(Int())), None)),
    case(A.dict.get("k", 3), None, a=(Map(Maybe(Int())), {"k": None})),
    case(A.dict.len(), 2, a=mi({"a": 1, "b": 2})),
    case(A.dict.len(), 0, a=mi({})),
    case(A.dict.len(), None, a=(Maybe(Map(Int())), None)),
    case(A.dict.contains("k"), True, a=mi({"k": 1})),
    case(A.dict.contains("k"), True, a=(Map(Maybe(Int())), {"k": None})),
    case(A.dict.contains("z"), False, a=mi({"k": 1})),
    case(A.dict.contains(B), None, a=mi({"k": 1}), b=os_(None)),
]

CORPUS = [
    *ARITHMETIC,
    *DECIMALS,
    *COMPARISON,
    *CASTS,
    *LOGIC,
    *NUMBERS,
    *TEXTS,
    *FORMATS,
    *INSTANTS,
    *LISTS,
    *RECORDS,
]


def same_cell(one: Cell, other: Cell) -> bool:
    """Whether two cells are one value: of one type, -0.0 apart from 0.0, NaN itself."""
    match one, other:
        case float(), float():
            signs = math.copysign(1, one) == math.copysign(1, other)
            return (one == other and signs) or (math.isnan(one) and math.isnan(other))
        case tuple(), tuple():
            return len(one) == len(other) and all(map(same_cell, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(same_cell(one[k], other[k]) for k in one)
        case _:
            return type(one) is type(other) and one == other
