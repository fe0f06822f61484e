"""Audits: checks of rows of a span of time against their expectations."""

import enum
import json
from collections.abc import Mapping, Sequence

import attrs
import great_expectations as gx
import pandas as pd
from great_expectations.core import ExpectationSuite
from great_expectations.data_context.types.base import ProgressBarsConfig

from narthex._base import HOUR_US, Json, render_instant
from narthex._ir import DatasetPlan, DataType, Expectation, Severity
from narthex_expectations.frames import open_history, rows_arrived, rows_between
from narthex_expectations.sampled_rows import sampled_rows
from narthex_expectations.suites import NUMBER, compile_suite, suite_of
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


class By(enum.StrEnum):
    """The time by which the rows of an interval are chosen.

    `LOGGED` is that of the answers of a featureset; the others are those of rows of a dataset.
    """

    EVENT_TIME = "event_time"
    ARRIVAL = "arrival"
    LOGGED = "logged"


EXAMPLES = 5
"""How many rows that break an expectation are named by their keys."""


@attrs.frozen(kw_only=True)
class ExpectationResult:
    """The result of one expectation.

    Attributes:
        success: Whether the share of rows that meet it is at least its `mostly`.
        counts: The counts, by the names of Great Expectations.
        error: Why it could not be evaluated; then it did not succeed.
        examples: The keys of some rows that break it; never part of a stored audit.
    """

    kind: str
    arguments: Json
    mostly: float | None
    severity: Severity
    success: bool
    counts: Mapping[str, Json]
    error: str | None = None
    examples: tuple[Json, ...] = ()

    @property
    def is_critical(self) -> bool:
        """Whether it is broken, and critical."""
        return not self.success and self.severity is Severity.CRITICAL


@attrs.frozen(kw_only=True)
class AuditResult:
    """The result of all expectations of a dataset or a featureset, for the rows of a span.

    Attributes:
        dataset: The name of the dataset, or of the featureset.
        version: The version of the dataset; 0 for a featureset.
        from_us: The first instant, inclusive; None for the whole history.
        to_us: The end, exclusive; None for the whole history.
        by: Which time of rows these instants are about.
        rows: How many rows were valid in the span; an empty span meets every expectation. Of a
            dataset that ends in an aggregate, how many keys had values; of a featureset, how many
            answers of logged queries.
        share: About which share of the keys of an aggregate were looked up, or of the logged
            queries were read; None for rows.
        as_of: The instant as of which the aggregates were computed; None for rows.
        offsets: The next offset of each partition that was read up to; None for all that there was.
    """

    dataset: str
    version: int
    from_us: int | None
    to_us: int | None
    rows: int
    findings: tuple[ExpectationResult, ...]
    offsets: Mapping[int, int] | None = None
    share: float | None = None
    as_of: int | None = None
    by: By = By.EVENT_TIME

    @property
    def success(self) -> bool:
        """Whether every expectation was met."""
        return all(finding.success for finding in self.findings)

    @property
    def is_critical(self) -> bool:
        """Whether a critical expectation was broken."""
        return any(finding.is_critical for finding in self.findings)

    @property
    def statistics(self) -> dict[str, Json]:
        """The numbers of expectations that were evaluated and met."""
        kept = sum(finding.success for finding in self.findings)
        return {
            "evaluated_expectations": len(self.findings),
            "successful_expectations": kept,
            "unsuccessful_expectations": len(self.findings) - kept,
            "success_percent": 100.0 * kept / len(self.findings) if self.findings else None,
        }

    def to_json(self) -> dict[str, Json]:
        """Render the result for the ledger and for people, without examples."""
        return {
            "dataset": self.dataset,
            "version": self.version,
            "from": None if self.from_us is None else render_instant(self.from_us),
            "to": None if self.to_us is None else render_instant(self.to_us),
            "by": self.by.value,
            "offsets": None if self.offsets is None else _plain_offsets(self.offsets),
            "rows": self.rows,
            "share": self.share,
            "as_of": None if self.as_of is None else render_instant(self.as_of),
            "success": self.success,
            "is_critical": self.is_critical,
            "failed": sum(not finding.success for finding in self.findings),
            "statistics": self.statistics,
            "expectations": [
                {
                    "kind": finding.kind,
                    "arguments": finding.arguments,
                    "mostly": finding.mostly,
                    "severity": finding.severity.value,
                    "success": finding.success,
                    "error": finding.error,
                    **finding.counts,
                }
                for finding in self.findings
            ],
        }

    @property
    def examples(self) -> list[Json]:
        """The keys of some rows that break each expectation, in the order of the expectations."""
        return [list(finding.examples) for finding in self.findings]


def _plain_offsets(offsets: Mapping[int, int]) -> dict[str, Json]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


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
    suite = compile_suite(plan)
    return _held(suite, plan.expectations, rows, key_columns(plan))


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
    return _held(suite_of(name, expectations, columns), expectations, answers, keys=[])


def _held(
    suite: ExpectationSuite,
    expectations: Sequence[Expectation],
    rows: pd.DataFrame,
    keys: list[str],
) -> tuple[ExpectationResult, ...]:
    if rows.empty or not expectations:
        return tuple(_finding(expectation, {"success": True}) for expectation in expectations)
    by_number = {_number(result): result for result in _validate(suite, rows, keys)}
    return tuple(
        _finding(expectation, by_number[number]) for number, expectation in enumerate(expectations)
    )


def key_columns(plan: DatasetPlan) -> list[str]:
    """Return the columns that identify a row for people: its keys, else its event time."""
    return [field.name for field in plan.schema.keys] or [plan.log.time_field]


def _validate(
    suite: ExpectationSuite, rows: pd.DataFrame, keys: list[str]
) -> list[dict[str, Json]]:
    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(enable=False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    batch = (
        context.data_sources.add_pandas("history")
        .add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("all")
        .get_batch(batch_parameters={"dataframe": rows})
    )
    validation = batch.validate(
        suite,
        result_format={
            "result_format": "SUMMARY",
            "partial_unexpected_count": EXAMPLES,
            **({"unexpected_index_column_names": keys} if keys else {}),
        },
    )
    results: list[dict[str, Json]] = json.loads(json.dumps(validation.to_json_dict()))["results"]
    return [
        {**result, "examples": [_keys_of(row, keys) for row in _examples(result.get("result"))]}
        for result in results
    ]


def _examples(counted: Json) -> list[Json]:
    match counted:
        case {"partial_unexpected_index_list": list(rows)}:
            return rows
        case _:
            return []


def _keys_of(row: Json, keys: list[str]) -> Json:
    """Return the keys of a row, without the values that an expectation is about."""
    return {name: row[name] for name in keys if name in row} if isinstance(row, dict) else None


def _number(result: Mapping[str, Json]) -> Json:
    match result:
        case {"expectation_config": {"meta": {"number": int(number)}}}:
            return number
        case _:
            raise ValueError(f"a result of Great Expectations lacks `{NUMBER}` in its meta")


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
