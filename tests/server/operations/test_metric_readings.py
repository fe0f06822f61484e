"""Readings of datasets, jobs and processes, and the metrics that are made from samples."""

import datetime as dt
import itertools
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex_ledger import (
    LATENCY_BOUNDS_S,
    MEASURES,
    Epoch,
    MetricCount,
    MetricKind,
    MetricPoints,
    MetricReading,
    MetricSpan,
    Phase,
    ShardView,
)
from narthex_server.operations.metric_sampling import dataset_readings, job_readings
from narthex_server.operations.metric_series import SHOWN, history_of, quantile_of
from narthex_server.services.meters import Meters
from narthex_server.services.process_samples import process_reading, until_next_minute_s
from narthex_server.services.served_branches import RunningJob, ServedBranch, ServedDataset
from tests.server.alerts.alert_values import NOON

FEED, INDEX = 5, 6
NOON_US = int(NOON.timestamp() * 1_000_000)
SECOND = 1_000_000


def job(*progress: Mapping[str, Any], lag_ms: int | None = None) -> RunningJob:
    """Return a job with a shard for each of these reports."""
    return RunningJob(
        label="",
        shards=tuple(
            ShardView(
                shard=number,
                slot=number,
                slot_owner="one",
                slot_epoch=Epoch(1),
                seen_epoch=Epoch(1),
                seen_generation=1,
                phase=Phase.CAUGHT_UP,
                lag_ms=lag_ms,
                caught_up_reports=2,
                progress={**report},
                backfill=None,
                reported_at=NOON,
            )
            for number, report in enumerate(progress)
        ),
    )


def branch(name: str = "main") -> ServedBranch:
    dataset = ServedDataset(
        name="Orders",
        feed_id=FEED,
        log="orders_log",
        quarantine="orders_quarantine",
        bounds=(),
        jobs=(FEED, INDEX),
    )
    return ServedBranch(name=name, commit_id=UUID(int=7), since=NOON, datasets=(dataset,), jobs={})


def read_dataset(
    jobs: Mapping[int, RunningJob], ends: Mapping[str, Mapping[int, int]], **more: Any
) -> MetricReading:
    (found,) = dataset_readings(
        [branch()], jobs, watermarks=more.get("watermarks", {}), ends=ends, now_us=NOON_US
    )
    return found


def test_a_dataset_is_read_from_its_feed_its_jobs_and_the_ends_of_its_topics() -> None:
    jobs = {
        FEED: job(
            {"newest_event_time": NOON_US - 9 * SECOND, "late": 2, "behind": 3},
            {"newest_event_time": NOON_US - 4 * SECOND, "late": 1, "behind": 4},
        ),
        INDEX: job({"behind": 5}),
    }
    ends = {"orders_log": {0: 40, 1: 2}, "orders_quarantine": {0: 7}}

    found = read_dataset(jobs, ends, watermarks={FEED: NOON_US - 60 * SECOND})

    assert found == MetricReading(
        kind=MetricKind.DATASET,
        branch="main",
        subject="Orders",
        gauges={"freshness_s": 4.0, "watermark_lag_s": 60.0, "behind": 12},
        counters={
            "rows": MetricCount(of="orders_log", count=42),
            "quarantined": MetricCount(of="orders_quarantine", count=7),
            "late": MetricCount(of=str(FEED), count=3),
        },
    )


def test_numbers_without_a_report_are_unknown_and_not_zero() -> None:
    unknown = {"freshness_s": None, "watermark_lag_s": None, "behind": None}

    assert read_dataset({}, {}).gauges == unknown
    assert read_dataset({}, {}).counters == {}
    half = read_dataset({FEED: job({"behind": 3}), INDEX: job({"behind": None})}, {})
    assert half.gauges["behind"] is None


def test_an_event_time_in_the_future_has_the_age_0() -> None:
    jobs = {FEED: job({"newest_event_time": NOON_US + SECOND})}

    assert read_dataset(jobs, {}).gauges["freshness_s"] == 0


def test_each_branch_has_its_own_reading_of_a_shared_dataset() -> None:
    found = dataset_readings([branch(), branch("dev")], {}, watermarks={}, ends={}, now_us=NOON_US)

    assert [(one.branch, one.subject) for one in found] == [("main", "Orders"), ("dev", "Orders")]


def test_a_job_is_read_with_its_lag_and_the_restarts_of_all_shards() -> None:
    report = {"behind": 2, "restarts": 1}

    (found,) = job_readings({FEED: job(report, report, lag_ms=1500)}, now_us=NOON_US)

    assert (found.kind, found.branch, found.subject) == (MetricKind.JOB, "", str(FEED))
    unknown = {"freshness_s": None, "since_success_s": None}
    assert found.gauges == {"lag_s": 1.5, "behind": 4, **unknown}
    assert found.counters == {"restarts": MetricCount(of="", count=2)}


@pytest.mark.parametrize(
    ("report", "of", "count"),
    [
        ({"rows": 7, "written": None}, "rows", 7),
        ({"rows": 7, "written": 5}, "written", 5),
        ({"written": 5, "offsets": {"a": {"0": 90}}, "behind": 0}, "written", 5),
        ({"offsets": {"b": {"0": 4}, "a": {"0": 90, "1": 3}}, "behind": 2}, "a b", 97),
    ],
)
def test_a_job_counts_what_it_has_written_or_read_or_else_its_offsets(
    report: dict[str, Any], of: str, count: int
) -> None:
    (found,) = job_readings({FEED: job(report)}, now_us=NOON_US)

    assert found.counters == {"rows": MetricCount(of=of, count=count)}


def test_offsets_of_a_run_that_has_just_begun_are_not_counted() -> None:
    for report in ({"offsets": {}, "behind": 0}, {"offsets": {"a": {"0": 90}}, "behind": None}):
        (found,) = job_readings({FEED: job(report)}, now_us=NOON_US)

        assert found.counters == {}


def test_a_source_is_read_with_its_newest_row_and_the_shard_that_worked_longest_ago() -> None:
    old = {"newest_event_time": NOON_US - 9 * SECOND, "succeeded_at": NOON_US - 60 * SECOND}
    new = {"newest_event_time": NOON_US - 4 * SECOND, "succeeded_at": NOON_US - 30 * SECOND}
    rows = {"rows": 3, "quarantined": 1}

    (found,) = job_readings({FEED: job(old | rows, new | rows)}, now_us=NOON_US)

    assert (found.gauges["freshness_s"], found.gauges["since_success_s"]) == (4, 60)
    assert {name: one.count for name, one in found.counters.items()} == {
        "rows": 6,
        "quarantined": 2,
    }


def test_a_process_counts_queries_and_lookups_and_those_that_failed() -> None:
    meters = Meters()
    lookup = "/api/v1/dataset/{name}/lookup"
    for route, status in (
        ("/api/v1/query", "200"),
        ("/api/v1/query", "422"),
        ("/api/v1/query", "429"),
        (lookup, "503"),
        ("/api/v1/commits", "500"),
    ):
        meters.requests.add(route=route, status=status)
        meters.took.observe(0.003, route=route)
    meters.took.observe(9.0, route=lookup)

    found = process_reading("server:one:1", meters)

    counts = {name: one.count for name, one in found.counters.items()}
    assert (counts["queries"], counts["errors"]) == (4, 2)
    assert [counts[f"within_{bound}_s"] for bound in LATENCY_BOUNDS_S[:4]] == [0, 0, 4, 4]
    assert counts["within_5.0_s"] == 4
    measures = {measure.name for measure in MEASURES[MetricKind.PROCESS]}
    assert set(counts) | {"counted_minutes"} == measures


@given(st.floats(0, 4e9))
def test_the_next_sample_is_a_second_into_the_next_minute(now_s: float) -> None:
    waits = until_next_minute_s(now_s)

    assert 0 < waits <= 60
    assert (now_s + waits) % 60 == pytest.approx(1.0, abs=1e-3)


def histogram(durations: list[float]) -> list[float]:
    return [float(sum(one <= bound for one in durations)) for bound in LATENCY_BOUNDS_S]


@given(st.lists(st.floats(0, 5), min_size=1), st.floats(0.01, 1))
def test_an_estimated_quantile_is_in_the_bucket_of_the_true_one(
    durations: list[float], share: float
) -> None:
    wanted = share * len(durations)
    rank = next(n for n in range(1, len(durations) + 1) if n >= wanted)
    true = sorted(durations)[rank - 1]

    found = quantile_of(share, histogram(durations), len(durations))

    bounds = [0.0, *LATENCY_BOUNDS_S]
    low, high = next(pair for pair in itertools.pairwise(bounds) if true <= pair[1])
    assert found is not None
    assert low <= found <= high * (1 + 1e-9)


def test_a_quantile_of_nothing_is_unknown_and_beyond_the_bounds_it_is_the_last() -> None:
    assert quantile_of(0.5, histogram([]), 0) is None
    assert quantile_of(0.99, histogram([9.0, 8.0]), 2) == LATENCY_BOUNDS_S[-1]


def points(kind: MetricKind, *samples: Mapping[str, float] | None) -> MetricPoints:
    names = [measure.name for measure in MEASURES[kind]]
    return MetricPoints(
        begin=NOON,
        minutes=1,
        points=tuple(
            None if one is None else tuple(one.get(name) for name in names) for one in samples
        ),
    )


def values(kind: MetricKind, *samples: Mapping[str, float] | None) -> dict[str, Any]:
    found = history_of(kind, MetricSpan.HOUR, points(kind, *samples))
    return {one["name"]: one["values"] for one in found["series"]}


def test_rates_are_of_the_minutes_that_were_counted_and_gaps_stay_gaps() -> None:
    found = values(
        MetricKind.DATASET,
        {"rows": 90, "counted_minutes": 9, "late": 4, "freshness_s": 2.5},
        None,
        {"freshness_s": 3},
    )

    assert found["rows"] == [10, None, None]
    assert found["late"] == [4, None, None]
    assert found["freshness"] == [2.5, None, 3]


def test_queries_are_shown_as_a_rate_with_their_median_and_their_99th_percentile() -> None:
    durations = [number * 0.05 / 6000 for number in range(6000)]
    counts = dict(zip(LATENCY_BOUNDS_S, histogram(durations), strict=True))
    within = {f"within_{bound}_s": count for bound, count in counts.items()}

    found = values(
        MetricKind.PROCESS,
        {"queries": 6000, "counted_minutes": 2, "errors": 3, **within},
        {"queries": 0, "counted_minutes": 1, "errors": 0},
    )

    assert found["queries"] == [50, 0]
    assert found["errors"] == [3, 0]
    assert found["p50"] == [pytest.approx(0.025, rel=0.1), None]
    assert found["p99"] == [pytest.approx(0.0495, rel=0.02), None]


def test_each_kind_shows_metrics_with_names_of_their_own() -> None:
    for kind in MetricKind:
        names = [shown.name for shown in SHOWN[kind]]
        assert len(set(names)) == len(names)
        found = history_of(kind, MetricSpan.HOUR, points(kind, None))
        assert found["from"] == NOON.isoformat()
        assert dt.timedelta(minutes=found["bucket_minutes"]) == dt.timedelta(minutes=1)
