"""Samples of metrics in a real database: one a minute, folded when old, deleted when older."""

import datetime as dt

import pytest
import sqlalchemy as sa

from narthex_ledger import (
    MEASURES,
    Ledger,
    MetricCount,
    MetricKind,
    MetricPoints,
    MetricReading,
    MetricSpan,
)
from narthex_ledger.model.metric_views import MINUTE, RESOLUTIONS
from tests.ledger.db.test_locks import Race
from tests.ledger.world import World

pytestmark = pytest.mark.postgres

DATASET, HOUR = MetricKind.DATASET, MetricSpan.HOUR
DAYS = dt.timedelta(days=30)


def reading(
    rows: float, *, subject: str = "Orders", branch: str = "main", behind: float = 0.0
) -> MetricReading:
    return MetricReading(
        kind=DATASET,
        branch=branch,
        subject=subject,
        gauges={"freshness_s": rows, "behind": behind},
        counters={"rows": MetricCount(of="log", count=rows)},
    )


def column(points: MetricPoints, name: str, *, kind: MetricKind = DATASET) -> list[float | None]:
    """Return one measure of the buckets; None where it is not known or there is no sample."""
    place = [measure.name for measure in MEASURES[kind]].index(name)
    return [None if one is None else one[place] for one in points.points]


def at(world: World, minutes: float) -> Ledger:
    return world.at(dt.timedelta(minutes=minutes))


def begin_of_hours(world: World) -> float:
    """Return the minutes from the present one until the next multiple of four hours."""
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        now = connection.exec_driver_sql("SELECT ledger_now()").scalar_one()
    past = (now - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) % dt.timedelta(hours=4)
    return 240 - past / MINUTE + 0.5


def count_of(world: World) -> dict[int, int]:
    """Count the samples of each resolution."""
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT minutes, count(*) FROM metric_sample GROUP BY minutes"
        )
        return {row[0]: row[1] for row in found}


def test_a_minute_has_one_sample_of_a_subject_and_it_is_the_first(world: World) -> None:
    begin = begin_of_hours(world)
    one, other = at(world, begin), at(world, begin + 0.1)

    assert one.metrics.is_due()
    assert one.metrics.record([reading(5), reading(7, subject="Users")]) == 2
    assert not other.metrics.is_due()
    assert other.metrics.record([reading(6), reading(9, subject="Spend")]) == 1

    found = other.metrics.points(DATASET, HOUR, branch="main", subjects=["Orders"])
    assert column(found, "freshness_s") == [*[None] * 59, 5.0]


def test_two_servers_at_once_store_one_sample(world: World) -> None:
    race = Race(world)
    begin = begin_of_hours(world)
    at(world, begin - 1).metrics.record([reading(1)])
    shift = dt.timedelta(minutes=begin)
    first, go = race.hold(
        lambda ledger: ledger.metrics.record([reading(5)]), shift=shift / dt.timedelta(minutes=2)
    )
    second = race.meet(lambda: at(world, begin + 0.1).metrics.record([reading(6)]))
    go.set()

    assert (first.result(20), second.result(20)) == (1, 0)
    found = at(world, begin + 0.2).metrics.points(DATASET, HOUR, branch="main")
    assert column(found, "rows")[-2:] == [None, 4.0]


def test_growth_outlives_the_server_and_a_missing_minute_leaves_a_gap(world: World) -> None:
    begin = begin_of_hours(world)
    for minute, rows in ((0, 100), (1, 130), (2, 7), (4, 50), (5, 60)):
        # Each time as a server that has just started.
        at(world, begin + minute).metrics.record([reading(rows)])

    found = at(world, begin + 5).metrics.points(DATASET, HOUR, branch="main")

    assert column(found, "rows")[-6:] == [None, 30.0, 7.0, None, None, 10.0]
    assert column(found, "freshness_s")[-6:] == [100.0, 130.0, 7.0, None, 50.0, 60.0]


def test_subjects_are_put_together_and_branches_stay_apart(world: World) -> None:
    begin = begin_of_hours(world)
    for minute in (0, 1):
        at(world, begin + minute).metrics.record(
            [
                reading(10 + minute, behind=3),
                reading(20 + 2 * minute, subject="Users", behind=4),
                reading(1000, subject="Orders", branch="dev", behind=100),
            ]
        )
    ledger = at(world, begin + 1)

    whole = ledger.metrics.points(DATASET, HOUR, branch="main")
    users = ledger.metrics.points(DATASET, HOUR, branch="main", subjects=["Users", "Unknown"])

    assert column(whole, "freshness_s")[-2:] == [20.0, 22.0]
    assert column(whole, "behind")[-2:] == [7.0, 7.0]
    assert column(whole, "rows")[-2:] == [None, 3.0]
    assert column(whole, "counted_minutes")[-2:] == [None, 1.0]
    assert column(users, "rows")[-2:] == [None, 2.0]
    nothing = ledger.metrics.points(DATASET, HOUR, branch="main", subjects=[])
    assert nothing.points == (None,) * 60


def test_ended_buckets_are_folded_once_and_shown_before_that(world: World) -> None:
    begin = begin_of_hours(world)
    for minute in range(13):
        at(world, begin + minute).metrics.record([reading(10 * minute)])
    later = at(world, begin + 13)
    before = later.metrics.points(DATASET, MetricSpan.DAY, branch="main")

    assert later.metrics.fold() == 1
    assert later.metrics.fold() == 0

    after = later.metrics.points(DATASET, MetricSpan.DAY, branch="main")
    assert count_of(world) == {1: 13, 10: 1}
    assert before == after
    assert column(after, "rows")[-3:] == [None, 90.0, 30.0]
    assert column(after, "counted_minutes")[-2:] == [9.0, 3.0]
    assert column(after, "freshness_s")[-2:] == [90.0, 120.0]


def test_old_samples_live_on_in_coarser_ones_until_they_are_deleted(world: World) -> None:
    begin = begin_of_hours(world)
    for minute in range(4):
        at(world, begin + minute).metrics.record([reading(10 * minute)])

    later = at(world, begin)
    for hours in (0.5, 1.5, 4.5, 40):
        later = at(world, begin + 60 * hours)
        later.metrics.fold()
        later.metrics.forget(older_than=DAYS)
    assert count_of(world) == {60: 1, 240: 1}
    month = later.metrics.points(DATASET, MetricSpan.MONTH, branch="main")
    assert [one for one in column(month, "rows") if one is not None] == [30.0]

    assert at(world, 60 * 24 * 29).metrics.forget(older_than=DAYS) == 1
    assert count_of(world) == {240: 1}
    assert at(world, 60 * 24 * 32).metrics.forget(older_than=DAYS) == 1
    assert count_of(world) == {}
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM metric_series").scalar_one() == 0


def test_fewer_days_are_kept_if_fewer_are_wanted(world: World) -> None:
    begin = begin_of_hours(world)
    at(world, begin).metrics.record([reading(1)])

    later = at(world, begin + 60)

    assert later.metrics.forget(older_than=dt.timedelta(hours=2)) == 0
    assert later.metrics.forget(older_than=dt.timedelta(minutes=30)) == 1


def test_a_month_of_minutes_leaves_few_rows_of_a_subject() -> None:
    rows = sum(one.kept / (one.minutes * MINUTE) for one in RESOLUTIONS)

    assert rows < 700
