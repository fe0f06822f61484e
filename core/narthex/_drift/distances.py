# mypy: disable-error-code="type-arg, misc, explicit-any"
"""Distances between two distributions, and how great they are by chance.

Shares are those of the same bins or categories on both sides, as one-dimensional arrays of float64
that sum up to 1. Logarithms are natural, except in the Jensen-Shannon distance.
"""

import math
from statistics import NormalDist
from typing import Final

import numpy as np

_NORMAL: Final = NormalDist()


def smoothed(counts: np.ndarray) -> np.ndarray:
    """Return the shares of counts, with half a row more in each bin, so that no share is zero."""
    more = counts + 0.5
    shares: np.ndarray = more / more.sum()
    return shares


def population_stability_index(reference: np.ndarray, live: np.ndarray) -> float:
    """Return the sum of (live - reference) * ln(live / reference); no share may be zero."""
    return float(np.sum((live - reference) * np.log(live / reference)))


def jensen_shannon_distance(reference: np.ndarray, live: np.ndarray) -> float:
    """Return the square root of the Jensen-Shannon divergence in bits: from 0 to 1."""
    middle = (reference + live) / 2
    divergence = (_divergence(reference, middle) + _divergence(live, middle)) / 2
    return math.sqrt(max(divergence, 0.0))


def cohens_h(reference: float, live: float) -> float:
    """Return the effect size of the difference of two proportions: from -pi to pi."""
    return 2 * math.asin(math.sqrt(live)) - 2 * math.asin(math.sqrt(reference))


def psi_by_chance(bins: int, reference: float, live: float, *, significance: float) -> float:
    """Return the index that samples of one distribution exceed with this probability.

    For samples of n and m rows, the index of one distribution is (1/n + 1/m) times a chi-squared
    variable with B - 1 degrees of freedom (Yurdakul and Naranjo 2020), so its mean, by which it is
    biased, is (B - 1) (1/n + 1/m).

    Args:
        bins: The number of bins, B.
        reference: The number of rows of the reference, n.
        live: The number of rows that are compared with it, m.
        significance: The probability.
    """
    return chi_squared_quantile(bins - 1, 1 - significance) * (1 / reference + 1 / live)


def js_by_chance(bins: int, reference: float, live: float, *, significance: float) -> float:
    """Return the Jensen-Shannon distance that samples of one distribution exceed so often.

    For distributions that are close, the divergence is an eighth of the stability index.
    """
    psi = psi_by_chance(bins, reference, live, significance=significance)
    return math.sqrt(psi / (8 * math.log(2)))


def ks_by_chance(reference: float, live: float, *, significance: float) -> float:
    """Return the Kolmogorov-Smirnov statistic that samples of one distribution exceed so often."""
    return math.sqrt(-math.log(significance / 2) / 2 * (1 / reference + 1 / live))


def h_by_chance(reference: float, live: float, *, significance: float) -> float:
    """Return the absolute value of Cohen's h that samples of one proportion exceed so often."""
    return _two_sided(significance) * math.sqrt(1 / reference + 1 / live)


def mean_shift_by_chance(
    ratio: float, reference: float, live: float, *, significance: float
) -> float:
    """Return the shift of the mean, in deviations of the reference, that is exceeded so often.

    Args:
        ratio: The standard deviation of the live values, in deviations of the reference.
        reference: The number of rows of the reference.
        live: The number of live rows.
        significance: The probability.
    """
    return _two_sided(significance) * math.sqrt(1 / reference + ratio * ratio / live)


def chi_squared_quantile(degrees: int, probability: float) -> float:
    """Return a quantile of the chi-squared distribution, for probabilities from 0.99 up.

    It is exact for one and two degrees, and otherwise the approximation of Wilson and Hilferty
    (1931), which is up to 9 % too great at three degrees and 3 % at nine, so errs towards chance.
    """
    match degrees:
        case 0:
            return 0.0
        case 1:
            return _two_sided(1 - probability) ** 2
        case 2:
            return -2 * math.log(1 - probability)
        case _:
            spread = 2 / (9 * degrees)
            shift = _NORMAL.inv_cdf(probability) * math.sqrt(spread)
            return float(degrees * (1 - spread + shift) ** 3)


def _two_sided(significance: float) -> float:
    return -_NORMAL.inv_cdf(significance / 2)


def _divergence(left: np.ndarray, right: np.ndarray) -> float:
    there = left > 0
    return float(np.sum(left[there] * np.log2(left[there] / right[there])))
