"""Counts of values in buckets of a relative width, from which ranks can be computed.

A DDSketch (Masson, Rim and Lee 2019, "a fast and fully-mergeable quantile sketch with
relative-error guarantees") that never collapses: the set of buckets is a function of the values
alone, regardless of their order and of merges. Doubles have some 70,000 buckets of either sign;
real measurements have some hundreds.
"""

import math
import sys
from collections.abc import Iterable
from typing import Final, TypeAlias

Buckets: TypeAlias = list[list[int]]
"""Pairs [bucket, count], ascending; a greater bucket has greater values."""

SHARE: Final = 0.01
"""The greatest relative difference between a value and the middle of its bucket."""

WIDTH: Final = math.log1p(2 * SHARE / (1 - SHARE))
LEAST: Final = 100_000
"""Added to the bucket numbers of both signs, whose exponents are smaller; zero is between them."""
_INFINITE: Final = 10**6
_UNDEFINED: Final = 10**7


def bucket_of(number: float) -> int:
    """Return the bucket of a number; the bucket of NaN is the greatest."""
    if math.isnan(number):
        return _UNDEFINED
    if math.isinf(number):
        return _INFINITE if number > 0 else -_INFINITE
    if number == 0:
        return 0
    above = LEAST + math.ceil(math.log(abs(number)) / WIDTH)
    return above if number > 0 else -above


def middle_of(bucket: int) -> float:
    """Return the number that represents a bucket."""
    match abs(bucket):
        case 0:
            return 0.0
        case above if above == _UNDEFINED:
            return math.nan
        case above if above == _INFINITE:
            return math.copysign(math.inf, bucket)
        case above:
            # The upper end, less the share: the same relative distance from both ends.
            size = math.exp((above - LEAST) * WIDTH) * (1 - SHARE)
            return math.copysign(min(size, sys.float_info.max), bucket)


def counted(buckets: Iterable[tuple[int, int] | list[int]]) -> Buckets:
    """Add up the counts of each bucket."""
    totals: dict[int, int] = {}
    for bucket, many in buckets:
        totals[bucket] = totals.get(bucket, 0) + many
    return [[bucket, totals[bucket]] for bucket in sorted(totals)]
