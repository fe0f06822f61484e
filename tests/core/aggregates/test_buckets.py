"""Buckets of values: many at once are what each is."""

import math

from hypothesis import given
from hypothesis import strategies as st

from narthex._aggregates.buckets import SHARE, bucket_of, counted
from narthex._aggregates.many_buckets import bucketed

_WIDTH = math.log1p(2 * SHARE / (1 - SHARE))
_ends = st.integers(-3_000, 3_000).map(lambda number: math.exp(number * _WIDTH))
_near = st.builds(
    lambda end, steps, sign: sign * math.nextafter(end, math.inf if steps else 0.0),
    _ends,
    st.booleans(),
    st.sampled_from([1, -1]),
)


@given(st.lists(st.floats() | _ends | _near, max_size=50))
def test_the_buckets_of_many_values_are_those_of_each(numbers: list[float]) -> None:
    assert counted(bucketed(numbers)) == counted((bucket_of(number), 1) for number in numbers)
