"""Rows are judged one by one as Great Expectations judges them."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._analysis.row_expectations import prepare
from narthex._formats.arrow import array_of
from narthex._ir.assets import DatasetPlan, LogShape, LogSpec
from narthex._ir.entities import Expectation
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.facts import Cell
from narthex._ir.schema import Field, Role, Schema
from narthex._ir.types import (
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    Optional,
    Str,
)
from narthex_expectations.suites import KINDS, compile_suite

pytestmark = pytest.mark.slow

DAY_US = 86_400_000_000
INTS = st.integers(-3, 3)
FLOATS = st.sampled_from([-1.5, -0.0, 0.0, 0.5, 1.0, 2.0, math.inf])
TEXTS = st.sampled_from(["", "a", "ab", "B", "a1", "2013-01-02", "02/01/13", "[1]", "{"])
CELLS: Mapping[type[object], st.SearchStrategy[Cell]] = {
    Int: INTS,
    Float: FLOATS,
    Str: TEXTS,
    Bool: st.booleans(),
    Datetime: st.integers(0, 3).map(lambda day: day * DAY_US),
    Date: st.integers(0, 3),
    Decimal: st.integers(-200, 200),
}
SCALARS: Sequence[DataType] = (Int(), Float(), Str(), Bool(), Datetime(), Date(), Decimal(2))
COLUMNS: Mapping[str, DataType] = {
    name: of
    for base in SCALARS
    for name, of in (
        (type(base).__name__.lower(), base),
        (f"{type(base).__name__.lower()}_or_null", Optional(base)),
    )
} | {"int_b": Int(), "float_b": Optional(Float()), "str_b": Optional(Str()), "date_b": Date()}


def _cells(of: DataType) -> st.SearchStrategy[Cell]:
    if isinstance(of, Optional):
        return st.none() | CELLS[type(of.of)]
    return CELLS[type(of)]


ROWS = st.lists(
    st.fixed_dictionaries({name: _cells(of) for name, of in COLUMNS.items()}),
    min_size=1,
    max_size=12,
)


def _columns(*kinds: type[DataType]) -> list[str]:  # type: ignore[type-arg]
    names = {kind.__name__.lower() for kind in kinds}
    return [name for name in COLUMNS if name.partition("_")[0] in names]


LITERALS: Mapping[str, st.SearchStrategy[LiteralValue]] = {
    "int": INTS,
    "float": st.sampled_from([-1.5, 0.0, 0.5, 1.0]),
    "str": TEXTS,
    "bool": st.booleans(),
    "datetime": st.integers(1, 4).map(lambda day: f"1970-01-0{day}T00:00:00Z"),
    "date": st.integers(1, 4).map(lambda day: f"1970-01-0{day}"),
    "decimal": st.sampled_from(["-1", "0.5", "1.25", "2"]),
}


@st.composite
def _about_one(
    draw: st.DrawFn, kind: str, columns: Sequence[str], **arguments: st.SearchStrategy[Any]
) -> Expectation:
    drawn = {name: draw(one) for name, one in arguments.items()}
    return _expectation(kind, column=draw(st.sampled_from(columns)), **drawn)


def _expectation(kind: str, **arguments: LiteralValue) -> Expectation:
    given = tuple((name, value) for name, value in arguments.items() if value is not None)
    return Expectation(kind=kind, arguments=given)


@st.composite
def _in_set(draw: st.DrawFn, kind: str) -> Expectation:
    column = draw(st.sampled_from(list(COLUMNS)))
    literals = LITERALS[column.partition("_")[0]]
    members = draw(st.lists(literals, max_size=3).map(tuple))
    return _expectation(kind, column=column, value_set=members)


@st.composite
def _between(draw: st.DrawFn) -> Expectation:
    column = draw(st.sampled_from(_columns(Int, Float, Datetime, Date, Decimal)))
    literals = LITERALS[column.partition("_")[0]]
    bounds = draw(st.sampled_from(["low", "high", "both"]))
    low, high = draw(literals), draw(literals)
    if isinstance(low, str) and column.startswith("decimal"):
        low, high = sorted((low, high), key=float)
    else:
        low, high = sorted((low, high))  # type: ignore[type-var]
    return _expectation(
        "expect_column_values_to_be_between",
        column=column,
        min_value=low if bounds != "high" else None,
        max_value=high if bounds != "low" else None,
        strict_min=draw(st.booleans()),
        strict_max=draw(st.booleans()),
    )


PATTERNS = st.sampled_from(["^a", "a", "b$", "^$", "[0-9]+", "^[a-z]{2}$", "(?i)B", "."])
OF_TEXTS = _columns(Str)
IGNORED = st.sampled_from(["both_values_are_missing", "either_value_is_missing", "neither"])
IGNORED_ALL = st.sampled_from(["all_values_are_missing", "any_value_is_missing", "never"])
PAIRS = (
    ("int", "int_b"),
    ("float", "int"),
    ("float_or_null", "float_b"),
    ("str_or_null", "str_b"),
    ("date", "date_b"),
)


@st.composite
def _pair(draw: st.DrawFn, kind: str, **arguments: st.SearchStrategy[Any]) -> Expectation:
    left, right = draw(st.sampled_from(PAIRS))
    drawn = {name: draw(one) for name, one in arguments.items()}
    return _expectation(kind, column_A=left, column_B=right, ignore_row_if=draw(IGNORED), **drawn)


@st.composite
def _pairs(draw: st.DrawFn) -> Expectation:
    left, right = draw(st.sampled_from([("int", "str_or_null"), ("str_or_null", "bool")]))
    literals = [st.none() | LITERALS[name.partition("_")[0]] for name in (left, right)]
    pairs = draw(st.lists(st.tuples(*literals), max_size=5).map(tuple))
    return _expectation(
        "expect_column_pair_values_to_be_in_set",
        column_A=left,
        column_B=right,
        value_pairs_set=pairs,
        ignore_row_if=draw(IGNORED),
    )


@st.composite
def _sum(draw: st.DrawFn) -> Expectation:
    columns = draw(
        st.lists(st.sampled_from(["int", "int_b", "float", "float_b"]), min_size=2, unique=True)
    )
    return _expectation(
        "expect_multicolumn_sum_to_equal",
        column_list=tuple(columns),
        sum_total=draw(INTS),
        ignore_row_if=draw(IGNORED_ALL),
    )


LENGTHS = st.integers(0, 2)
DRAWN: Mapping[str, Callable[[str], st.SearchStrategy[Expectation]]] = {
    "expect_column_values_to_not_be_null": lambda kind: _about_one(kind, list(COLUMNS)),
    "expect_column_values_to_be_null": lambda kind: _about_one(kind, list(COLUMNS)),
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_not_be_in_set": _in_set,
    "expect_column_values_to_be_between": lambda _: _between(),
    "expect_column_value_lengths_to_be_between": lambda kind: _about_one(
        kind, OF_TEXTS, min_value=LENGTHS, max_value=st.integers(2, 9)
    ),
    "expect_column_value_lengths_to_equal": lambda kind: _about_one(kind, OF_TEXTS, value=LENGTHS),
    "expect_column_values_to_match_regex": lambda kind: _about_one(kind, OF_TEXTS, regex=PATTERNS),
    "expect_column_values_to_not_match_regex": lambda kind: _about_one(
        kind, OF_TEXTS, regex=PATTERNS
    ),
    "expect_column_values_to_match_regex_list": lambda kind: _about_one(
        kind,
        OF_TEXTS,
        regex_list=st.lists(PATTERNS, min_size=1, max_size=3).map(tuple),
        match_on=st.sampled_from(["any", "all"]),
    ),
    "expect_column_values_to_not_match_regex_list": lambda kind: _about_one(
        kind, OF_TEXTS, regex_list=st.lists(PATTERNS, min_size=1, max_size=3).map(tuple)
    ),
    "expect_column_values_to_match_strftime_format": lambda kind: _about_one(
        kind, OF_TEXTS, strftime_format=st.sampled_from(["%Y-%m-%d", "%d/%m/%y", "%Y"])
    ),
    "expect_column_values_to_be_json_parseable": lambda kind: _about_one(kind, OF_TEXTS),
    "expect_column_pair_values_to_be_equal": _pair,
    "expect_column_pair_values_A_to_be_greater_than_B": lambda kind: _pair(
        kind, or_equal=st.sampled_from([None, True])
    ),
    "expect_column_pair_values_to_be_in_set": lambda _: _pairs(),
    "expect_multicolumn_sum_to_equal": lambda _: _sum(),
}
NOT_PER_ROW = {
    "expect_column_values_to_be_of_type",
    "expect_column_values_to_be_in_type_list",
    "expect_column_values_to_be_dateutil_parseable",
    "expect_column_values_to_match_json_schema",
}


def test_every_kind_of_expectation_is_either_judged_per_row_or_refused() -> None:
    assert DRAWN.keys() | NOT_PER_ROW == KINDS
    assert not DRAWN.keys() & NOT_PER_ROW


@pytest.mark.parametrize("kind", DRAWN)
def test_a_row_breaks_an_expectation_where_great_expectations_finds_it_unexpected(
    kind: str,
) -> None:
    @settings(max_examples=25, deadline=None, database=None)
    @given(DRAWN[kind](kind), ROWS)
    def judge(expectation: Expectation, rows: list[dict[str, Cell]]) -> None:
        holds = prepare(expectation, COLUMNS)
        found = [number for number, row in enumerate(rows) if not holds(row)]
        assert found == _unexpected(expectation, rows)

    judge()


def _unexpected(expectation: Expectation, rows: Sequence[Mapping[str, Cell]]) -> list[int]:
    columns = [array_of([row[name] for row in rows], of) for name, of in COLUMNS.items()]
    frame = pa.table(columns, names=list(COLUMNS)).to_pandas(integer_object_nulls=True)
    (configured,) = compile_suite(_plan(expectation)).expectations
    batch = _definition().get_batch(batch_parameters={"dataframe": frame})
    result = batch.validate(
        configured,
        result_format={"result_format": "COMPLETE", "return_unexpected_index_query": False},
    )
    assert not result.exception_info.get("raised_exception"), result.exception_info
    return sorted(result.result.get("unexpected_index_list") or [])


@functools.cache
def _definition() -> Any:
    import great_expectations as gx  # noqa: PLC0415 - it takes seconds

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_pandas("rows")
    return source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("rows")


def _plan(expectation: Expectation) -> DatasetPlan:
    fields = [Field(name=name, type=of) for name, of in COLUMNS.items()]
    return DatasetPlan(
        name="Rows",
        version=1,
        schema=Schema((*fields, Field(name="at", type=Datetime(), role=Role.TIMESTAMP))),
        log=LogSpec(shape=LogShape.ROWS, keys=(), values=(), time_field="at"),
        aggregates=(),
        ladder_us=(),
        online=False,
        offline=True,
        expectations=(expectation,),
    )
