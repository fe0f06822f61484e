"""Samples of metrics: their buckets, growth of counters, folds and gaps, as pure functions."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex_ledger import MEASURES, MetricCount, MetricKind, MetricReading, MetricSpan
from narthex_ledger.model.metric_views import (
    MINUTE,
    RESOLUTIONS,
    Numbers,
    bucket_of,
    completed,
    folded,
    points_of,
    sampled,
)

JOB = MetricKind.JOB
NOON = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)
INSTANTS = st.datetimes(
    min_value=dt.datetime(1970, 1, 1),  # noqa: DTZ001 - the strategy adds the zone
    max_value=dt.datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(dt.UTC),
)
LENGTHS = st.sampled_from([one.minutes for one in RESOLUTIONS])
NUMBERS = st.none() | st.integers(0, 1000).map(float)
MINUTES = st.dictionaries(
    st.integers(0, 700).map(lambda number: NOON + number * MINUTE),
    st.tuples(*[NUMBERS] * len(MEASURES[JOB])),
)
COUNTS = st.lists(st.integers(0, 1000), min_size=1)


def reading(**counters: tuple[str, float]) -> MetricReading:
    counts = {name: MetricCount(of=of, count=count) for name, (of, count) in counters.items()}
    return MetricReading(kind=MetricKind.DATASET, branch="main", subject="Orders", counters=counts)


def grown(before: tuple[str, float] | None, after: tuple[str, float]) -> tuple[float | None, ...]:
    """Return the rows of a sample, and the minutes in which they were counted."""
    known = {} if before is None else reading(rows=before).counters
    names = [measure.name for measure in MEASURES[MetricKind.DATASET]]
    numbers = dict(zip(names, sampled(reading(rows=after), known), strict=True))
    return numbers["rows"], numbers["counted_minutes"]


def known_sum(samples: dict[dt.datetime, Numbers], place: int) -> float:
    return sum(numbers[place] or 0 for numbers in samples.values())


@given(INSTANTS, LENGTHS)
def test_a_bucket_contains_its_instant_and_begins_on_a_multiple_of_its_length(
    at: dt.datetime, minutes: int
) -> None:
    begin = bucket_of(at, minutes)

    assert begin <= at < begin + minutes * MINUTE
    assert begin.timestamp() % (60 * minutes) == 0


def test_each_resolution_is_made_of_whole_buckets_of_the_finer_one() -> None:
    lengths = [one.minutes for one in RESOLUTIONS]

    assert [b % a for a, b in itertools.pairwise(lengths)] == [0, 0, 0]
    for span, resolution in zip(MetricSpan, RESOLUTIONS, strict=True):
        assert (span.buckets + 1) * span.minutes * MINUTE <= resolution.kept


def test_a_sample_has_the_growth_of_a_counter() -> None:
    assert grown(("log", 10), ("log", 25)) == (15, 1)
    assert grown(("log", 25), ("log", 25)) == (0, 1)


def test_a_counter_that_begins_anew_has_grown_by_what_it_has_now() -> None:
    assert grown(("log", 1000), ("log", 3)) == (3, 1)


def test_growth_is_unknown_without_the_minute_before_and_for_another_counter() -> None:
    assert grown(None, ("log", 25)) == (None, None)
    assert grown(("old_log", 25), ("log", 26)) == (None, None)


@given(COUNTS, COUNTS)
def test_growth_is_never_negative_and_adds_up_over_a_restart(
    first: list[int], second: list[int]
) -> None:
    rising = [sum(first[: n + 1]) for n in range(len(first))]
    anew = [sum(second[: n + 1]) for n in range(len(second))]
    if anew[0] >= rising[-1]:
        return  # a restart that no one can see
    counts = [*rising, *anew]

    growth = [grown(("log", a), ("log", b))[0] for a, b in itertools.pairwise(counts)]

    assert all(one is not None and one >= 0 for one in growth)
    assert sum(one or 0 for one in growth) == rising[-1] - rising[0] + anew[-1]


@pytest.mark.slow
@given(MINUTES, LENGTHS)
def test_a_fold_has_the_greatest_gauge_and_the_sum_of_counts_and_no_other_bucket(
    samples: dict[dt.datetime, Numbers], minutes: int
) -> None:
    found = folded(JOB, samples, minutes)

    assert set(found) == {bucket_of(at, minutes) for at in samples}
    for at, (lag_s, _, restarts, *_) in found.items():
        inside = [given for one, given in samples.items() if bucket_of(one, minutes) == at]
        assert lag_s == max((one[0] for one in inside if one[0] is not None), default=None)
        counts = [one[2] for one in inside if one[2] is not None]
        assert restarts == (sum(counts) if counts else None)


@given(MINUTES)
def test_folds_in_steps_are_one_fold(samples: dict[dt.datetime, Numbers]) -> None:
    in_steps = folded(JOB, folded(JOB, folded(JOB, samples, 10), 60), 240)

    assert in_steps == folded(JOB, samples, 240)
    assert known_sum(in_steps, 2) == known_sum(samples, 2)


@given(MINUTES, st.integers(0, 720))
def test_samples_that_are_not_folded_yet_are_shown_as_if_they_were(
    samples: dict[dt.datetime, Numbers], passed: int
) -> None:
    now = NOON + passed * MINUTE
    known = {at: numbers for at, numbers in samples.items() if at <= now}
    # As the loop leaves it: each coarser resolution has the buckets that have ended.
    stored: dict[int, dict[dt.datetime, Numbers]] = {1: known}
    for one in RESOLUTIONS[1:]:
        folds = folded(JOB, known, one.minutes)
        stored[one.minutes] = {
            at: numbers for at, numbers in folds.items() if at < bucket_of(now, one.minutes)
        }

    for one in RESOLUTIONS:
        assert completed(JOB, stored, one.minutes) == folded(JOB, known, one.minutes)


def test_a_sample_of_an_earlier_version_has_fewer_numbers() -> None:
    samples: dict[dt.datetime, Numbers] = {NOON: (1.0,), NOON + MINUTE: (3.0, 4.0, 5.0)}

    later = (None,) * (len(MEASURES[JOB]) - 3)
    assert folded(JOB, samples, 10) == {NOON: (3.0, 4.0, 5.0, *later)}


def test_a_bucket_without_a_sample_is_a_gap() -> None:
    now = NOON + dt.timedelta(seconds=30)
    one: Numbers = (1.0, 0.0, 0.0)
    points = points_of({NOON - 3 * MINUTE: one, NOON - MINUTE: one}, MetricSpan.HOUR, now)

    assert points.points == (*[None] * 57, one, None, one)
    assert points.begin == NOON - 60 * MINUTE


@given(MINUTES, st.sampled_from(MetricSpan), st.integers(0, 720))
def test_points_are_the_samples_at_their_places_and_nothing_else(
    samples: dict[dt.datetime, Numbers], span: MetricSpan, passed: int
) -> None:
    now = NOON + passed * MINUTE
    known = folded(JOB, samples, span.minutes)
    found = points_of(known, span, now)

    assert len(found.points) == span.buckets
    for number, point in enumerate(found.points):
        assert point == known.get(found.begin + number * span.minutes * MINUTE)
