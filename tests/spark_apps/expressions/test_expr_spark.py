"""Spark columns match the table of expressions, or are refused; they never approximate."""

import decimal
import runpy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from narthex._expr.functions import EXAMPLE, EXAMPLE_NOW_US, FUNCTIONS
from narthex._expr.python import evaluate, prepare
from narthex._expr.typing import infer
from narthex._ir.expression_nodes import Node
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bytes,
    DataType,
    Decimal,
    Int,
    List,
    Map,
    Struct,
    base_type,
    inner,
)
from narthex.expr import Expr
from narthex_spark_apps.expressions import NotRenderedError, Scope, render
from tests.core.expr.expr_corpus import CORPUS, NOW, Case, same_cell
from tests.core.expr.expr_questions import NOW_US, SCHEMA, any_expression, cells
from tests.spark_apps.spark_jobs import spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Answer = Union[Cell, NotRenderedError]  # noqa: UP007 (a cell's type is text)
IN_ONE_JOB = 80
GAPS = frozenset(
    {
        *(f"`num.{name}` of floats, whose last digit is Java's own" for name in ("log", "pow")),
        *(f"`num.{name}` of floats, whose last digit is Java's own" for name in ("sin", "cos")),
        *(f"`num.{name}` of floats, whose last digit is Java's own" for name in ("tan", "arctan")),
        *(f"`num.arc{name}` of floats, whose last digit is Java's own" for name in ("sin", "cos")),
        *(f"`dt.{part}` in a time zone" for part in ("year", "week", "day", "hour", "minute")),
        "`dt.strftime` in a time zone",
        "`num.pow` of ints whose exponent is not a small constant",
        "`num.to_string` of that number",
        "`str.json_extract`",
        "`str.parse`",
        "`str.strptime` in a time zone",
        "`str.strptime` of a day that is named by its week",
        "`//` of decimals",
        "a product with 9 digits after the point",
        "a product with 10 digits after the point",
        "comparison of maps",
    }
)
"""Why Spark does not carry out an expression of the table; the plain evaluator then does."""


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """Let Spark interpret expressions: compiling hundreds of them would take minutes.

    `test_spark_cells` has many of them compiled.
    """
    changed = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {key: spark.conf.get(key) for key in changed}
    for key, value in changed.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, str(value))


def to_spark(cell: Cell, of: DataType) -> object:
    plain = base_type(inner(of))
    match plain, cell:
        case _, None:
            return None
        case Decimal(scale=scale), int():
            return decimal.Decimal(cell).scaleb(-scale)
        case List(of=item), tuple():
            return [to_spark(member, item) for member in cell]
        case Map(of=item), dict():
            return {key: to_spark(member, item) for key, member in cell.items()}
        case Struct(fields=fields), dict():
            return tuple(to_spark(cell[field.name], field.type) for field in fields)
        case Bytes(), bytes():
            return bytearray(cell)
        case _, tuple():
            return list(cell)
        case _:
            return cell


def from_spark(found: object, of: DataType) -> Cell:
    plain = base_type(inner(of))
    match plain, found:
        case Decimal(scale=scale), decimal.Decimal():
            return int(found.scaleb(scale, decimal.Context(prec=60)))
        case List(of=item), list():
            return tuple(from_spark(member, item) for member in found)
        case Map(of=item), dict():
            return {key: from_spark(member, item) for key, member in found.items()}
        case Struct(fields=fields), Row():
            return {field.name: from_spark(found[field.name], field.type) for field in fields}
        case _, bytearray():
            return bytes(found)
        case _, list():
            return tuple(found)
        case _:
            return found  # type: ignore[return-value]


def rendered(one: Case, number: int, now_us: int) -> object:
    columns = {name: sf.col(f"c{number}_{name}") for name in one.types}
    return render(
        one.written.node,
        Scope(types=one.types, columns=columns, now=sf.lit(now_us).cast("long")),
    )


def answers(spark: SparkSession, cases: Sequence[Case], *, now_us: int = NOW) -> list[Answer]:
    """Return what Spark makes of cases: of each its cell, or why it has none."""
    found: dict[int, Answer] = {}
    columns: dict[int, Any] = {}
    for number, one in enumerate(cases):
        try:
            columns[number] = rendered(one, number, now_us)
        except NotRenderedError as reason:
            found[number] = reason
    types: dict[str, DataType] = {"row": Int()}
    row: list[object] = [0]
    for number in columns:
        for name, of in cases[number].types.items():
            types[f"c{number}_{name}"] = of
            row.append(to_spark(cases[number].row[name], of))
    frame = spark.createDataFrame([tuple(row)], spark_schema(types))
    answer = frame.select(*(one.alias(f"e{number}") for number, one in columns.items())).first()
    for number in columns:
        result = infer(cases[number].written.node, cases[number].types)
        found[number] = from_spark(answer[f"e{number}"], result)
    return [found[number] for number in range(len(cases))]


def test_spark_matches_the_table_or_has_a_listed_gap(
    interpreted: SparkSession,
) -> None:
    wrong: list[str] = []
    reasons: set[str] = set()
    for start in range(0, len(CORPUS), IN_ONE_JOB):
        cases = CORPUS[start : start + IN_ONE_JOB]
        for one, found in zip(cases, answers(interpreted, cases), strict=True):
            if isinstance(found, NotRenderedError):
                reasons.add(str(found))
            elif not same_cell(found, one.gives):
                wrong.append(f"{one.name}: expected {one.gives!r}, Spark gives {found!r}")

    assert not wrong, "\n".join(wrong)
    assert reasons == GAPS


def can_render(node: Node, scope: Scope) -> bool:
    try:
        render(node, scope)
    except NotRenderedError:
        return False
    return True


def check_together(
    spark: SparkSession, nodes: Sequence[Node], rows: Sequence[Mapping[str, Cell]]
) -> None:
    """Let Spark compute expressions on rows in one job; each equals the plain evaluator's."""
    types: dict[str, DataType] = {"row": Int(), **SCHEMA}
    given_rows = [
        (number, *(to_spark(row[name], of) for name, of in SCHEMA.items()))
        for number, row in enumerate(rows)
    ]
    frame = spark.createDataFrame(given_rows, spark_schema(types))
    scope = Scope(
        types=SCHEMA,
        columns={name: sf.col(name) for name in SCHEMA},
        now=sf.lit(NOW_US).cast("long"),
    )
    asked = [node for node in nodes if can_render(node, scope)]
    columns = [render(node, scope).alias(f"e{number}") for number, node in enumerate(asked)]

    found = frame.select("row", *columns).orderBy("row").collect()

    for number, node in enumerate(asked):
        prepared = prepare(node, SCHEMA)
        for row, answer in zip(rows, found, strict=True):
            cell = from_spark(answer[f"e{number}"], infer(node, SCHEMA))
            expected = prepared(row, NOW_US)
            assert same_cell(cell, expected), (node, row, expected, cell)


def test_spark_matches_the_examples_of_the_page(interpreted: SparkSession) -> None:
    page = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "render_expressions.py"))
    types = {name: of for name, (of, _) in EXAMPLE.items()}
    row = {name: cell for name, (_, cell) in EXAMPLE.items()}
    nodes = [page["written_example"](function) for function in FUNCTIONS.values()]
    cases = [Case(Expr(node), page["result"](node), types, row) for node in nodes]

    found = answers(interpreted, cases, now_us=EXAMPLE_NOW_US)

    refused = sum(isinstance(answer, NotRenderedError) for answer in found)
    assert refused < len(found) / 4
    for one, answer in zip(cases, found, strict=True):
        assert isinstance(answer, NotRenderedError) or same_cell(answer, one.gives), one.name


ROW = st.fixed_dictionaries({name: cells(of) for name, of in SCHEMA.items()})


@pytest.mark.slow
def test_spark_matches_the_evaluation_by_row(interpreted: SparkSession) -> None:
    @settings(max_examples=8)
    @given(
        st.lists(any_expression, min_size=20, max_size=20),
        st.lists(ROW, min_size=4, max_size=4),
    )
    def holds(nodes: list[Node], rows: list[dict[str, Cell]]) -> None:
        check_together(interpreted, nodes, rows)

    holds()


def test_letters_change_case_by_one_table(interpreted: SparkSession) -> None:
    cased = [
        chr(point)
        for point in range(0x20000)
        if not 0xD800 <= point < 0xE000 and chr(point).swapcase() != chr(point)
    ]
    texts = [*cased, "ΔΣ", "ΔΣ.", "Δ.Σ", "ΣΔ", "aΣ1", "İı", "A\U00010d50Σ"]
    one = next(one for one in CORPUS if str(one.written) == 'col("a").str.lower()')
    frame = interpreted.createDataFrame([(text,) for text in texts], "a string")
    columns = {"a": sf.col("a")}

    for written in (one.written, one.written.str.upper()):
        scope = Scope(types=one.types, columns=columns)
        found = [row[0] for row in frame.select(render(written.node, scope)).collect()]

        assert found == [evaluate(written.node, {"a": text}, one.types) for text in texts]
