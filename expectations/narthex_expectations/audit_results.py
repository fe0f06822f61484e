"""The results of audits, without what makes them."""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from narthex._base import Json, render_instant
from narthex._ir import Severity


class UnknownExpectationError(ValueError):
    """An expectation is of a kind that this version cannot evaluate."""


class By(enum.StrEnum):
    """The time by which the rows of an interval are chosen.

    `LOGGED` is that of the answers of a featureset; the others are those of rows of a dataset.
    """

    EVENT_TIME = "event_time"
    ARRIVAL = "arrival"
    LOGGED = "logged"


EXAMPLES: Final = 5
"""How many rows that break an expectation are named by their keys."""

COUNTS: Final = (
    "element_count",
    "unexpected_count",
    "unexpected_percent",
    "missing_count",
    "missing_percent",
    "observed_value",
)
"""The stored part of a result: counts, never rows, so that no personal data outlives an erase."""

OF_TYPES: Final = frozenset(
    {"expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"}
)
"""The kinds of expectations whose `observed_value` is the type of a column."""


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
