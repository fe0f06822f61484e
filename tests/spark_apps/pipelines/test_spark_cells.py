"""Spark computes the same cells as the Python backend and the codec."""

import decimal
import math
from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from narthex._expr.python import evaluate
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.expression_nodes import Branch, Call, Case, Literal, Node, Ref
from narthex._ir.facts import Cell, position
from narthex._ir.schema import Column
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    StructField,
    inner,
    unrestricted,
)
from narthex_spark_apps.expressions import NotRenderedError, Scope, render
from narthex_spark_apps.facts import identities
from tests.core.expr.expr_corpus import same_cell
from tests.spark_apps.spark_jobs import spark_schema

pytestmark = pytest.mark.spark

PAIR = Struct("", (StructField("a", Int()), StructField("q", Optional(Str()))))
COLUMNS: dict[str, DataType] = {
    "i": Int(),
    "j": Optional(Int()),
    "x": Float(),
    "y": Optional(Float()),
    "s": Str(),
    "t": Optional(Str()),
    "b": Bool(),
    "p": Optional(Bool()),
    "at": Datetime(),
    "on": Date(),
    "c": Decimal(2),
    "l": List(Int()),
    "m": List(Optional(Float())),
    "d": Map(Int()),
    "r": PAIR,
}
_INTS: Sequence[Cell] = (0, 1, -1, 7, -7, 2**62, 2**63 - 1, -(2**63), 100, -3)
_FLOATS: Sequence[Cell] = (0.0, -0.0, 1.5, -2.5, 0.5, math.inf, -math.inf, 1e300, -1e-3, 3.0)
_TEXTS: Sequence[Cell] = (
    "",
    "a",
    "ab",
    "Été",
    "2013-01-02",
    "a,b,,",
    "ß",
    "2013-02-30",
    "😀z",
    "A",
)
_INSTANTS: Sequence[Cell] = (
    0,
    -1,
    1357000000123456,
    1356998400000000,
    -62135596800000000,
    253402300799999999,
    2**62,
    -(2**62),
    1000000,
    86399999999,
)
ROWS = 40


def _pick(values: Sequence[Cell], index: int, step: int) -> Cell:
    return values[(index * step + index // len(values)) % len(values)]


def _row(index: int) -> dict[str, Cell]:
    nullable = index % 7 == 3
    return {
        "i": _pick(_INTS, index, 1),
        "j": None if nullable else _pick(_INTS, index, 3),
        "x": _pick(_FLOATS, index, 1),
        "y": None if index % 5 == 1 else _pick(_FLOATS, index, 7),
        "s": _pick(_TEXTS, index, 1),
        "t": None if nullable else _pick(_TEXTS, index, 3),
        "b": index % 2 == 0,
        "p": None if index % 3 == 0 else index % 4 == 1,
        "at": _pick(_INSTANTS, index, 1),
        "on": index * 400 - 3000,
        "c": (-1) ** index * 123456 * index,
        "l": tuple(range(index % 4)) if index % 6 else (2**62, 2**62),
        "m": (1.5, None) if index % 3 else (2.5, -1.0),
        "d": {"k": index, "z": 1} if index % 2 else {},
        "r": {"a": index, "q": None if index % 2 else "x"},
    }


CELLS = [_row(index) for index in range(ROWS)]


def _given(cell: Cell, of: DataType) -> object:
    plain = unrestricted(inner(of))
    if cell is None:
        return None
    match plain, cell:
        case Decimal(scale=scale), int():
            return decimal.Decimal(cell).scaleb(-scale)
        case List(of=item), tuple():
            return [_given(member, item) for member in cell]
        case Struct(fields=fields), dict():
            return tuple(_given(cell[field.name], field.type) for field in fields)
        case Bytes(), bytes():
            return bytearray(cell)
        case _:
            return cell


def _cell(found: object, of: DataType) -> Cell:
    plain = unrestricted(inner(of))
    match plain, found:
        case Decimal(scale=scale), decimal.Decimal():
            return int(found.scaleb(scale))
        case List(of=item), list():
            return tuple(_cell(member, item) for member in found)
        case Map(of=item), dict():
            return {key: _cell(member, item) for key, member in found.items()}
        case Struct(fields=fields), Row():
            return {field.name: _cell(found[field.name], field.type) for field in fields}
        case _, bytearray():
            return bytes(found)
        case _, list():
            return tuple(found)
        case _:
            return found  # type: ignore[return-value]


def _frame(spark: SparkSession, columns: Mapping[str, DataType], rows: list[dict[str, Cell]]):  # noqa: ANN202
    given = [
        (index, *(_given(row[name], of) for name, of in columns.items()))
        for index, row in enumerate(rows)
    ]
    schema = spark_schema({"index": Int(), **columns})
    return spark.createDataFrame(given, schema)


def call(name: str, *arguments: Node, target: DataType | None = None, **options: object) -> Call:
    given = tuple(sorted(options.items()))
    return Call(name, tuple(arguments), options=given, target=target)  # type: ignore[arg-type]


def _lit(value: Cell, of: DataType) -> Literal:
    return Literal(value, of)  # type: ignore[arg-type]


PARTS = ("year", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
I, J, X, Y, S, T, B, P = (Ref(name) for name in "ijxystbp")  # noqa: E741
AT, ON, C, L, M, D, R = (Ref(name) for name in ("at", "on", "c", "l", "m", "d", "r"))
SEVEN, TWO = _lit(7, Int()), _lit(2.5, Float())

EXPRESSIONS: list[Node] = [
    *(
        call(name, *pair)
        for name in ("add", "sub", "mul", "div", "floordiv", "mod")
        for pair in ((I, J), (X, Y), (I, X), (J, SEVEN), (Y, TWO), (X, _lit(0, Int())))
    ),
    *(
        call(name, *pair)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for pair in ((I, J), (X, Y), (I, X), (S, T), (AT, AT), (C, I), (C, C))
    ),
    call("add", S, T),
    call("add", C, C),
    call("add", C, I),
    call("sub", C, _lit(1050, Decimal(3))),
    call("mul", C, C),
    call("mul", C, I),
    call("div", C, I),
    call("eq", L, L),
    call("neg", I),
    call("neg", X),
    call("neg", C),
    call("and", B, P),
    call("or", P, B),
    call("and", P, call("not", P)),
    call("isnull", J),
    call("fillnull", J, _lit(1.5, Float())),
    call("fillnull", T, S),
    call("cast", J, target=Optional(Float())),
    call("cast", C, target=Decimal(2)),
    call("is_in", S, _lit("a", Str()), _lit("", Str())),
    call("is_in", J, _lit(7, Int()), _lit(1.0, Float())),
    *(call("from_epoch", I, unit=unit) for unit in ("second", "millisecond", "microsecond")),
    *(
        call(f"num.{name}", of)
        for name in ("abs", "ceil", "floor", "sqrt", "is_nan")
        for of in (I, X, Y)
    ),
    *(call(f"num.{name}", Y) for name in ("is_infinite", "round")),
    call("num.round", X, precision=1),
    call("num.round", I, precision=0),
    call("num.to_string", J),
    call("num.to_string", C),
    call("num.pow", I, _lit(3, Int())),
    *(call(f"str.{name}", of) for name in ("len", "lower", "upper") for of in (S, T)),
    *(
        call(f"str.{name}", S, _lit("a", Str()))
        for name in ("concat", "contains", "startswith", "endswith")
    ),
    call("str.contains", S, T),
    call("str.split", S, sep=","),
    call("str.split", T, sep="."),
    call("str.strptime", S, format="%Y-%m-%d"),
    *(call(f"dt.{part}", AT) for part in PARTS),
    *(
        call("dt.since", AT, _lit(1357000000123456, Datetime()), unit=unit)
        for unit in ("day", "microsecond", "year")
    ),
    *(call("dt.since_epoch", AT, unit=unit) for unit in ("hour", "microsecond")),
    call("dt.strftime", AT, format="%F %T.%f day %j, 100%%"),
    call("dt.add", AT, duration_us=86400000000),
    call("dt.sub", AT, duration_us=1),
    *(call(f"list.{name}", L) for name in ("len", "sum", "min", "max", "mean", "hasnull")),
    *(call(f"list.{name}", M) for name in ("len", "sum", "min", "max", "mean", "hasnull")),
    call("list.at", L, _lit(-1, Int())),
    call("list.at", L, J),
    call("list.contains", L, _lit(2, Int())),
    call("list.contains", M, TWO),
    call("struct.get", R, field="q"),
    call("dict.get", D, _lit("k", Str())),
    call("dict.get", D, _lit("k", Str()), _lit(2.5, Float())),
    call("dict.len", D),
    call("dict.contains", D, T),
    call("now"),
    Case((Branch(P, I), Branch(call("gt", X, TWO), X)), J),
    Case((Branch(P, C),), _lit(5, Int())),
]


@pytest.mark.slow
def test_spark_matches_the_python_backend(spark: SparkSession) -> None:
    frame = _frame(spark, COLUMNS, CELLS)
    scope = Scope(
        types=COLUMNS, columns={name: sf.col(name) for name in COLUMNS}, now=sf.lit(77).cast("long")
    )

    wrong: list[str] = []
    for start in range(0, len(EXPRESSIONS), 25):
        chosen = EXPRESSIONS[start : start + 25]
        columns = [render(node, scope).alias(f"e{index}") for index, node in enumerate(chosen)]
        found = frame.select("index", *columns).orderBy("index").collect()
        for index, node in enumerate(chosen):
            for row, answer in zip(CELLS, found, strict=True):
                expected = evaluate(node, row, COLUMNS, now_us=77)
                given = _cell(answer[f"e{index}"], _type_of(node))
                if not same_cell(expected, given):
                    wrong.append(f"{node}: {row}: expected {expected!r}, Spark gives {given!r}")

    assert not wrong, "\n".join(wrong[:20])


def _type_of(node: Node) -> DataType:
    from narthex._expr.typing import infer  # noqa: PLC0415

    return infer(node, COLUMNS)


def test_spark_refuses_functions_that_it_cannot_render_exactly() -> None:
    scope = Scope(types=COLUMNS, columns={name: sf.lit(0) for name in COLUMNS})

    with pytest.raises(NotRenderedError):
        render(call("now"), scope)


KEYS = (
    Column("i", Int()),
    Column("s", Str()),
    Column("x", Float()),
    Column("b", Bool()),
    Column("on", Date()),
    Column("c", Decimal(2)),
    Column("l", List(Int())),
    Column("d", Map(Int())),
    Column("r", PAIR),
    Column("j", Optional(Int())),
)


def test_spark_renders_keys_and_identities_byte_for_byte(spark: SparkSession) -> None:
    frame = _frame(spark, COLUMNS, CELLS)
    key = identities.key_bytes(KEYS, [sf.col(column.name) for column in KEYS])

    found = frame.select(
        "index",
        key.alias("key"),
        identities.keyed_row_id(key, sf.col("at")).alias("row_id"),
        identities.position("webhook:a/b", sf.lit(3), sf.abs("on"), sf.lit(4)).alias("position"),
    )

    for row, answer in zip(CELLS, found.orderBy("index").collect(), strict=True):
        expected = key_bytes(KEYS, [row[column.name] for column in KEYS])
        assert bytes(answer["key"]) == expected
        assert bytes(answer["row_id"]) == keyed_row_id(expected, int(str(row["at"])))
        assert bytes(answer["position"]) == position("webhook:a/b", 3, abs(int(str(row["on"]))), 4)
