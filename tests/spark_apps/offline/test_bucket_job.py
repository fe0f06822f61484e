"""Kernels on Spark's executors find what an index finds, in small buckets."""

import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession

from narthex._columnar_query import FOUND
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.aggregate_specs import Sum
from narthex._ir.assets import DatasetPlan
from narthex._ir.facts import Cell, Fact, RowId, Version
from narthex._ir.windows import Continuous
from narthex_spark_apps.offline import bucket_job
from narthex_spark_apps.offline.asof_kernel import KeyedStates
from narthex_spark_apps.offline.bucket_job import look_up_on_executors
from narthex_spark_apps.offline.historical_lookup import ReplayLimit
from narthex_spark_apps.offline.kernel import InexactError
from narthex_spark_apps.offline.offline_request import OfflineDataset
from narthex_spark_apps.offline.pins import PinnedDataset
from narthex_spark_apps.offline.window_kernel import WindowRows
from narthex_stores import HistorySnapshot, LogRow, LookupResult, to_table
from tests.spark_apps.offline import test_window_kernel
from tests.spark_apps.offline.test_asof_kernel import (
    VALUES,
    Case,
    asked_of,
    cases,
    found_by_index,
    plan_of,
    results_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BYTES = 300
"""The size of a bucket: a few states."""

ROWS_OF_A_FILE = 9


@pytest.fixture(autouse=True, scope="module")
def _small_buckets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_job, "BUCKET_BYTES", BYTES)
        yield


def history_of(case: Case, directory: Path) -> PinnedDataset:
    """Write the rows of a case as the history of its dataset."""
    return written(case.plan, case.rows, directory)


def written(plan: DatasetPlan, rows: Sequence[LogRow], directory: Path) -> PinnedDataset:
    """Write rows as files of a history."""
    files: list[str] = []
    for start in range(0, len(rows), ROWS_OF_A_FILE):
        path = directory / f"{start:05}.parquet"
        pq.write_table(to_table(plan.log, rows[start : start + ROWS_OF_A_FILE]), path)
        files.append(str(path))
    ends = {0: 0, 1: 0}
    for row in rows:
        ends[row.partition] = max(ends[row.partition], row.offset + 1)
    return PinnedDataset(
        dataset=OfflineDataset(plan=plan, history=str(directory), log="topic"),
        history=HistorySnapshot(offsets=ends, files=tuple(files), states=len(rows), storage={}),
    )


def limits_of(case: Case) -> ReplayLimit:
    return json.dumps({str(number): offset for number, offset in sorted(case.limits.items())})


def found_by_spark(spark: SparkSession, case: Case) -> list[LookupResult | None]:
    with tempfile.TemporaryDirectory() as directory:
        pinned = history_of(case, Path(directory))
        rows = look_up_on_executors(spark, KeyedStates, pinned, limits_of(case), asked_of(case))
    assert rows.height == len(case.keys)
    return results_of(rows)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=cases())
def test_executors_find_what_an_index_finds(spark: SparkSession, case: Case) -> None:
    assert found_by_spark(spark, case) == found_by_index(case)[0]


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=test_window_kernel.cases(may_be_correctable=False))
def test_executors_compute_windows_as_an_index_does(
    spark: SparkSession, case: test_window_kernel.Case
) -> None:
    rows = [LogRow(0, number, fact) for number, fact in enumerate(case.facts)]
    with tempfile.TemporaryDirectory() as directory:
        pinned = written(case.plan, rows, Path(directory))
        asked = test_window_kernel.asked_of(case)
        found = look_up_on_executors(spark, WindowRows, pinned, pinned.limits, asked)

    test_window_kernel.assert_same(case, test_window_kernel.results_of(case, found))


def test_values_without_an_exact_answer_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    window = Continuous(3)
    plan = test_window_kernel.plan_of([Sum(into="price", window=window, of="price")])
    fact = Fact(
        row_id=RowId(b"1"),
        version=Version(b""),
        event_time=1,
        key=("a",),
        values=(1, math.inf, None, None, 1),
    )
    case = test_window_kernel.Case(plan, [fact], [("a",)], [2])
    pinned = written(plan, [LogRow(0, 0, fact)], tmp_path)

    with pytest.raises(InexactError):
        look_up_on_executors(
            spark, WindowRows, pinned, pinned.limits, test_window_kernel.asked_of(case)
        )


def log_of(count: int, *, users: int, step: int = 1) -> Case:
    """Return users with states at `step` instants each, and a question for each instant of each."""
    plan = plan_of(["user", "number"], is_correctable=False, history_us=None)
    rows: list[LogRow] = []
    for number in range(count):
        key: tuple[Cell, ...] = (f"user {number % users}" * 9, number % users)
        at = number // users * step
        fact = Fact(
            row_id=keyed_row_id(key_bytes(plan.log.keys, key), at),
            version=Version(number.to_bytes(4)),
            event_time=at,
            key=key,
            values=(f"text {number}" * 30, number, 0.5, None, 1, 2, (number,)),
        )
        rows.append(LogRow(0, number, fact))
    asked = [(fact.key, at) for fact in (row.fact for row in rows) for at in (fact.event_time,)]
    keys, as_of = [key for key, _ in asked], [at for _, at in asked]
    return Case(plan, rows, {0: count}, keys, as_of)


def test_states_are_divided_into_buckets_of_a_size(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = log_of(400, users=40)
    pinned = history_of(case, tmp_path)
    size = pinned.bytes_in_memory(KeyedStates.columns(case.plan.index, VALUES, versioned=True))
    monkeypatch.setattr(bucket_job, "BUCKET_BYTES", 20_000)

    assert 5 < math.ceil(size / bucket_job.BUCKET_BYTES) < 30
    assert found_by_spark(spark, case) == found_by_index(case)[0]


def test_two_states_at_one_instant_are_ordered_by_version(spark: SparkSession) -> None:
    case = log_of(90, users=9)
    again = [
        attrs.evolve(row, offset=90 + place, fact=attrs.evolve(row.fact, version=version))
        for place, (row, version) in enumerate(
            zip(case.rows[::7], map(Version, (b"", *[b"\xff"] * 20)), strict=False)
        )
    ]
    changed = [
        attrs.evolve(row, fact=attrs.evolve(row.fact, values=("new", *row.fact.values[1:])))
        for row in again
    ]
    both = attrs.evolve(case, rows=[*case.rows, *changed], limits={0: 90 + len(again)})

    found = found_by_spark(spark, both)

    assert found == found_by_index(both)[0]
    assert sum(one is not None and one.values[0] == "new" for one in found) == len(again) - 1


def test_keys_with_a_null_and_no_keys_find_no_row(spark: SparkSession) -> None:
    case = log_of(20, users=2)
    nulls = attrs.evolve(case, keys=[(None, 0), ("a", None)], as_of=[9, 9])
    nobody = attrs.evolve(case, keys=[("nobody", 1)], as_of=[9])

    assert found_by_spark(spark, nulls) == [None, None]
    assert found_by_spark(spark, nobody) == [None]
    assert found_by_spark(spark, attrs.evolve(case, keys=[], as_of=[])) == []


def test_states_after_the_greatest_instant_are_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = log_of(90, users=9)
    pinned = history_of(case, tmp_path)
    asked = [(row.fact.key, 1) for row in case.rows[:9]]
    early = attrs.evolve(case, keys=[key for key, _ in asked], as_of=[at for _, at in asked])
    for place in (5, 6, 7, 9):  # the size of all states is estimated from the others
        destroy_pages(Path(pinned.history.files[place]))

    rows = look_up_on_executors(spark, KeyedStates, pinned, limits_of(case), asked_of(early))

    assert rows[FOUND].all()
    assert results_of(rows) == found_by_index(early)[0]
    with pytest.raises(pl.exceptions.ComputeError):
        pl.read_parquet(pinned.history.files[5])


def destroy_pages(path: Path) -> None:
    """Overwrite all of a Parquet file but its footer."""
    content = path.read_bytes()
    footer = pq.read_metadata(path).serialized_size + 8
    path.write_bytes(content[:4] + b"\xff" * (len(content) - footer - 4) + content[-footer:])
