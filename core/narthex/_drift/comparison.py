# mypy: disable-error-code="type-arg, misc, explicit-any"
"""The drift of a feature: how far answers are from a reference, and whether that matters.

A metric is beyond a threshold only if it is also greater than samples of these sizes would be by
chance, so a few rows do not alert.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs
import numpy as np

from narthex._base.records import Json
from narthex._drift.bins import (
    binned_categories,
    binned_numbers,
    live_distribution,
    reference_distribution,
)
from narthex._drift.distances import (
    cohens_h,
    h_by_chance,
    jensen_shannon_distance,
    js_by_chance,
    ks_by_chance,
    mean_shift_by_chance,
    population_stability_index,
    psi_by_chance,
    smoothed,
)
from narthex._drift.summaries import FeatureKind, FeatureSummary
from narthex._ir import Severity
from narthex._training.statistics import FeatureStatistics

LEAST_ROWS: Final = 100
"""With fewer rows on a side nothing is compared."""

SIGNIFICANCE: Final = 0.001
"""The probability that any metric of an interval without drift is beyond what chance explains."""


@attrs.frozen(kw_only=True)
class Thresholds:
    """From when on a metric matters."""

    warning: float
    critical: float


THRESHOLDS: Final[Mapping[str, Thresholds]] = MappingProxyType(
    {
        # Siddiqi 2006, "Credit Risk Scorecards": below 0.1 no, from 0.25 a significant change.
        "psi": Thresholds(warning=0.1, critical=0.25),
        # The others are where a normal distribution is that moved until its index was 0.1 or 0.25:
        # by 0.32 and 0.5 deviations, which Cohen (1988) names small to medium, and medium.
        "jensen_shannon": Thresholds(warning=0.13, critical=0.21),
        "kolmogorov_smirnov": Thresholds(warning=0.12, critical=0.2),
        "mean_shift": Thresholds(warning=0.32, critical=0.5),
        "null_shift": Thresholds(warning=0.32, critical=0.5),
    }
)


@attrs.frozen(kw_only=True)
class DriftReference:
    """The statistics with which answers are compared.

    Attributes:
        dropped_bits: How many of the last bits of doubles are dropped in its percentiles.
    """

    statistics: FeatureStatistics
    dropped_bits: int = 0

    @property
    def values(self) -> int:
        """How many rows have a value that is neither null nor infinite nor NaN."""
        counted = self.statistics
        return counted.rows - counted.nulls - counted.not_finite


@attrs.frozen(kw_only=True)
class DriftMetric:
    """One metric.

    Attributes:
        name: A key of `THRESHOLDS`.
        value: The metric; shifts have a sign.
        by_chance: What samples of these sizes exceed only by an unlikely chance.
    """

    name: str
    value: float
    by_chance: float

    @property
    def severity(self) -> Severity | None:
        """How bad it is; None if it is below the thresholds, or may be chance."""
        size, limits = abs(self.value), THRESHOLDS[self.name]
        if size <= self.by_chance or size < limits.warning:
            return None
        return Severity.CRITICAL if size >= limits.critical else Severity.WARNING

    def plain(self) -> dict[str, Json]:
        """Return the metric as JSON."""
        limits, severity = THRESHOLDS[self.name], self.severity
        return {
            "value": self.value,
            "by_chance": self.by_chance,
            "warning": limits.warning,
            "critical": limits.critical,
            "severity": None if severity is None else severity.value,
        }


@attrs.frozen(kw_only=True)
class FeatureDrift:
    """How far the answers of a feature are from a reference.

    Attributes:
        reference_rows: The number of rows of the reference.
        rows: The number of rows that were compared with it.
        metrics: Those that could be computed; none if there are too few rows.
    """

    reference_rows: int
    rows: int
    metrics: tuple[DriftMetric, ...] = ()

    @property
    def is_compared(self) -> bool:
        """Whether there were enough rows."""
        return bool(self.metrics)

    @property
    def severity(self) -> Severity | None:
        """The greatest severity of a metric."""
        found = {metric.severity for metric in self.metrics}
        return next((one for one in (Severity.CRITICAL, Severity.WARNING) if one in found), None)


def drift_of(reference: DriftReference, live: FeatureSummary, *, features: int = 1) -> FeatureDrift:
    """Compare the answers of a feature with a reference.

    Args:
        reference: The statistics of the reference.
        live: The summary of the answers; not changed.
        features: How many features are compared at once: the more, the less a single one is
            believed.
    """
    significance = SIGNIFICANCE / (features * len(THRESHOLDS))
    rows, reference_rows = live.rows, reference.statistics.rows
    if min(rows, reference_rows) < LEAST_ROWS:
        return FeatureDrift(reference_rows=reference_rows, rows=rows)
    metrics = [_null_shift(reference, live, significance)]
    if min(live.values, reference.values) >= LEAST_ROWS:
        metrics += _of_values(reference, live, significance)
    return FeatureDrift(reference_rows=reference_rows, rows=rows, metrics=tuple(metrics))


def _null_shift(
    reference: DriftReference, live: FeatureSummary, significance: float
) -> DriftMetric:
    rows, reference_rows = live.rows, reference.statistics.rows
    return DriftMetric(
        name="null_shift",
        value=cohens_h(1 - reference.values / reference_rows, 1 - live.values / rows),
        by_chance=h_by_chance(reference_rows, rows, significance=significance),
    )


def _of_values(
    reference: DriftReference, live: FeatureSummary, significance: float
) -> Iterator[DriftMetric]:
    statistics = reference.statistics
    match live.kind:
        case FeatureKind.NUMBER if statistics.percentiles:
            yield from _of_numbers(reference, live, significance)
        case FeatureKind.CATEGORY if statistics.top and not statistics.percentiles:
            binned = binned_categories(statistics, live)
            yield from _of_bins(binned.reference, binned.live, significance)
        case _:
            return


def _of_numbers(
    reference: DriftReference, live: FeatureSummary, significance: float
) -> Iterator[DriftMetric]:
    statistics = reference.statistics
    numbers = live.numbers.coarsened(reference.dropped_bits)
    expected = reference_distribution(statistics, numbers.dropped_bits)
    binned = binned_numbers(statistics, numbers, of_reference=expected, rows=reference.values)
    yield from _of_bins(binned.reference, binned.live, significance)
    found = live_distribution(numbers)
    points = np.unique(np.concatenate((expected.values, found.values)))
    known = points if expected.resolution == 0 else np.unique(expected.values)
    distances = (
        np.abs(expected.at_most(known) - found.at_most(known)).max(),
        np.abs(expected.below(known) - found.below(known)).max(),
    )
    by_chance = ks_by_chance(reference.values, live.values, significance=significance)
    yield DriftMetric(
        name="kolmogorov_smirnov",
        value=float(max(distances)),
        by_chance=by_chance + expected.resolution,
    )
    mean, stddev = live.numbers.mean, live.numbers.stddev
    if mean is None or stddev is None or statistics.mean is None or not statistics.stddev:
        return
    yield DriftMetric(
        name="mean_shift",
        value=(mean - statistics.mean) / statistics.stddev,
        by_chance=mean_shift_by_chance(
            stddev / statistics.stddev,
            reference.values,
            live.values,
            significance=significance,
        ),
    )


def _of_bins(reference: np.ndarray, live: np.ndarray, significance: float) -> Iterator[DriftMetric]:
    expected, found = smoothed(reference), smoothed(live)
    sizes = float(reference.sum()), float(live.sum())
    yield DriftMetric(
        name="psi",
        value=population_stability_index(expected, found),
        by_chance=psi_by_chance(len(expected), *sizes, significance=significance),
    )
    yield DriftMetric(
        name="jensen_shannon",
        value=jensen_shannon_distance(expected, found),
        by_chance=js_by_chance(len(expected), *sizes, significance=significance),
    )
