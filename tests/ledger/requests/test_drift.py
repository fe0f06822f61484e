"""Summaries are counted once, windows stay as they were pinned, and findings are the newest."""

import contextlib
import datetime as dt

import attrs
import pytest

from narthex._drift import FeatureKind, FeatureSummary, summary_of
from narthex._ir import Severity
from narthex_ledger import (
    BrokenConnection,
    DriftView,
    HourSummary,
    Ledger,
    LedgerRefused,
    Moment,
    NotFound,
    ReferenceKind,
)
from tests.ledger.world import World

pytestmark = pytest.mark.postgres

HOUR = dt.timedelta(hours=1)
NOW = dt.datetime.now(tz=dt.UTC).replace(minute=0, second=0, microsecond=0)
DAY = (NOW - 24 * HOUR, NOW)


def numbers(*values: float | None) -> FeatureSummary:
    return summary_of(values, FeatureKind.NUMBER)


def part(hours_ago: int, summary: FeatureSummary, *, feature: str = "Buyer.amount") -> HourSummary:
    return HourSummary(branch="main", feature=feature, hour=NOW - hours_ago * HOUR, summary=summary)


def found(to_at: dt.datetime, severity: Severity | None, **changes: object) -> DriftView:
    view = DriftView(
        branch="main",
        feature="Buyer.amount",
        reference_kind=ReferenceKind.TRAINING_SET,
        reference="fraud-1",
        from_at=to_at - HOUR,
        to_at=to_at,
        rows=1000,
        reference_rows=5000,
        is_compared=True,
        severity=severity,
        metrics={"psi": {"value": 0.3}},
    )
    return attrs.evolve(view, **changes)


def test_hours_are_merged_and_records_are_counted_once(world: World) -> None:
    summaries = world.ledger.feature_summaries
    assert summaries.offsets() == {}

    first = [part(3, numbers(1, 2)), part(2, numbers(3)), part(2, numbers(7), feature="Buyer.age")]
    summaries.add(first, start={0: 0}, end={0: 5})
    with pytest.raises(LedgerRefused, match="summarized up to"):
        summaries.add(first, start={0: 0}, end={0: 5})
    summaries.add([part(2, numbers(3, None))], start={0: 5}, end={0: 8, 1: 2})

    assert summaries.offsets() == {0: 8, 1: 2}
    assert summaries.merged("main", DAY) == {
        "Buyer.age": numbers(7),
        "Buyer.amount": numbers(1, 2, 3, 3, None),
    }
    assert summaries.merged("main", (NOW - 3 * HOUR, NOW - 2 * HOUR)) == {
        "Buyer.amount": numbers(1, 2)
    }
    assert summaries.merged("main", DAY, features=["Buyer.age"]) == {"Buyer.age": numbers(7)}
    assert summaries.merged("dev", DAY) == {}


class CrashError(Exception):
    """The process died here."""


@pytest.mark.parametrize("moment", Moment)
def test_records_are_counted_once_if_the_process_dies_at_any_moment(
    world: World, moment: Moment
) -> None:
    def die(name: str, at: Moment) -> None:
        if (name, at) == ("add_summaries", moment):
            raise CrashError

    dying = Ledger(world.dsn, fault_hook=die)
    values = [float(one) for one in range(6)]
    world.ledger.feature_summaries.add([part(2, numbers(values[0]))], start={0: 0}, end={0: 1})
    with pytest.raises(CrashError):
        dying.feature_summaries.add([part(2, numbers(*values[1:4]))], start={0: 1}, end={0: 4})
    dying.close()

    summaries = world.ledger.feature_summaries
    at = summaries.offsets()[0]
    assert at == (4 if moment is Moment.AFTER_COMMIT else 1)
    summaries.add([part(2, numbers(*values[at:]))], start={0: at}, end={0: 6})

    assert summaries.merged("main", DAY) == {"Buyer.amount": numbers(*values)}


@pytest.mark.parametrize("moment", [Moment.BEFORE_COMMIT, Moment.AFTER_COMMIT])
def test_records_are_counted_once_if_the_connection_breaks(world: World, moment: Moment) -> None:
    broken = []

    def break_once(name: str, at: Moment) -> None:
        if (name, at) == ("add_summaries", moment) and not broken:
            broken.append(name)
            raise BrokenConnection

    ledger = Ledger(world.dsn, fault_hook=break_once)
    # If the answer to the commit was lost, the repetition finds the offsets moved.
    with contextlib.suppress(LedgerRefused):
        ledger.feature_summaries.add([part(2, numbers(1, 2))], start={0: 0}, end={0: 2})

    assert ledger.feature_summaries.offsets() == {0: 2}
    assert ledger.feature_summaries.merged("main", DAY) == {"Buyer.amount": numbers(1, 2)}
    ledger.close()


def test_a_changed_type_replaces_the_hour_and_later_hours_decide(world: World) -> None:
    summaries = world.ledger.feature_summaries
    texts = summary_of(["a"], FeatureKind.CATEGORY)
    summaries.add([part(3, numbers(1)), part(2, numbers(2))], start={0: 0}, end={0: 1})

    summaries.add([part(2, texts)], start={0: 1}, end={0: 2})

    assert summaries.merged("main", DAY) == {"Buyer.amount": texts}


def test_a_pinned_window_outlives_its_hours(world: World) -> None:
    ledger = world.ledger
    ledger.feature_summaries.add([part(3, numbers(1, 2))], start={0: 0}, end={0: 1})
    summaries = ledger.feature_summaries.merged("main", DAY)

    ledger.drift.pin("main", "spring", DAY, summaries)
    with pytest.raises(LedgerRefused, match="window `spring` exists"):
        ledger.drift.pin("main", "spring", DAY, summaries)
    with pytest.raises(LedgerRefused, match="no logged answers"):
        ledger.drift.pin("main", "empty", DAY, {})
    assert ledger.feature_summaries.forget(older_than=dt.timedelta(0)) == 1

    assert ledger.feature_summaries.merged("main", DAY) == {}
    (window,) = ledger.drift.windows("main")
    assert (window.name, window.from_at, window.to_at) == ("spring", *DAY)
    assert window.features == ("Buyer.amount",)
    assert ledger.drift.window("main", "spring") == {"Buyer.amount": numbers(1, 2)}
    assert (ledger.drift.unpin("main", "spring"), ledger.drift.unpin("main", "spring")) == (
        True,
        False,
    )
    with pytest.raises(NotFound, match="no window `spring`"):
        ledger.drift.window("main", "spring")


def test_findings_are_the_newest_comparisons_that_have_a_severity(world: World) -> None:
    drift = world.ledger.drift
    drift.record([])
    drift.record(
        [
            found(NOW - HOUR, Severity.WARNING),
            found(NOW, Severity.CRITICAL),
            found(NOW - HOUR, Severity.CRITICAL, feature="Buyer.age"),
            found(NOW, None, feature="Buyer.age"),
            found(NOW - HOUR, Severity.WARNING, feature="Buyer.rare"),
            found(NOW, None, feature="Buyer.rare", is_compared=False, rows=3, metrics={}),
            found(NOW, Severity.WARNING, branch="dev"),
            found(NOW, Severity.WARNING, reference_kind="window", reference="spring"),
        ]
    )

    current = drift.current()

    assert [(one.branch, one.feature, one.reference, one.severity) for one in current] == [
        ("main", "Buyer.amount", "fraud-1", Severity.CRITICAL),
        ("dev", "Buyer.amount", "fraud-1", Severity.WARNING),
        ("main", "Buyer.amount", "spring", Severity.WARNING),
        ("main", "Buyer.rare", "fraud-1", Severity.WARNING),
    ]
    assert [one.branch for one in drift.current(branches=["dev"])] == ["dev"]
    assert drift.current(within=dt.timedelta(0)) == ()
    assert len(drift.newest()) == 8
    assert len(drift.newest(2)) == 2
    assert {one.branch for one in drift.newest(branches=["dev"])} == {"dev"}


def test_a_repeated_comparison_replaces_its_result(world: World) -> None:
    drift = world.ledger.drift
    drift.record([found(NOW, Severity.CRITICAL)])

    drift.record([found(NOW, None, rows=2000)])

    (one,) = drift.newest()
    assert (one.severity, one.rows, one.at is None) == (None, 2000, False)
    assert drift.current() == ()
