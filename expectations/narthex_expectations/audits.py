"""Audits: checks of rows of a span of time against their expectations."""

import json
from collections.abc import Mapping, Sequence

import pandas as pd

from narthex._base import HOUR_US, Json
from narthex._ir import DatasetPlan, DataType, Expectation
from narthex_expectations.audit_results import COUNTS, AuditResult, By, ExpectationResult
from narthex_expectations.data_context import Asset, ValidationRun
from narthex_expectations.frames import open_history, rows_arrived, rows_between
from narthex_expectations.sampled_rows import sampled_rows
from narthex_expectations.suites import compile_suite, suite_of, validated
from narthex_stores import HistoryTable, PinnedHistory


def audit(
    plan: DatasetPlan,
    history_path: str,
    *,
    from_us: int,
    to_us: int,
    run: ValidationRun | None = None,
) -> AuditResult:
    """Check the rows of a span of event time against the expectations of their dataset.

    Only valid rows are checked: neither superseded states nor retracted rows. Of a dataset that
    ends in an aggregate, the values of sampled keys are checked as of the end of the span.

    Args:
        plan: The dataset, with its expectations.
        history_path: A path or an `s3://` URL.
        from_us: The first instant, inclusive.
        to_us: The instant to stop before.
        run: The run that stores the validation result; None stores none.

    Raises:
        FileNotFoundError: There is no history.
        UnknownExpectationError: An expectation is of a kind that this version does not support.
    """
    table = open_history(plan, history_path)
    if plan.aggregates:
        return audit_aggregates(plan, table, from_us=from_us, to_us=to_us, now_us=to_us, run=run)
    rows = rows_between(table, from_us=from_us, to_us=to_us)
    return AuditResult(
        dataset=plan.name,
        version=plan.version,
        from_us=from_us,
        to_us=to_us,
        rows=len(rows),
        findings=hold(plan, rows, run),
    )


def audit_arrived(  # noqa: PLR0913 - an interval in the log, and the run that stores its result
    plan: DatasetPlan,
    table: HistoryTable,
    *,
    from_us: int,
    to_us: int,
    since: Mapping[int, int],
    offsets: Mapping[int, int],
    run: ValidationRun | None = None,
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
        run: The run that stores the validation result; None stores none.

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
        findings=hold(plan, rows, run),
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
    run: ValidationRun | None = None,
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
        findings=hold(plan, sample.rows, run),
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


def hold(
    plan: DatasetPlan, rows: pd.DataFrame, run: ValidationRun | None = None
) -> tuple[ExpectationResult, ...]:
    """Check rows against the expectations of their dataset, in the order of the expectations.

    Args:
        plan: The dataset.
        rows: Its rows, or values of its aggregates.
        run: The run that stores the validation result; None stores none. Without rows there is
            nothing to validate or to store.
    """
    if rows.empty or not plan.expectations:
        return tuple(map(_met, plan.expectations))
    suite, keys = compile_suite(plan), key_columns(plan)
    results = (
        validated(suite, rows, keys)
        if run is None
        else run.validated(suite, rows, keys, asset_of(plan))
    )
    return tuple(
        _finding(expectation, result, keys)
        for expectation, result in zip(plan.expectations, results, strict=True)
    )


def hold_answers(
    name: str,
    expectations: Sequence[Expectation],
    answers: pd.DataFrame,
    columns: Mapping[str, DataType],
    run: ValidationRun | None = None,
) -> tuple[ExpectationResult, ...]:
    """Check answers against expectations of their featureset, in the order of the expectations.

    Args:
        name: The name of the featureset.
        expectations: The expectations, about columns that the answers have.
        answers: One column per feature.
        columns: The types of the features by name.
        run: The run that stores the validation result of the featureset, whose expectations these
            are; None stores none.
    """
    if answers.empty or not expectations:
        return tuple(map(_met, expectations))
    suite = suite_of(name, expectations, columns)
    results = (
        validated(suite, answers, [])
        if run is None
        else run.validated(suite, answers, [], Asset.ANSWERS)
    )
    return tuple(map(_finding, expectations, results))


def asset_of(plan: DatasetPlan) -> Asset:
    """Return what is validated of a dataset."""
    return Asset.AGGREGATES if plan.aggregates else Asset.ROWS


def key_columns(plan: DatasetPlan) -> list[str]:
    """Return the columns that identify a row for people: its keys, else its event time."""
    return [field.name for field in plan.schema.keys] or [plan.log.time_field]


def _met(expectation: Expectation) -> ExpectationResult:
    """Return the result of an expectation about no rows."""
    return _finding(expectation, {"success": True})


def _finding(
    expectation: Expectation, result: Mapping[str, Json], keys: Sequence[str] = ()
) -> ExpectationResult:
    counted = result.get("result")
    return ExpectationResult(
        kind=expectation.kind,
        arguments=json.loads(json.dumps(dict(expectation.arguments))),
        mostly=expectation.mostly,
        severity=expectation.severity,
        success=result["success"] is True,
        counts={
            name: counted[name] for name in COUNTS if isinstance(counted, dict) and name in counted
        },
        error=_error(result.get("exception_info")),
        examples=tuple(_keys_of(row, keys) for row in _examples(counted)),
    )


def _examples(counted: Json) -> list[Json]:
    match counted:
        case {"partial_unexpected_index_list": list(rows)}:
            return rows
        case _:
            return []


def _keys_of(row: Json, keys: Sequence[str]) -> Json:
    """Return the keys of a row, without the values that an expectation is about."""
    return {name: row[name] for name in keys if name in row} if isinstance(row, dict) else None


def _error(info: Json) -> str | None:
    match info:
        case {"raised_exception": True, "exception_message": str(message)}:
            return message
        case dict():
            # There is one entry for each metric that could not be computed.
            return next((said for entry in info.values() if (said := _error(entry))), None)
        case _:
            return None
