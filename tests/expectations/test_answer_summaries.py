"""Logged answers are summarized by branch, feature and the hour in which they were logged."""

import datetime as dt
from collections.abc import Sequence

from narthex._base import Json
from narthex._drift import FeatureKind, summary_of
from narthex._query import LoggedQuery
from narthex_expectations.hourly_summaries import (
    MOST_BYTES,
    MOST_VALUES,
    HourlyValues,
    fitting,
)
from narthex_stores import Record

NINE = dt.datetime(2026, 5, 1, 9, tzinfo=dt.UTC)
KINDS = {
    "main": {"Buyer.amount": FeatureKind.NUMBER, "Buyer.city": FeatureKind.CATEGORY},
    "dev": {"Buyer.amount": FeatureKind.CATEGORY},
}


def record(offset: int, minute: int, *, branch: str = "main", **outputs: Sequence[Json]) -> Record:
    query = LoggedQuery(
        tenant="1",
        branch=branch,
        commit_id="c",
        as_of=0,
        workflow="",
        inputs={"Buyer.buyer": ["b"] * len(next(iter(outputs.values())))},
        outputs={f"Buyer.{name}": [*cells] for name, cells in outputs.items()},
        offsets={},
    )
    at = NINE + dt.timedelta(minutes=minute)
    return Record("log", 0, offset, int(at.timestamp() * 1000), None, query.encoded(), ())


def test_answers_are_counted_in_the_hour_in_which_they_were_logged() -> None:
    hours = HourlyValues(KINDS)
    hours.add(record(0, 5, amount=[1, None], city=["Oslo", "Rome"]))
    hours.add(record(1, 59, amount=[2.5]))
    hours.add(record(2, 60, amount=[9]))
    hours.add(record(3, 7, branch="dev", amount=[True]))
    assert not hours.is_full

    found = dict(hours.take())

    ten = NINE + dt.timedelta(hours=1)
    assert found == {
        ("main", "Buyer.amount", NINE): summary_of([1, None, 2.5], FeatureKind.NUMBER),
        ("main", "Buyer.city", NINE): summary_of(["Oslo", "Rome"], FeatureKind.CATEGORY),
        ("main", "Buyer.amount", ten): summary_of([9], FeatureKind.NUMBER),
        ("dev", "Buyer.amount", NINE): summary_of([True], FeatureKind.CATEGORY),
    }
    assert dict(hours.take()) == {}


def test_unknown_branches_and_features_and_broken_records_are_left_out() -> None:
    hours = HourlyValues(KINDS)
    hours.add(record(0, 5, branch="gone", amount=[1]))
    hours.add(record(1, 5, removed=[1]))
    hours.add(record(2, 5, amount=["a text of an earlier type"]))
    hours.add(Record("log", 0, 3, 0, None, b"{}", ()))
    hours.add(Record("log", 0, 4, 0, None, None, ()))

    assert dict(hours.take()) == {}
    assert hours.skipped == 2


def test_values_are_taken_before_there_are_too_many() -> None:
    hours = HourlyValues(KINDS)
    assert not hours.is_full

    hours.add(record(0, 5, amount=[0] * MOST_VALUES))

    assert hours.is_full
    (found,) = [summary for _, summary in hours.take()]
    assert (found.rows, hours.is_full) == (MOST_VALUES, False)
    hours.add(record(1, 5, city=["x" * MOST_BYTES]))
    assert hours.is_full


def test_the_largest_summaries_are_left_out_if_they_do_not_fit() -> None:
    summaries: list[Json] = ["x" * 900, "small", "y" * 200, "z" * 200]

    assert fitting(summaries, most=500) == (["small", "y" * 200, "z" * 200], 1)
    assert fitting(summaries, most=10_000)[1] == 0
    assert fitting([], most=10) == ([], 0)
