# mypy: disable-error-code="type-arg, misc, explicit-any"
"""A reference and a summary as counts of the same bins, and as distribution functions.

Numbers are binned at the deciles of the reference; a decile that several percentiles share is a bin
of its own, because its value is frequent. Categories are the frequent values of the reference, and
all others together.
"""

import json
from typing import Final

import attrs
import numpy as np

from narthex._drift.number_counts import NumberCounts, truncated
from narthex._drift.summaries import FeatureSummary
from narthex._training.statistics import PERCENTILES, FeatureStatistics

LEAST_SHARE: Final = 0.01
"""The least share of a category of the reference that is a bin of its own."""

_STEP: Final = (PERCENTILES - 1) // 10
_LAST: Final = PERCENTILES - 1


@attrs.frozen(kw_only=True, eq=False)
class Binned:
    """How many rows of each side are in each bin; without bins there is nothing to compare."""

    reference: np.ndarray
    live: np.ndarray


@attrs.frozen(kw_only=True, eq=False)
class Distribution:
    """The distribution function of numbers.

    Attributes:
        resolution: The greatest error of a share.
    """

    values: np.ndarray
    until: np.ndarray
    resolution: float

    def at_most(self, points: np.ndarray) -> np.ndarray:
        """Return the shares of numbers up to some points, included."""
        return self._until(np.searchsorted(self.values, points, side="right"))

    def below(self, points: np.ndarray) -> np.ndarray:
        """Return the shares of numbers below some points."""
        return self._until(np.searchsorted(self.values, points, side="left"))

    def _until(self, places: np.ndarray) -> np.ndarray:
        shares: np.ndarray = np.concatenate(([0.0], self.until))[places]
        return shares


@attrs.frozen(kw_only=True, eq=False)
class Percentiles:
    """The distribution function of numbers of which only the percentiles are known."""

    values: np.ndarray
    resolution: float = 1 / _LAST

    def at_most(self, points: np.ndarray) -> np.ndarray:
        """Return the shares of numbers up to some points, included."""
        after = np.searchsorted(self.values, points, side="right")
        # A value that has several percentiles ends somewhere before the next one.
        ties = after - np.searchsorted(self.values, points, side="left")
        shares = (after - 1 + np.where((ties > 1) & (after <= _LAST), 0.5, 0.0)) / _LAST
        return np.clip(shares, 0.0, 1.0)

    def below(self, points: np.ndarray) -> np.ndarray:
        """Return the shares of numbers below some points."""
        before = np.searchsorted(self.values, points, side="left")
        ties = np.searchsorted(self.values, points, side="right") - before
        shares = (before - np.where(ties > 1, 0.5, 0.0)) / _LAST
        return np.where(before == 0, 0.0, np.clip(shares, 0.0, 1.0))


def live_distribution(numbers: NumberCounts) -> Distribution:
    """Return the distribution function of counted numbers, of which there is at least one."""
    return _distribution(np.array(numbers.values), np.array(numbers.counts, dtype=np.float64))


def reference_distribution(
    reference: FeatureStatistics, dropped_bits: int
) -> Distribution | Percentiles:
    """Return the distribution function of a reference with percentiles.

    It is exact if the reference lists all of its values.
    """
    counts = np.array([count for _, count in reference.top], dtype=np.float64)
    if len(counts) and reference.distinct == len(counts):
        listed = np.array([float(str(value)) for value, _ in reference.top])
        values, places = np.unique(truncated(listed, dropped_bits), return_inverse=True)
        sums = np.zeros(len(values))
        np.add.at(sums, places, counts)
        return _distribution(values, sums)
    return Percentiles(values=truncated(np.array(reference.percentiles), dropped_bits))


def binned_numbers(
    reference: FeatureStatistics,
    live: NumberCounts,
    *,
    of_reference: Distribution | Percentiles,
    rows: int,
) -> Binned:
    """Count numbers in the bins between the deciles of the reference.

    Args:
        reference: The reference, with percentiles.
        live: The numbers to compare, of which there is at least one.
        of_reference: The distribution of the reference.
        rows: How many numbers the reference has.
    """
    knots = truncated(np.array(reference.percentiles), live.dropped_bits)
    deciles, times = np.unique(knots[_STEP:_LAST:_STEP], return_counts=True)
    is_frequent = (times > 1) | (len(deciles) == 1)
    of_live = live_distribution(live)
    shares = [
        np.sort(np.concatenate((of.at_most(deciles), of.below(deciles[is_frequent]), [0.0, 1.0])))
        for of in (of_reference, of_live)
    ]
    expected, found = (np.diff(one) for one in shares)
    return Binned(reference=expected * rows, live=found * live.rows)


def binned_categories(reference: FeatureStatistics, live: FeatureSummary) -> Binned:
    """Count values in the categories of the reference."""
    rows = reference.rows - reference.nulls
    frequent = {
        json.dumps(value, ensure_ascii=False): count
        for value, count in reference.top
        if count >= LEAST_SHARE * rows
    }
    counts = dict(live.categories.listed)
    found = [counts.get(value, 0) for value in frequent]
    return Binned(
        reference=np.array([*frequent.values(), rows - sum(frequent.values())], dtype=np.float64),
        live=np.array([*found, live.values - sum(found)], dtype=np.float64),
    )


def _distribution(values: np.ndarray, counts: np.ndarray) -> Distribution:
    return Distribution(values=values, until=np.cumsum(counts) / counts.sum(), resolution=0.0)
