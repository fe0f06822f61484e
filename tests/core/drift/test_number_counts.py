"""Counts of numbers are a function of the numbers, however they are split and merged."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from narthex._drift.number_counts import (
    MOST_VALUES,
    InvalidSummaryError,
    NumberCounts,
    counts_of,
    merged,
    truncated,
)
from tests.cases import every


def parts_of(numbers: np.ndarray, rng: Generator) -> list[np.ndarray]:
    """Shuffle numbers and cut them at random places."""
    shuffled = rng.permutation(numbers)
    cuts = np.sort(rng.integers(0, len(numbers), int(rng.integers(1, 9))))
    return np.split(shuffled, cuts)


def drawn(rng: Generator) -> np.ndarray:
    """Draw numbers of one of several forms."""
    size = int(rng.integers(1, 5000))
    forms = (
        lambda: rng.normal(290, 5, size),
        lambda: rng.lognormal(0, 4, size) * rng.choice([-1, 1], size),
        lambda: rng.integers(0, 50, size).astype(float),
        lambda: np.where(rng.random(size) < 0.6, 0.0, rng.exponential(3, size)),
        lambda: rng.normal(1, 1e-9, size),
        lambda: rng.normal(size=size) * 10.0 ** rng.integers(-300, 300, size),
    )
    return forms[int(rng.integers(len(forms)))]()


@every("seed", range(40))
def test_a_merge_of_parts_equals_the_counts_of_all_numbers(seed: int) -> None:
    rng = default_rng(seed)
    numbers = drawn(rng)
    whole = counts_of(numbers)

    parts = [counts_of(part) for part in parts_of(numbers, rng)]
    left, right = parts[: len(parts) // 2], parts[len(parts) // 2 :]

    assert merged(parts) == whole
    assert merged([merged(right), merged(left)]) == whole
    assert json.dumps(merged(parts).plain()) == json.dumps(whole.plain())
    assert NumberCounts.of_plain(json.loads(json.dumps(whole.plain()))) == whole


def test_the_fewest_bits_are_dropped_with_which_1024_values_remain() -> None:
    numbers = default_rng(3).normal(290, 5, 20_000)

    counted = counts_of(numbers)

    bits = counted.dropped_bits
    assert len(counted.values) <= MOST_VALUES < len(np.unique(truncated(numbers, bits - 1)))
    assert counted.values == tuple(np.unique(truncated(numbers, bits)).tolist())
    # Numbers near 290 keep enough bits: far more than one percent of their size.
    assert np.quantile(np.diff(counted.values), 0.9) < 0.05


def test_few_values_are_counted_exactly() -> None:
    counted = counts_of(np.array([3.0, -0.0, 0.0, 1.5, 3.0, -7.25]))

    assert counted.values == (-7.25, 0.0, 1.5, 3.0)
    assert counted.counts == (1, 2, 1, 2)
    assert math.copysign(1, counted.values[1]) == 1
    assert (counted.least, counted.greatest, counted.dropped_bits) == (-7.25, 3.0, 0)


def test_moments_are_those_of_exact_arithmetic() -> None:
    numbers = default_rng(5).normal(1e9, 1e-3, 1000)
    exact = [Fraction(number) for number in numbers.tolist()]
    mean = sum(exact) / len(exact)
    variance = sum((one - mean) ** 2 for one in exact) / (len(exact) - 1)

    counted = merged([counts_of(part) for part in np.split(numbers, 10)])

    assert counted.mean == float(mean)
    assert counted.stddev == pytest.approx(math.sqrt(variance), rel=1e-14)


def test_no_numbers_have_no_moments() -> None:
    assert (counts_of(np.array([])).mean, NumberCounts().stddev) == (None, None)
    assert counts_of(np.array([4.0])).stddev is None
    assert merged([]) == merged([NumberCounts()]) == NumberCounts()


def test_moments_beyond_all_doubles_are_left_out() -> None:
    counted = counts_of(np.array([1.7e308, -1.7e308, 1.6e308]))

    assert counted.mean == pytest.approx(1.6e308 / 3)
    assert counted.stddev is None


@pytest.mark.parametrize(
    "changed",
    [
        {"counts": [1]},
        {"counts": [-1, 2]},
        {"values": [1.0, "2"]},
        {"dropped_bits": 63},
        {"total": ["z", 0]},
        {"squares": ["1", 1 << 40]},
        {"values": [0.0] * 1025, "counts": [1] * 1025},
    ],
)
def test_malformed_counts_are_refused(changed: dict[str, object]) -> None:
    plain = counts_of(np.array([1.0, 2.0])).plain()

    with pytest.raises(InvalidSummaryError):
        NumberCounts.of_plain({**plain, **changed})
