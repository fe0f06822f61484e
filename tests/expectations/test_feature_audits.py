"""Logged answers are checked against the expectations of their featureset."""

import json
from typing import Any

import pytest

from narthex._base.records import Json
from narthex._ir import types
from narthex._ir.entities import Expectation, Feature, Featureset, Severity
from narthex._ir.expression_nodes import LiteralValue
from narthex._ir.types import DataType
from narthex._query import LoggedQuery
from narthex_expectations.audit_results import AuditResult, By
from narthex_expectations.feature_audits import SampledAnswers, hold_queries
from narthex_stores import Record

COLUMNS: dict[str, DataType] = {
    "user": types.Str(),
    "spent": types.Optional(types.Decimal(2)),
    "orders": types.Int(),
    "last": types.Datetime(),
}


def expect(kind: str, *, mostly: float | None = None, **arguments: LiteralValue) -> Expectation:
    return Expectation(
        kind=kind,
        arguments=tuple(arguments.items()),
        mostly=mostly,
        severity=Severity.CRITICAL,
    )


POSITIVE = expect("expect_column_values_to_be_between", column="spent", min_value=0)
KNOWN = expect("expect_column_values_to_not_be_null", column="spent", mostly=0.6)
RECENT = expect("expect_column_values_to_be_between", column="last", min_value="2026-01-01")
MORE = expect(
    "expect_column_pair_values_A_to_be_greater_than_B", column_A="orders", column_B="spent"
)


def featureset(*expectations: Expectation) -> Featureset:
    return Featureset(
        name="Buyer",
        features=tuple(Feature(name=name, type=of) for name, of in COLUMNS.items()),
        extractors=(),
        expectations=expectations,
    )


def logged(
    offset: int, *, branch: str = "main", user: str = "ann", **outputs: list[Json]
) -> Record:
    query = LoggedQuery(
        tenant="t",
        branch=branch,
        commit_id="c",
        as_of=0,
        workflow="w",
        inputs={"Buyer.user": [user] * max(map(len, outputs.values()), default=1)},
        outputs={f"Buyer.{name}": cells for name, cells in outputs.items()},
        offsets={},
    )
    return record(offset, query.encoded())


def record(offset: int, value: bytes) -> Record:
    return Record(
        topic="t", partition=0, offset=offset, timestamp_ms=0, key=None, value=value, headers=()
    )


def sampled(of: Featureset, *records: Record, most: int = 1000) -> SampledAnswers:
    sample = SampledAnswers(featureset=of, branch="main", most=most)
    for one in records:
        sample.add(one)
    return sample


def broken(of: Featureset, *records: Record) -> list[tuple[bool, Any]]:
    found = hold_queries(of, sampled(of, *records).queries)
    assert [one.error for one in found] == [None] * len(found)
    return [(one.success, one.counts.get("unexpected_count")) for one in found]


def test_an_expectation_is_about_the_answers_that_have_all_of_its_features() -> None:
    of = featureset(POSITIVE, KNOWN, RECENT, MORE)

    found = broken(
        of,
        logged(0, spent=["1.50", None, "-2.00"], orders=[2, 2, 1]),
        logged(1, orders=[5]),
        logged(2, last=["2025-12-31T23:59:59.999999Z", "2026-01-01T00:00:00.000000Z"]),
        logged(3, spent=["-1.00"], branch="other"),
        record(4, b"garbled"),
    )

    assert found == [(False, 1), (True, 1), (False, 1), (True, 0)]


def test_an_expectation_about_features_that_no_query_has_is_met() -> None:
    of = featureset(POSITIVE, RECENT)

    assert broken(of) == [(True, None), (True, None)]
    assert broken(of, logged(0, orders=[1])) == [(True, None), (True, None)]


def test_given_features_are_checked_as_computed_ones() -> None:
    of = featureset(expect("expect_column_values_to_be_in_set", column="user", value_set=("ann",)))

    assert broken(of, logged(0, orders=[1, 2]), logged(1, user="eve", orders=[1])) == [(False, 1)]


def test_values_of_an_earlier_type_are_left_out() -> None:
    of = featureset(POSITIVE)

    assert broken(of, logged(0, spent=[[1]], orders=[1]), logged(1, spent=["1.00"])) == [(True, 0)]


def test_of_too_many_answers_a_share_of_the_queries_is_checked() -> None:
    records = [logged(offset, orders=[1] * 10) for offset in range(1000)]

    sample = sampled(featureset(), *records, most=1500)

    rows = sum(one.rows for one in sample.queries)
    assert rows <= 1500
    assert sample.share == 0.125
    assert rows / 10_000 == pytest.approx(sample.share, abs=0.03)
    again = sampled(featureset(), *records, most=1500)
    assert [one.place for one in again.queries] == [one.place for one in sample.queries]


def test_a_result_has_counts_and_no_values() -> None:
    of = featureset(POSITIVE)
    sample = sampled(of, logged(0, spent=["-12345.67"]))

    result = AuditResult(
        dataset="Buyer",
        version=0,
        from_us=0,
        to_us=1,
        rows=1,
        findings=hold_queries(of, sample.queries),
        by=By.LOGGED,
        share=sample.share,
    ).to_json()

    assert (result["by"], result["failed"], result["is_critical"]) == ("logged", 1, True)
    assert "12345" not in json.dumps(result)
