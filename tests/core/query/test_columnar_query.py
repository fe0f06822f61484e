"""A query by columns has the answers of the same query by rows."""

from collections.abc import Iterator, Sequence

import attrs
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._columnar_query import (
    EVENT_TIME,
    FOUND,
    execute_columns,
    is_columnar,
    native_array,
    raw_series,
    value_name,
)
from narthex._compiler.blueprint import compile_blueprint
from narthex._expr.polars.columns import cells_of, series_of
from narthex._formats.arrow import array_of
from narthex._formats.coercion import MistypedError, coerce
from narthex._ir.assets import DatasetPlan
from narthex._ir.entities import CodeExtractor, Definitions
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import (
    Between,
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Optional,
    Str,
    optional,
)
from narthex._query import plan as plan_read
from narthex._query.execution import execute
from narthex._runtime.workers import WorkerPool

USERS = [None, "ann", "bob", "cid", "dag"]
ROWS: dict[str, dict[Cell, tuple[Cell, ...]]] = {
    "Spend": {
        "ann": (3, 10.0, 2.5, (1.0, 2.0)),
        "bob": (0, 0.0, -1.0, ()),
        "cid": (None, None, 4.0, None),
    },
    "Users": {"ann": ("NO",), "cid": (None,)},
}


@attrs.frozen
class FoundRow:
    values: tuple[Cell, ...]
    event_time: int = 7


def by_rows(
    plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], _as_of: Sequence[int]
) -> list[FoundRow | None]:
    rows = [ROWS[plan.name].get(key) for (key,) in keys]
    return [None if row is None else FoundRow(row) for row in rows]


def by_columns(plan: DatasetPlan, keys: pl.DataFrame, take: Sequence[Column]) -> pl.DataFrame:
    rows = [ROWS[plan.name].get(key) for key in keys["k_user"]]
    places = {column.name: place for place, column in enumerate(plan.schema.values)}
    columns = [
        series_of(
            value_name(column),
            [None if row is None else row[places[column.name]] for row in rows],
            optional(column.type),
        )
        for column in take
    ]
    found = pl.Series(FOUND, [row is not None for row in rows])
    return pl.DataFrame([found, pl.Series(EVENT_TIME, [7] * len(rows)), *columns])


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


@pytest.mark.parametrize("rows", [1, 100])
def test_answers_are_those_by_rows(shop: Definitions, workers: WorkerPool, rows: int) -> None:
    plans = {one.name: one for one in compile_blueprint(shop).datasets}
    plan = plan_read(shop, plans, inputs=["F.user"], outputs=["F"])
    users = [USERS[1 + number % (len(USERS) - 1)] for number in range(rows)]
    as_of = list(range(rows))

    expected = execute(plan, {"F.user": users}, lookup=by_rows, workers=workers, as_of=as_of)
    answers = execute_columns(
        plan,
        pl.DataFrame({"F.user": users}),
        lookup=by_columns,
        workers=workers,
        as_of=pl.Series(as_of, dtype=pl.Int64),
    )

    assert is_columnar(plan)
    assert {name: cells_of(one, plan.types[name]) for name, one in answers.items()} == expected
    for name, one in answers.items():
        assert native_array(one, plan.types[name]) == array_of(expected[name], plan.types[name])


def test_given_features_are_not_computed(shop: Definitions, workers: WorkerPool) -> None:
    plans = {one.name: one for one in compile_blueprint(shop).datasets}
    plan = plan_read(shop, plans, inputs=["F.user", "F.mean"], outputs=["F.mean", "F.ratio"])

    answers = execute_columns(
        plan,
        pl.DataFrame({"F.user": ["ann"], "F.mean": [5.0]}),
        lookup=by_columns,
        workers=workers,
        as_of=pl.Series([0]),
    )

    assert [one.to_list() for one in answers.values()] == [[5.0], [2.0]]


def test_a_plan_with_code_that_looks_rows_up_is_refused(shop: Definitions) -> None:
    plans = {one.name: one for one in compile_blueprint(shop).datasets}
    (features,) = shop.featuresets
    looking = tuple(
        attrs.evolve(one, datasets=("Users",)) if isinstance(one, CodeExtractor) else one
        for one in features.extractors
    )
    edited = attrs.evolve(shop, featuresets=(attrs.evolve(features, extractors=looking),))

    def is_answered(definitions: Definitions, output: str) -> bool:
        return is_columnar(plan_read(definitions, plans, inputs=["F.user"], outputs=[output]))

    assert (is_answered(shop, "F.risk"), is_answered(edited, "F.total")) == (True, True)
    assert not is_answered(edited, "F.risk")


TEXTS = (
    "2026-03-01T10:00:00Z",
    "2026-03-01T10:00:00.123456Z",
    "2026-03-01T10:00:00.1Z",
    "2026-03-01T10:00:00+01:00",
    "2026-03-01 10:00:00",
    "2026-02-30T10:00:00Z",
    "2026-03-01T24:00:00Z",
    "2026-03-01T10:00:60Z",
    "0999-03-01T10:00:00Z",
    "2026-03-01",
    "1772359200",
    "yesterday",
)
RAW: tuple[tuple[DataType, st.SearchStrategy[object]], ...] = (
    (Int(), st.integers(-(2**63), 2**63 - 1)),
    (Int(), st.sampled_from(["1", " 2 ", "x"])),
    (Float(), st.floats()),
    (Bool(), st.booleans()),
    (Str(), st.text(max_size=3)),
    (Between(Int(), 0, 9), st.integers(-1, 12)),
    (Decimal(2), st.sampled_from(["1.50", "-3", "1.005"])),
    (Datetime(), st.sampled_from(TEXTS)),
    (Datetime(), st.integers(0, 2_000_000_000)),
    (Date(), st.sampled_from(["2026-03-01", "2026-13-01"])),
    (List(Int()), st.lists(st.integers(0, 9), max_size=2)),
)


def test_a_column_of_days_that_do_not_exist_is_refused() -> None:
    texts = ["2026-02-30T10:00:00Z", "2025-02-29T00:00:00.000001Z", "1900-02-29T23:59:59Z"]
    for column in (texts[:1], texts, [*texts, "2026-03-01T10:00:00Z"]):
        with pytest.raises(MistypedError, match="is not an instant"):
            raw_series("a", pa.chunked_array([column]), Datetime())


@given(st.data())
def test_raw_columns_become_the_cells_that_ingestion_makes(data: st.DataObject) -> None:
    of, values = data.draw(st.sampled_from(RAW))
    if data.draw(st.booleans()):
        of, values = Optional(of), st.none() | values
    column = pa.chunked_array([pa.array(data.draw(st.lists(values, max_size=5)))])

    try:
        expected = [coerce(value, of) for value in column.to_pylist()]
    except MistypedError:
        with pytest.raises(MistypedError):
            raw_series("a", column, of)
        return

    series = raw_series("a", column, of)
    assert series.name == "a"
    assert cells_of(series, of) == expected
