"""Distances and their quantiles are those of scipy."""

import math

import numpy as np
import pytest
import scipy  # it loads a submodule when it is used
from numpy.random import default_rng

from narthex._drift.bins import live_distribution
from narthex._drift.distances import (
    chi_squared_quantile,
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
from narthex._drift.number_counts import counts_of


@pytest.mark.parametrize("seed", range(10))
def test_the_divergences_are_those_of_scipy(seed: int) -> None:
    left, right = default_rng(seed).dirichlet([0.5] * 12, size=2)

    js = jensen_shannon_distance(left, right)
    psi = population_stability_index(left, right)

    assert js == pytest.approx(scipy.spatial.distance.jensenshannon(left, right, base=2), rel=1e-12)
    # The stability index is the sum of both relative entropies.
    assert psi == pytest.approx(
        scipy.stats.entropy(left, right) + scipy.stats.entropy(right, left), rel=1e-12
    )


def test_the_jensen_shannon_distance_is_defined_for_shares_of_zero() -> None:
    left, right = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])

    assert jensen_shannon_distance(left, right) == pytest.approx(
        scipy.spatial.distance.jensenshannon(left, right, base=2)
    )
    assert jensen_shannon_distance(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0


def test_a_normal_distribution_that_is_moved_by_d_has_an_index_of_d_squared() -> None:
    edges = scipy.stats.norm.ppf(np.linspace(0, 1, 2001))
    left, right = (np.diff(scipy.stats.norm.cdf(edges, loc=loc)) for loc in (0.0, 0.5))

    assert population_stability_index(left, right) == pytest.approx(0.25, rel=0.01)
    assert jensen_shannon_distance(left, right) == pytest.approx(0.21, abs=0.005)
    assert scipy.stats.norm.cdf(0.25) - scipy.stats.norm.cdf(-0.25) == pytest.approx(0.2, abs=0.005)


@pytest.mark.parametrize("probability", [0.99, 0.999, 0.99999, 1 - 1e-7])
def test_chi_squared_quantiles_are_those_of_scipy_or_a_little_greater(probability: float) -> None:
    for degrees, within in ((1, 1e-6), (2, 1e-6), (3, 0.09), (9, 0.04), (50, 0.005)):
        exact = scipy.stats.chi2.ppf(probability, degrees)
        found = chi_squared_quantile(degrees, probability)
        assert exact * (1 - 1e-6) <= found <= exact * (1 + within)
    assert chi_squared_quantile(0, probability) == 0.0


def test_critical_values_are_those_of_scipy() -> None:
    alpha = 1e-3

    assert ks_by_chance(800, 1200, significance=alpha) == pytest.approx(
        scipy.stats.kstwobign.isf(alpha) * math.sqrt(1 / 800 + 1 / 1200), rel=1e-3
    )
    z = scipy.stats.norm.isf(alpha / 2)
    assert h_by_chance(800, 1200, significance=alpha) == pytest.approx(
        z * math.sqrt(1 / 800 + 1 / 1200)
    )
    assert mean_shift_by_chance(2.0, 800, 1200, significance=alpha) == pytest.approx(
        z * math.sqrt(1 / 800 + 4 / 1200)
    )
    assert cohens_h(0.1, 0.1) == 0
    assert cohens_h(0.0, 1.0) == pytest.approx(math.pi)


@pytest.mark.parametrize(("reference", "live"), [(10_000, 200), (500, 500), (1000, 20_000)])
def test_samples_of_one_distribution_rarely_exceed_the_critical_values(
    reference: int, live: int
) -> None:
    rng, bins, runs = default_rng(7), 10, 4000
    shares = np.full(bins, 1 / bins)
    psi, js = [], []
    for _ in range(runs):
        left = smoothed(rng.multinomial(reference, shares).astype(float))
        right = smoothed(rng.multinomial(live, shares).astype(float))
        psi.append(population_stability_index(left, right))
        js.append(jensen_shannon_distance(left, right))

    # The mean of the index is its known bias.
    assert np.mean(psi) == pytest.approx((bins - 1) * (1 / reference + 1 / live), rel=0.1)
    for significance in (0.05, 0.01):
        most = significance + 4 * math.sqrt(significance / runs)
        psi_limit = psi_by_chance(bins, reference, live, significance=significance)
        js_limit = js_by_chance(bins, reference, live, significance=significance)
        assert significance / 3 < np.mean(np.array(psi) > psi_limit) < most
        assert significance / 3 < np.mean(np.array(js) > js_limit) < most


@pytest.mark.parametrize("seed", range(5))
def test_distribution_functions_give_the_statistic_of_scipy(seed: int) -> None:
    rng = default_rng(seed)
    left, right = rng.integers(0, 300, 900) / 7, rng.integers(20, 300, 700) / 7
    points = np.unique(np.concatenate((left, right)))

    found = np.abs(
        live_distribution(counts_of(left)).at_most(points)
        - live_distribution(counts_of(right)).at_most(points)
    ).max()

    assert found == pytest.approx(scipy.stats.ks_2samp(left, right).statistic, rel=1e-12)
