"""Audits: checks of rows of a span of time against their expectations."""

import json
from collections.abc import Mapping, Sequence

import pandas as pd

from narthex._base import HOUR_US, Json
from narthex._ir import DatasetPlan, DataType, Expectation
from narthex_expectations.audit_results import AuditResult, By, ExpectationResult
from narthex_expectations.frames import open_history, rows_arrived, rows_between
from narthex_expectations.sampled_rows import sampled_rows
from narthex_expectations.suites import suite_of, validated
from narthex_stores import HistoryTable, PinnedHistory

_COUNTS = (
    "element_count",
    "unexpected_count",
    "unexpected_percent",
    "missing_count",
    "missing_percent",
    "observed_value",
)
"""The stored part of a result: counts, never rows, so that no personal data outlives an erase."""


def audit(plan: DatasetPlan, history_path: str, *, from_us: int, to_us: int) -> AuditResult:
    """Check the rows of a span of event time against the expectations of their dataset.

    Only valid rows are checked: neither superseded states nor retracted rows. Of a dataset that
    ends in an aggregate, the values of sampled keys are checked as of the end of the span.

    Args:
        plan: The dataset, with its expectations.
        history_path: A path or an `s3://` URL.
        from_us: The first instant, inclusive.
        to_us: The instant to stop before.

    Raises:
        FileNotFoundError: There is no history.
        UnknownExpectationError: An expectation is of a kind that this version does not support.
    """
    table = open_history(plan, history_path)
    if plan.aggregates:
        return audit_aggregates(plan, table, from_us=from_us, to_us=to_us, now_us=to_us)
    rows = rows_between(table, from_us=from_us, to_us=to_us)
    return AuditResult(
        dataset=plan.name,
        version=plan.version,
        from_us=from_us,
        to_us=to_us,
        rows=len(rows),
        findings=hold(plan, rows),
    )


def audit_arrived(
    plan: DatasetPlan,
    table: HistoryTable,
    *,
    from_us: int,
    to_us: int,
    since: Mapping[int, int],
    offsets: Mapping[int, int],
) -> AuditResult:
    """Check the rows that arrived in an interval, whatever their event time.

    An audit of the same offsets has the same result for ever.

    Args:
        plan: The dataset; not one that ends in an aggregate.
        table: Its history, which contains everything below `offsets`.
        from_us: The first instant, inclusive.
        to_us: The instant to stop before.
        since: The first offset of each partition of the log since the first instant.
        offsets: The same of the instant to stop before.

    Raises:
        UnknownExpectationError: An expectation is of a kind that this version does not support.
    """
    rows = rows_arrived(table, since=since, offsets=offsets)
    return AuditResult(
        dataset=plan.name,
        version=plan.version,
        from_us=from_us,
        to_us=to_us,
        rows=len(rows),
        findings=hold(plan, rows),
        offsets=offsets,
        by=By.ARRIVAL,
    )


def audit_aggregates(
    plan: DatasetPlan,
    table: HistoryTable,
    *,
    from_us: int | None,
    to_us: int | None,
    now_us: int,
) -> AuditResult:
    """Check the aggregates of sampled keys as of the end of a span; by default, of the newest row.

    Raises:
        StoreError: The store did not answer.
        UnknownExpectationError: An expectation is of a kind that this version does not support.
    """
    sample = sampled_rows(plan, table, as_of=None if to_us is None else to_us - 1, now_us=now_us)
    return AuditResult(
        dataset=plan.name,
        version=plan.version,
        from_us=from_us,
        to_us=to_us,
        rows=len(sample.rows),
        findings=hold(plan, sample.rows),
        share=sample.share,
        as_of=sample.as_of,
    )


def newest_hour(plan: DatasetPlan, history_path: str, *, now_us: int) -> tuple[int, int]:
    """Return the hour of event time up to a history's newest row; (0, 0) for an empty history.

    A row of the future does not count.

    Raises:
        FileNotFoundError: There is no history.
    """
    history = PinnedHistory.of(open_history(plan, history_path))
    newest = history.newest_row(until=now_us)
    return (0, 0) if newest is None else (newest + 1 - HOUR_US, newest + 1)


def hold(plan: DatasetPlan, rows: pd.DataFrame) -> tuple[ExpectationResult, ...]:
    """Check rows against the expectations of their dataset, in the order of the expectations."""
    return _held(
        f"{plan.name}@{plan.version}",
        plan.expectations,
        rows,
        columns=plan.schema.columns,
        keys=key_columns(plan),
    )


def hold_answers(
    name: str,
    expectations: Sequence[Expectation],
    answers: pd.DataFrame,
    columns: Mapping[str, DataType],
) -> tuple[ExpectationResult, ...]:
    """Check answers against expectations of their featureset, in the order of the expectations.

    Args:
        name: The name of the featureset.
        expectations: The expectations, about columns that the answers have.
        answers: One column per feature.
        columns: The types of the features by name.
    """
    return _held(name, expectations, answers, columns=columns, keys=[])


def _held(
    name: str,
    expectations: Sequence[Expectation],
    rows: pd.DataFrame,
    *,
    columns: Mapping[str, DataType],
    keys: list[str],
) -> tuple[ExpectationResult, ...]:
    if rows.empty or not expectations:
        return tuple(_finding(expectation, {"success": True}) for expectation in expectations)
    results = validated(suite_of(name, expectations, columns), rows, keys)
    return tuple(map(_finding, expectations, results))


def key_columns(plan: DatasetPlan) -> list[str]:
    """Return the columns that identify a row for people: its keys, else its event time."""
    return [field.name for field in plan.schema.keys] or [plan.log.time_field]


def _finding(expectation: Expectation, result: Mapping[str, Json]) -> ExpectationResult:
    counted, examples = result.get("result"), result.get("examples")
    return ExpectationResult(
        kind=expectation.kind,
        arguments=json.loads(json.dumps(dict(expectation.arguments))),
        mostly=expectation.mostly,
        severity=expectation.severity,
        success=result["success"] is True,
        counts={
            name: counted[name] for name in _COUNTS if isinstance(counted, dict) and name in counted
        },
        error=_error(result.get("exception_info")),
        examples=tuple(examples) if isinstance(examples, list) else (),
    )


def _error(info: Json) -> str | None:
    match info:
        case {"raised_exception": True, "exception_message": str(message)}:
            return message
        case dict():
            # There is one entry for each metric that could not be computed.
            return next((said for entry in info.values() if (said := _error(entry))), None)
        case _:
            return None
