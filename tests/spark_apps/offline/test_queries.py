"""Whole offline queries: by columns and by rows, again at the same offsets, and too early."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from narthex._base import Json, render_instant
from narthex._compiler.blueprint import compile_blueprint
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.aggregate_specs import Count, Sum
from narthex._ir.assets import DatasetPlan, HistorySpec
from narthex._ir.code import Requirement, UserCode
from narthex._ir.entities import (
    AliasExtractor,
    Cdc,
    CodeExtractor,
    Dataset,
    Definitions,
    ExpressionExtractor,
    Extractor,
    Feature,
    Featureset,
    Index,
    LookupExtractor,
    Pipeline,
    Source,
    WebhookEndpoint,
)
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.facts import Cell, Fact, Version
from narthex._ir.operators import Aggregate, DatasetRef
from narthex._ir.schema import Field, Metadata, Role, Schema
from narthex._ir.types import Bool, DataType, Datetime, Decimal, Float, Int, List, Optional, Str
from narthex._ir.windows import Continuous
from narthex._runtime.workers import WorkerPool
from narthex_spark_apps.offline import bucket_job, columnar_lookups, pins, queries
from narthex_spark_apps.offline.columnar_lookups import MOST_OFFSETS
from narthex_spark_apps.offline.offline_request import OfflineDataset, OfflineQuery
from narthex_spark_apps.offline.pins import pin
from narthex_spark_apps.offline.queries import OfflineResult, answer_query
from narthex_stores import HistoryAdapter, HistoryTable, LogRow, TransientError

pytestmark = pytest.mark.spark

Row: TypeAlias = tuple[Cell, int, tuple[Cell, ...]]
"""Key, instant and values."""

HOUR_US = 3_600_000_000
START_US = 1_772_409_600_000_000
"""2026-03-02."""
COUNTRIES = ("NO", "SE", "FI")
USERS = 12
LOGS = {"Users": "nx_users", "Countries": "nx_countries", "Spend": "nx_spend"}


def schema_of(keys: dict[str, DataType], values: dict[str, DataType], at: str) -> Schema:
    return Schema(
        (
            *(Field(name=name, type=of, role=Role.KEY) for name, of in keys.items()),
            *(Field(name=name, type=of) for name, of in values.items()),
            Field(name=at, type=Datetime(), role=Role.TIMESTAMP),
        )
    )


def dataset_of(name: str, schema: Schema) -> Dataset:
    connector = WebhookEndpoint(webhook="w", endpoint=name)
    return Dataset(
        name=name,
        version=1,
        schema=schema,
        sources=(Source(connector=connector, disorder_us=0, cdc=Cdc.UPSERT),),
        index=Index(online=True, offline=True),
        metadata=Metadata(owner="a@b.co"),
    )


USER_VALUES = {
    "country": Optional(Str()),
    "balance": Decimal(2),
    "visits": Int(),
    "tags": List(Str()),
}
ORDERS = WebhookEndpoint(webhook="w", endpoint="Orders")
SPENT = (
    Sum(into="spent_1d", window=Continuous("1d"), of="amount"),
    Count(into="orders", window=Continuous("forever")),
)
SPEND_VALUES = {"spent_1d": Float(), "orders": Int()}
EXTRACTORS: tuple[Extractor, ...] = (
    LookupExtractor(
        feature="country", dataset="Users", column="country", default="?", has_default=True
    ),
    LookupExtractor(feature="balance", dataset="Users", column="balance"),
    LookupExtractor(feature="visits", dataset="Users", column="visits"),
    LookupExtractor(feature="moved_at", dataset="Users", column="moved_at"),
    LookupExtractor(feature="tags", dataset="Users", column="tags"),
    AliasExtractor(feature="home", source="F.country"),
    LookupExtractor(feature="spent_1d", dataset="Spend", column="spent_1d"),
    LookupExtractor(
        feature="orders", dataset="Spend", column="orders", default=-1, has_default=True
    ),
    LookupExtractor(feature="rate", dataset="Countries", column="rate"),
    ExpressionExtractor(
        feature="whole",
        expression=Call("mul", (Ref("visits"), Literal(2, Int()))),
    ),
    ExpressionExtractor(
        feature="has_moved", expression=Call("lt", (Ref("moved_at"), Call("now", ())))
    ),
    CodeExtractor(
        name="code",
        inputs=("F.country",),
        outputs=("code",),
        code=UserCode(
            entry="code",
            source="def code(cls, ts, country):\n    return country.str.lower().rename('code')\n",
            requires=(Requirement(distribution="pandas", version="2.3.3"),),
            python="3.11",
        ),
        version=1,
    ),
)
FEATURES: dict[str, DataType] = {
    "user": Int(),
    "country": Str(),
    "home": Str(),
    "balance": Optional(Decimal(2)),
    "visits": Optional(Int()),
    "moved_at": Optional(Datetime()),
    "tags": Optional(List(Str())),
    "spent_1d": Optional(Float()),
    "orders": Int(),
    "rate": Optional(Float()),
    "whole": Optional(Int()),
    "has_moved": Optional(Bool()),
    "code": Str(),
}


def definitions() -> Definitions:
    users = dataset_of("Users", schema_of({"user": Int()}, USER_VALUES, "moved_at"))
    countries = dataset_of("Countries", schema_of({"country": Str()}, {"rate": Float()}, "set_at"))
    orders = attrs.evolve(
        dataset_of("Orders", schema_of({}, {"user": Int(), "amount": Float()}, "bought_at")),
        sources=(Source(connector=ORDERS, disorder_us=0, cdc=Cdc.APPEND),),
        index=None,
    )
    spend = attrs.evolve(
        dataset_of("Spend", schema_of({"user": Int()}, SPEND_VALUES, "bought_at")),
        sources=(),
        pipelines=(
            Pipeline(
                name="spend",
                inputs=("Orders",),
                terminal=Aggregate(DatasetRef("Orders"), ("user",), SPENT),
            ),
        ),
    )
    features = Featureset(
        name="F",
        features=tuple(Feature(name=name, type=of) for name, of in FEATURES.items()),
        extractors=EXTRACTORS,
        metadata=Metadata(owner="a@b.co"),
    )
    return Definitions(datasets=(users, countries, orders, spend), featuresets=(features,))


def facts_of(plan: DatasetPlan, rows: Sequence[Row], *, ends: Mapping[int, int]) -> list[LogRow]:
    """Return rows as a log of two partitions, from these next offsets; no values is an absence."""
    ends = {0: 0, 1: 0} | dict(ends)
    first = sum(ends.values())
    log: list[LogRow] = []
    for number, (key, at, values) in enumerate(rows, start=first):
        partition = sum(key_bytes(plan.log.keys, (key,))) % 2
        fact = Fact(
            row_id=keyed_row_id(key_bytes(plan.log.keys, (key,)), at),
            version=Version(number.to_bytes(8)),
            event_time=at,
            key=(key,),
            values=values or (None,) * len(plan.log.values),
            alive=bool(values),
        )
        log.append(LogRow(partition, ends[partition], fact))
        ends[partition] += 1
    return log


def user_rows(count: int, *, first: int = 0) -> list[Row]:
    return [
        (
            number * 7 % USERS,
            START_US + number * 5 % 24 * HOUR_US,
            ()
            if number % 9 == 8
            else (
                None if number % 5 == 4 else COUNTRIES[number % 3],
                number * 100 - 250,
                number,
                ("new", str(number)) if number % 2 else (),
            ),
        )
        for number in range(first, first + count)
    ]


@attrs.frozen
class Shop:
    """Two datasets with histories, and queries of a featureset over them."""

    root: Path
    plans: dict[str, DatasetPlan]
    tables: dict[str, HistoryTable]

    @classmethod
    def make(cls, root: Path) -> "Shop":
        plans = {one.name: one for one in compile_blueprint(definitions()).datasets}
        adapter = HistoryAdapter(history_dir=str(root))
        tables = {}
        for name, log in LOGS.items():
            spec = HistorySpec(log=plans[name].log)
            adapter.create(log, spec, asset_id=1, timeout_s=20.0)
            tables[name] = HistoryTable(root / log, spec)
        shop = cls(root, plans, tables)
        shop.append("Users", user_rows(60))
        shop.append("Spend", [(n % 5, START_US + n * HOUR_US, (n / 8,)) for n in range(40)])
        shop.append(
            "Countries",
            [(c, START_US + n * 6 * HOUR_US, (n / 7,)) for n, c in enumerate(COUNTRIES)],
        )
        return shop

    def append(self, name: str, rows: Sequence[Row]) -> None:
        """Append rows to a history, after those that it has."""
        table, had = self.tables[name], self.tables[name].offsets()
        table.append_rows(facts_of(self.plans[name], rows, ends=had))

    def query(
        self,
        outputs: Sequence[str] = ("F",),
        *,
        offsets: Sequence[str] | None = None,
        at: str = "",
        name: str = "answers",
    ) -> OfflineQuery:
        users = [number % (USERS + 2) for number in range(120)]
        instants = [render_instant(START_US + n * 13 % 30 * HOUR_US) for n in range(120)]
        spine: dict[str, list[Any]] = {"F.user": [*users], "as_of": [*instants]}
        if offsets is not None:
            spine["offsets"] = [*offsets]
        pq.write_table(pa.table(spine), self.root / "spine.parquet")
        return OfflineQuery(
            definitions=definitions(),
            inputs=("F.user",),
            outputs=tuple(outputs),
            timestamp_column="as_of",
            offsets_column=None if offsets is None else "offsets",
            at=at,
            spine=self.root / "spine.parquet",
            output=self.root / f"{name}.parquet",
            datasets={
                name: OfflineDataset(plan=self.plans[name], history=str(self.root / log), log=log)
                for name, log in LOGS.items()
            },
        )


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.make(tmp_path)


@pytest.fixture(scope="module")
def workers() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


def answer(
    spark: SparkSession, query: OfflineQuery, workers: WorkerPool
) -> tuple[pa.Table, OfflineResult]:
    result = answer_query(lambda: spark, query, workers=workers, progress=lambda _: None)
    return pq.read_table(query.output), result


def by_rows(
    spark: SparkSession,
    query: OfflineQuery,
    workers: WorkerPool,
    monkeypatch: pytest.MonkeyPatch,
) -> pa.Table:
    """Answer a query by rows, whatever its plan."""
    with monkeypatch.context() as patch:
        patch.setattr(queries, "is_columnar", lambda _: False)
        return answer(spark, query, workers)[0]


def limits(shop: Shop, part: int) -> str:
    """Return a third, two thirds or all of each log as the offsets of a row."""
    return json.dumps(
        {
            name: {LOGS[name]: {str(p): end * part // 3 for p, end in table.offsets().items()}}
            for name, table in shop.tables.items()
        }
    )


def ways(spark: SparkSession, query: OfflineQuery, workers: WorkerPool) -> dict[str, str]:
    """Answer a query; return how each dataset was looked up."""
    told: list[dict[str, Json]] = []
    answer_query(lambda: spark, query, workers=workers, progress=told.append)
    return {str(one["looking_up"]): str(one["by"]) for one in told if "by" in one}


@pytest.mark.slow
def test_answers_by_columns_are_the_answers_by_rows(
    spark: SparkSession, shop: Shop, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for offsets in (None, [limits(shop, number % 4) for number in range(120)]):
        query = shop.query(offsets=offsets)

        table, _ = answer(spark, query, workers)

        assert table == by_rows(spark, query, workers, monkeypatch)
        distinct = {name: len(set(map(str, table[name].to_pylist()))) for name in FEATURES_READ}
        assert min(distinct.values()) > 1, distinct


@pytest.mark.slow
def test_answers_of_executors_are_those_of_the_driver(
    spark: SparkSession, shop: Shop, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for offsets in (None, [limits(shop, 2 + number % 2) for number in range(120)]):
        query = shop.query(offsets=offsets)
        table, _ = answer(spark, query, workers)

        with monkeypatch.context() as patch:
            patch.setattr(columnar_lookups, "HELD_BYTES", -1)
            patch.setattr(bucket_job, "BUCKET_BYTES", 2_000)
            by = ways(spark, query, workers)

        assert pq.read_table(query.output) == table
        join, windows = "as-of join on executors", "windows on executors"
        assert by == {"Users": join, "Countries": join, "Spend": windows}


def shares(
    spark: SparkSession, query: OfflineQuery, workers: WorkerPool
) -> list[tuple[str, float]]:
    """Answer a query; return the work that each report names, and the share that was done."""
    told: list[dict[str, Any]] = []
    answer_query(lambda: spark, query, workers=workers, progress=told.append)
    assert {one["rows"] for one in told} == {120}
    return [
        (str(one.get("looking_up", "writing" if "writing" in one else "")), one["share"])
        for one in told
    ]


def test_by_columns_the_share_is_that_of_the_steps_that_all_rows_have_passed(
    spark: SparkSession, shop: Shop, workers: WorkerPool
) -> None:
    found = shares(spark, shop.query(("F.country", "F.rate")), workers)

    assert found == [
        ("", 0.0),
        ("Users", 0.0),
        ("", 0.5),
        ("Countries", 0.5),
        ("", 1.0),
        ("writing", 1.0),
    ]


@pytest.mark.slow
def test_by_rows_the_share_is_that_of_the_rows_that_are_answered(
    spark: SparkSession, shop: Shop, workers: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "is_columnar", lambda _: False)

    found = shares(spark, shop.query(("F.country", "F.rate")), workers)

    assert found == [
        ("", 0.0),
        ("", 0.0),
        ("Users", 0.0),
        ("", 0.0),
        ("Countries", 0.0),
        ("", 1.0),
        ("writing", 1.0),
    ]


def test_datasets_that_the_kernel_refuses_are_looked_up_in_a_spark_job(
    spark: SparkSession, shop: Shop, workers: WorkerPool
) -> None:
    texts = [json.dumps({"Users": {"nx_users": {"0": n}}}) for n in range(MOST_OFFSETS + 1)]

    def looked_up(distinct: int) -> dict[str, str]:
        query = shop.query(offsets=[texts[n % distinct] for n in range(120)])
        return ways(spark, query, workers)

    join, playback, windows = "as-of join", "historical lookup", "windows"
    few, many = looked_up(MOST_OFFSETS), looked_up(MOST_OFFSETS + 1)
    assert few == {"Users": join, "Countries": join, "Spend": windows}
    assert many == {"Users": playback, "Countries": join, "Spend": windows}


@pytest.mark.parametrize("outputs", [("F",), ("F.country", "F.visits")])
def test_a_query_asked_again_at_its_offsets_has_the_same_answers(
    spark: SparkSession, shop: Shop, workers: WorkerPool, outputs: tuple[str, ...]
) -> None:
    all_of = limits(shop, 3)
    first, result = answer(spark, shop.query(outputs), workers)
    shop.append("Users", user_rows(30, first=60))
    shop.tables["Users"].compact()

    again, repeated = answer(
        spark, shop.query(outputs, at=json.dumps(result.offsets), name="again"), workers
    )
    newest, grown = answer(spark, shop.query(outputs, name="newest"), workers)

    assert result.offsets == json.loads(all_of)
    assert (again, repeated.offsets) == (first, result.offsets)
    assert newest != first
    assert grown.offsets != result.offsets


def test_rows_without_offsets_of_their_own_are_read_at_those_of_the_query(
    spark: SparkSession, shop: Shop, workers: WorkerPool
) -> None:
    early, late = limits(shop, 1), limits(shop, 3)
    mixed, _ = answer(
        spark, shop.query(offsets=["" if n % 2 else late for n in range(120)], at=early), workers
    )
    at_early, _ = answer(spark, shop.query(at=early, name="early"), workers)
    at_late, _ = answer(spark, shop.query(at=late, name="late"), workers)

    assert at_early != at_late
    chosen = [at_early if n % 2 else at_late for n in range(120)]
    assert mixed.to_pylist() == [table.to_pylist()[n] for n, table in enumerate(chosen)]


def test_a_query_fails_if_its_history_does_not_reach_the_offsets_of_a_row(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "REACH_WITHIN_S", 0.0)
    ahead = json.dumps({"Users": {"nx_users": {"0": 10_000}}})

    with pytest.raises(TransientError, match="history of `Users` contains the offsets"):
        pin(shop.query(), [ahead])


@pytest.mark.parametrize("text", ["[]", '{"Users": 1}', '{"Users": {"nx_users": []}}'])
def test_offsets_of_another_form_are_refused(shop: Shop, text: str) -> None:
    with pytest.raises(TypeError, match="does not name offsets"):
        pin(shop.query(), [text])


FEATURES_READ: Mapping[str, object] = {f"F.{name}": of for name, of in FEATURES.items()}
