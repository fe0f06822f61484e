"""Gates: checks of whole histories against expectations, before readers flip to a commit.

A history of any size is checked in bounded memory: in spans of event time, whose counts are added.
Great Expectations judges each span, and the sum is judged by the same share.
"""

from collections.abc import Iterable

import attrs

from narthex._base import Json
from narthex._ir import DatasetPlan
from narthex_expectations.audit_results import EXAMPLES, AuditResult, ExpectationResult
from narthex_expectations.audits import asset_of, audit_aggregates, hold
from narthex_expectations.data_context import ValidationRun
from narthex_expectations.frames import open_history, rows_between
from narthex_expectations.suites import compile_suite

STATES_AT_ONCE = 200_000
"""How many fact states are in memory at once.

A retraction has no event time of its own, so each span has all of them besides.
"""

_SUMMED = ("element_count", "unexpected_count", "missing_count")


def check_history(
    plan: DatasetPlan,
    history_path: str,
    *,
    now_us: int,
    states_at_once: int = STATES_AT_ONCE,
    run: ValidationRun | None = None,
) -> AuditResult:
    """Check all valid rows that a history has now against the expectations of their dataset.

    Rows that arrive meanwhile are not checked; the result has the offsets that were read up to. Of
    a dataset that ends in an aggregate, the values of sampled keys are checked, as of its newest
    row.

    Args:
        plan: The dataset, with its expectations.
        history_path: A path or an `s3://` URL.
        now_us: The present: later rows do not decide as of when aggregates are checked.
        states_at_once: About how many fact states to read at once.
        run: The run that stores the validation result; None stores none.

    Raises:
        FileNotFoundError: There is no history.
        StoreError: The store did not answer.
        UnknownExpectationError: An expectation is of a kind that this version does not support.
    """
    table = open_history(plan, history_path)
    if plan.aggregates:
        return audit_aggregates(plan, table, from_us=None, to_us=None, now_us=now_us, run=run)
    offsets = table.offsets()
    rows = 0
    totals: tuple[ExpectationResult, ...] = ()
    spans = table.spans(states=states_at_once, offsets=offsets)
    for from_us, to_us in spans:
        span = rows_between(table, from_us=from_us, to_us=to_us, offsets=offsets)
        found = hold(plan, span, run if len(spans) == 1 else None)
        rows += len(span)
        totals = tuple(map(added, totals, found)) if totals else found
    if run is not None and rows and totals and len(spans) > 1:
        run.keep(compile_suite(plan), totals, asset_of(plan))
    return AuditResult(
        dataset=plan.name,
        version=plan.version,
        from_us=None,
        to_us=None,
        rows=rows,
        findings=totals,
        offsets=offsets,
    )


def added(one: ExpectationResult, other: ExpectationResult) -> ExpectationResult:
    """Return the result of one expectation for the rows of two results together.

    It is met if both are, and otherwise if the share of all rows that meet it is at least its
    `mostly`. An expectation that could not be evaluated for some rows is broken.
    """
    counts = _sums((one, other))
    error = one.error or other.error
    return attrs.evolve(
        one,
        success=error is None and ((one.success and other.success) or _is_met(one, counts)),
        counts=counts,
        error=error,
        examples=(*one.examples, *other.examples)[:EXAMPLES],
    )


def _sums(results: Iterable[ExpectationResult]) -> dict[str, Json]:
    sums: dict[str, Json] = {}
    for result in results:
        for name in _SUMMED:
            if name in result.counts:
                sums[name] = _number(sums, name) + _number(result.counts, name)
        if "observed_value" in result.counts:
            sums.setdefault("observed_value", result.counts["observed_value"])
    checked = _rows_checked(sums)
    if checked:
        sums["unexpected_percent"] = 100.0 * _number(sums, "unexpected_count") / checked
    if elements := _number(sums, "element_count"):
        sums["missing_percent"] = 100.0 * _number(sums, "missing_count") / elements
    return sums


def _is_met(result: ExpectationResult, counts: dict[str, Json]) -> bool:
    if "unexpected_count" not in counts:
        # It is about the type of the whole column, which each span has alike.
        return False
    checked = _rows_checked(counts)
    share = 1.0 if result.mostly is None else result.mostly
    return not checked or (checked - _number(counts, "unexpected_count")) / checked >= share


def _rows_checked(counts: dict[str, Json]) -> int:
    """Return the number of rows that an expectation is about: those without nulls, or all."""
    return _number(counts, "element_count") - _number(counts, "missing_count")


def _number(counts: object, name: str) -> int:
    match counts:
        case dict() if isinstance(found := counts.get(name), int):
            return found
        case _:
            return 0
