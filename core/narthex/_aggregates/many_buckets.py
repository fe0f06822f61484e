"""The buckets of many numbers at once. A separate module because it loads `numpy`."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from narthex._aggregates.buckets import LEAST, WIDTH, Buckets, bucket_of

_UNSURE: Final = 1e-6


def bucketed(numbers: Sequence[float]) -> Buckets:
    """Return the buckets of many numbers, with their counts, some of them twice; as `bucket_of`."""
    every = np.array(numbers, dtype=np.float64)
    is_ordinary = np.isfinite(every) & (every != 0)
    ordinary = every[is_ordinary]
    above = np.log(np.abs(ordinary)) / WIDTH
    # Near the end of a bucket, two computations of a logarithm may decide differently.
    is_sure = np.abs(above - np.rint(above)) > _UNSURE
    sure = np.ceil(above[is_sure]).astype(np.int64) + LEAST
    buckets, counts = np.unique(np.where(ordinary[is_sure] > 0, sure, -sure), return_counts=True)
    others = [*ordinary[~is_sure].tolist(), *every[~is_ordinary].tolist()]
    return [
        *map(list, zip(buckets.tolist(), counts.tolist(), strict=True)),
        *([bucket_of(number), 1] for number in others),
    ]
