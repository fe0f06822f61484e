"""Windows, and the tiles that cover them: no row is missed, none counts twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._aggregates import Span, UnsupportedWindowError, span
from narthex._aggregates.tiles import Cover, cover, cover_span, ladder
from narthex._base.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from narthex._ir.aggregate_specs import Count, TypedAggregate
from narthex._ir.types import Int
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window

_ladders = st.sampled_from([(), (4,), (4, 12), (3, 6, 24), (2, 10, 20, 60)])
_bounds = st.integers(-300, 300)


def _count(window: Window) -> TypedAggregate:
    return TypedAggregate(Count(into="n", window=window), None, Int())


def _instants(found: Cover, ladder_us: tuple[int, ...], floor: int) -> list[int]:
    covered = [
        instant
        for first, last in found.raw_spans
        for instant in range(floor if first is None else first, last + 1)
    ]
    for level, first, last in found.tile_ranges:
        length = ladder_us[level]
        start = floor if first is None else first * length
        covered += range(start, (last + 1) * length)
    return sorted(covered)


@given(_bounds, _bounds, _ladders)
def test_a_cover_holds_each_instant_of_the_span_once(
    first: int, last: int, ladder_us: tuple[int, ...]
) -> None:
    found = cover_span((first, last), ladder_us)

    assert _instants(found, ladder_us, 0) == list(range(first, last + 1))


@given(_bounds, _ladders)
def test_forever_is_covered_from_the_beginning(last: int, ladder_us: tuple[int, ...]) -> None:
    found = cover_span((None, last), ladder_us)

    assert _instants(found, ladder_us, -600) == list(range(-600, last + 1))


def test_a_long_window_is_covered_by_few_tiles() -> None:
    ladder_us = (SECOND_US, MINUTE_US, HOUR_US, DAY_US)
    found = cover(Continuous("30d"), 1_700_000_000_123_456, ladder_us)

    tiles = sum(last - (first or 0) + 1 for _, first, last in found.tile_ranges)

    assert len(found.raw_spans) == 2
    assert tiles < 2 * (60 + 60 + 24) + 30


HOUR = 3600


@pytest.mark.parametrize(
    ("window", "as_of", "expected"),
    [
        (Continuous(10), 100, (90, 100)),
        (Continuous("forever"), 100, (None, 100)),
        (Tumbling(HOUR), HOUR - 1, (-HOUR, -1)),
        (Tumbling(HOUR), HOUR, (0, HOUR - 1)),
        (Tumbling(HOUR), 2 * HOUR - 1, (0, HOUR - 1)),
        (Tumbling(HOUR, lookback=10), HOUR + 9, (-HOUR, -1)),
        (Tumbling(HOUR, lookback=10), HOUR + 10, (0, HOUR - 1)),
        (Hopping(HOUR, 1800), 1800, (-1800, 1799)),
        (Hopping(HOUR, 1800), HOUR, (0, HOUR - 1)),
        (Hopping(10, 4), 13, (0, 9)),
        (Hopping(10, 4), 14, (4, 13)),
        (Hopping("forever", 4), 7, (None, 3)),
        (Hopping("forever", 4), 8, (None, 7)),
    ],
)
def test_a_window_counts_these_instants(window: Window, as_of: int, expected: Span) -> None:
    assert span(window, as_of) == expected


def test_an_aggregate_has_no_session() -> None:
    with pytest.raises(UnsupportedWindowError):
        span(Session("1h"), 0)
    with pytest.raises(UnsupportedWindowError):
        ladder([_count(Session("1h"))])


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ((Continuous("1m"), Continuous("30d")), (SECOND_US, MINUTE_US, HOUR_US, DAY_US)),
        ((Continuous("1h"), Continuous("7d")), (MINUTE_US, HOUR_US, DAY_US)),
        ((Continuous("7d"),), (HOUR_US, DAY_US)),
        ((Continuous("forever"),), (MINUTE_US, HOUR_US, DAY_US, 32 * DAY_US)),
        ((Tumbling("1d"),), (MINUTE_US, HOUR_US, DAY_US)),
        ((Hopping("1d", "1h"),), (MINUTE_US, HOUR_US, DAY_US)),
        ((Hopping("forever", "1m"),), (SECOND_US, MINUTE_US, HOUR_US, DAY_US, 32 * DAY_US)),
        ((Continuous(500_000),), ()),
        ((), ()),
    ],
)
def test_the_ladder_fits_the_windows(
    windows: tuple[Window, ...], expected: tuple[int, ...]
) -> None:
    assert ladder([_count(window) for window in windows]) == expected
