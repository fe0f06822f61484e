"""A report names the expectation, its column, how many rows break it, and some of their keys."""

from typing import Any
from uuid import UUID

import pytest

from narthex_ledger import AuditView
from narthex_server.commits.quality_reports import checked_dataset, report_lines


def expectation(**more: Any) -> dict[str, Any]:
    return {
        "kind": "expect_column_values_to_be_between",
        "arguments": {"column": "amount", "min_value": 0},
        "mostly": None,
        "severity": "critical",
        "success": False,
        "error": None,
        "element_count": 10,
        "missing_count": 2,
        "unexpected_count": 3,
    } | more


def outcome(*expectations: dict[str, Any], examples: Any = None) -> AuditView:
    return AuditView(
        audit_id=UUID(int=1),
        dataset="Orders",
        from_us=None,
        to_us=None,
        result={"rows": 10, "offsets": {"0": 10}, "expectations": [*expectations]},
        success=False,
        is_critical=True,
        examples=examples,
    )


def test_a_sentence_has_the_column_the_rows_and_the_keys() -> None:
    keys = [[{"user": "ann", "day": 1}, {"user": "bob", "day": 2}]]

    checked = checked_dataset(outcome(expectation(), examples=keys), has_examples=True)

    (broken,) = checked["broken"]
    assert (broken["rows"], broken["of_rows"], broken["columns"]) == (3, 8, ["amount"])
    assert broken["text"] == (
        "critical: Orders.amount: expect_column_values_to_be_between(min_value=0): "
        "3 of 8 rows break it, such as user=ann, day=1; user=bob, day=2"
    )


def test_a_reader_without_the_right_to_read_data_sees_no_key() -> None:
    checked = checked_dataset(
        outcome(expectation(), examples=[[{"user": "ann"}]]), has_examples=False
    )

    (broken,) = checked["broken"]
    assert broken["examples"] is None
    assert "ann" not in str(checked)


def test_critical_expectations_are_named_first() -> None:
    mixed = outcome(expectation(severity="warning"), expectation(), expectation(success=True))

    lines = list(report_lines([checked_dataset(mixed, has_examples=True)]))

    assert [line.split(":")[0] for line in lines] == ["critical", "warning"]


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"error": "no such file"}, "(min_value=0) could not be checked: no such file"),
        ({"unexpected_count": None}, "(min_value=0) is broken"),
        ({"mostly": 0.9}, "(min_value=0, mostly=0.9): 3 of 8 rows break it"),
        (
            {"arguments": {"column_list": ["a", "b"], "sum_total": 5}},
            "Orders.a, b: expect_column_values_to_be_between(sum_total=5): 3 of 8 rows break it",
        ),
    ],
)
def test_a_sentence_has_what_is_known(more: dict[str, Any], end: str) -> None:
    (broken,) = checked_dataset(outcome(expectation(**more)), has_examples=True)["broken"]

    assert broken["text"].endswith(end)
