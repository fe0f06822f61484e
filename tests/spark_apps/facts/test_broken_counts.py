"""Rows that break expectations are counted by expectation and minute."""

from narthex._ir.entities import Action, Expectation
from narthex_spark_apps.facts.broken_counts import KEPT_MINUTES, BrokenByMinute, count_broken

MINUTE_US = 60_000_000
KIND = "expect_column_values_to_not_be_null"


def _expected(column: str, action: Action) -> Expectation:
    return Expectation(kind=KIND, arguments=(("column", column),), action=action)


def test_a_row_counts_under_each_expectation_that_it_breaks_with_what_became_of_it() -> None:
    kept_apart, dropped = _expected("a", Action.QUARANTINE), _expected("b", Action.DROP)
    counts = {"rows": 3}
    count_broken(counts, [kept_apart, dropped])
    count_broken(counts, [dropped])

    report = BrokenByMinute().report(counts, now_us=MINUTE_US)

    minute = "1970-01-01T00:01:00.000000Z"
    assert report == {
        "expectations": {
            f"a: {KIND}()": {"quarantined": 1, "dropped": 0, "minutes": {minute: 1}},
            f"b: {KIND}()": {"quarantined": 1, "dropped": 1, "minutes": {minute: 2}},
        }
    }


def test_the_growth_between_two_reports_belongs_to_the_minute_of_the_second() -> None:
    counts: dict[str, int] = {}
    by_minute = BrokenByMinute()
    assert by_minute.report(counts, now_us=0) == {}
    for minute in range(KEPT_MINUTES + 5):
        count_broken(counts, [_expected("a", Action.DROP)])
        by_minute.report(counts, now_us=minute * MINUTE_US)

    report = by_minute.report(counts, now_us=(KEPT_MINUTES + 4) * MINUTE_US + 1)
    expectations = report["expectations"]
    assert isinstance(expectations, dict)
    (found,) = expectations.values()
    assert isinstance(found, dict)
    assert found["dropped"] == KEPT_MINUTES + 5
    assert isinstance(found["minutes"], dict)
    assert set(found["minutes"].values()) == {1}
    assert len(found["minutes"]) == KEPT_MINUTES
