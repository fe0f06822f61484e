"""Checks of whole histories: in spans, up to the offsets at their start, with examples by key."""

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from narthex._base import to_plain
from narthex._base.times import HOUR_US
from narthex._ir.assets import DatasetPlan, HistorySpec
from narthex._ir.entities import Severity
from narthex_expectations.audit_results import EXAMPLES, ExpectationResult
from narthex_expectations.audits import hold
from narthex_expectations.frames import frame
from narthex_expectations.gates import added, check_history
from narthex_expectations.suites import compile_suite, suite_json
from narthex_stores import HistoryAdapter, HistoryTable, LogRow, to_table
from tests.expectations.test_audits import AT, BROKEN, KEPT, LOG, ROWS, log_rows, plan_of, promise

SMALL = promise("expect_column_values_to_be_between", column="n", max_value=2)
NOW = 2 * AT
CRITICAL = attrs.evolve(SMALL, severity=Severity.CRITICAL)


def rows_of(count: int) -> list[LogRow]:
    """Return rows like `ROWS`, an hour apart, of which every third breaks `SMALL`."""
    return [
        attrs.evolve(
            log_rows()[number % len(ROWS)],
            offset=number,
            fact=attrs.evolve(
                log_rows()[number % len(ROWS)].fact,
                row_id=b"%06d" % number,
                event_time=AT + number * HOUR_US,
            ),
        )
        for number in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> str:
    HistoryAdapter(history_dir=str(tmp_path)).create(
        "nx_h", HistorySpec(log=LOG), asset_id=1, timeout_s=10
    )
    return str(tmp_path / "nx_h")


def filled(path: str, rows: list[LogRow]) -> HistoryTable:
    table = HistoryTable(path, HistorySpec(log=LOG))
    table.append_rows(rows)
    return table


@pytest.mark.slow
@pytest.mark.parametrize("states_at_once", [20, 1000])
def test_spans_together_give_the_result_of_the_whole_history(
    path: str, states_at_once: int
) -> None:
    filled(path, rows_of(60))
    plan = plan_of(*KEPT, *BROKEN)

    found = check_history(plan, path, now_us=NOW, states_at_once=states_at_once)

    whole = hold(plan, frame(LOG, to_table(LOG, rows_of(60))))
    assert found.rows == 60
    assert [one.success for one in found.findings] == [one.success for one in whole]
    for one, other in zip(found.findings, whole, strict=True):
        for name in ("element_count", "unexpected_count", "missing_count"):
            assert one.counts.get(name) == other.counts.get(name)


def test_rows_that_arrive_after_the_offsets_are_not_checked(path: str) -> None:
    table = filled(path, rows_of(2))
    offsets = table.offsets()
    table.append_rows(rows_of(3)[2:])

    spans = table.spans(states=100, offsets=offsets)
    later = check_history(plan_of(SMALL), path, now_us=NOW)

    assert spans == ((None, None),)
    assert table.scan(offsets=offsets).num_rows == 2
    assert (later.rows, later.success, later.offsets) == (3, False, {0: 3})


def test_a_span_has_about_the_number_of_states_that_is_given(path: str) -> None:
    table = filled(path, rows_of(1000))

    spans = table.spans(states=100, offsets={0: 1000})

    sizes = [table.scan(from_us=start, to_us=end).num_rows for start, end in spans]
    assert sum(sizes) == 1000
    assert max(sizes) <= 150
    assert spans[0][0] is None
    assert spans[-1][1] is None


def test_a_retraction_removes_its_row_whichever_span_that_is_in(path: str) -> None:
    rows = rows_of(60)
    gone = rows[-1]
    retraction = attrs.evolve(
        gone,
        offset=60,
        fact=attrs.evolve(gone.fact, version=b"9", alive=False, event_time=gone.fact.event_time),
    )
    filled(path, [*rows, retraction])

    assert check_history(plan_of(SMALL), path, now_us=NOW, states_at_once=20).rows == 59


def test_examples_have_keys_and_no_other_value(path: str) -> None:
    filled(path, rows_of(60))

    found = check_history(
        plan_of(promise("expect_column_values_to_be_null", column="s")), path, now_us=NOW
    )

    (examples,) = found.examples
    assert isinstance(examples, list)
    assert len(examples) == EXAMPLES
    assert {frozenset(one) for one in examples if isinstance(one, dict)} == {frozenset({"at"})}
    assert "examples" not in found.to_json()


def test_only_a_broken_critical_expectation_is_critical(path: str) -> None:
    filled(path, rows_of(3))
    kept = promise("expect_column_values_to_not_be_null", column="n")

    warned = check_history(
        plan_of(SMALL, attrs.evolve(kept, severity=Severity.CRITICAL)), path, now_us=NOW
    )
    broken = check_history(plan_of(CRITICAL), path, now_us=NOW)

    assert (warned.success, warned.is_critical) == (False, False)
    assert (broken.success, broken.is_critical) == (False, True)


def test_an_empty_history_meets_every_expectation(path: str) -> None:
    found = check_history(plan_of(CRITICAL, *BROKEN), path, now_us=NOW)

    assert (found.rows, found.success, found.offsets) == (0, True, {})


def result(*, success: bool, unexpected: int, of: int, mostly: float | None) -> ExpectationResult:
    return ExpectationResult(
        kind="expect_column_values_to_be_between",
        arguments={"column": "n"},
        mostly=mostly,
        severity=Severity.WARNING,
        success=success,
        counts={"element_count": of, "unexpected_count": unexpected, "missing_count": 0},
    )


def test_the_share_of_all_rows_decides_and_not_that_of_a_span() -> None:
    bad = result(success=False, unexpected=2, of=10, mostly=0.9)
    good = result(success=True, unexpected=0, of=10, mostly=0.9)

    both = added(bad, good)

    assert both.success
    assert both.counts["unexpected_percent"] == 10.0
    assert not added(both, bad).success


def test_a_suite_names_the_severity_of_each_expectation() -> None:
    found = suite_json(compile_suite(plan_of(CRITICAL, SMALL)))

    assert isinstance(found, dict)
    assert [one["severity"] for one in found["expectations"]] == ["critical", "warning"]


@pytest.mark.slow
def test_the_process_answers_a_line_for_each_dataset_and_stores_results(
    path: str, tmp_path: Path
) -> None:
    filled(path, rows_of(3))
    context = tmp_path / "expectations"
    asked = {
        "commit_id": "11111111-1111-8111-8111-111111111111",
        "branch": "main",
        "data_context": str(context),
        "datasets": [
            {"plan": to_plain(plan_named("A")), "history_path": path},
            {"plan": to_plain(plan_named("B")), "history_path": f"{path}-nowhere"},
        ],
    }

    done = subprocess.run(
        (sys.executable, "-m", "narthex_expectations.gate_process"),
        input=json.dumps(asked),
        env={name: value for name, value in os.environ.items() if "NARTHEX" not in name},
        capture_output=True,
        text=True,
        check=True,
    )

    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["dataset"], first["success"], first["is_critical"]) == ("A", False, True)
    assert first["result"]["rows"] == 3
    assert (second["dataset"], "nowhere" in second["error"]) == ("B", True)
    (page,) = context.joinpath("gx/uncommitted/data_docs/local_site/validations").rglob("*.html")
    assert "quality gate of commit 11111111-1111-8111-8111-111111111111" in page.read_text()
    assert "main:A@2" in page.read_text()


def plan_named(name: str) -> DatasetPlan:
    return attrs.evolve(plan_of(CRITICAL), name=name)
