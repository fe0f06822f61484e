"""The spans of windows: aligned to the epoch, begin inclusive and end exclusive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._aggregates import span
from narthex._analysis.schemas.window_checks import window_problems
from narthex._base.canonical import encode
from narthex._base.records import from_plain, to_plain
from narthex._base.times import DurationError
from narthex._ir.window_spans import (
    counted_during,
    newest_closed,
    sessions,
    spans_of,
)
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window
from narthex.errors import WindowInvalid

_instants = st.integers(-400, 400)
_lookbacks = st.integers(0, 30)
_tumbling = st.builds(Tumbling, st.integers(1, 40), _lookbacks)
_hopping = st.integers(1, 40).flatmap(
    lambda length: st.builds(Hopping, st.just(length), st.integers(1, length), _lookbacks)
)
_endless = st.builds(Hopping, st.none(), st.integers(1, 40), _lookbacks)
_continuous = st.builds(Continuous, st.none() | st.integers(1, 40))


@given(_tumbling | _hopping, _instants)
def test_an_instant_is_in_each_span_that_holds_it(window: Tumbling | Hopping, at: int) -> None:
    length = window.duration or 0
    stride = window.stride if isinstance(window, Hopping) else length

    found = spans_of(window, at)

    wanted = [
        (begin, begin + length)
        for begin in range(-500 * stride, 500 * stride, stride)
        if begin <= at < begin + length
    ]
    assert list(found) == wanted


@given(_tumbling | _hopping | _endless, _instants)
def test_the_newest_closed_span_is_the_one_that_an_aggregate_reads(
    window: Tumbling | Hopping, as_of: int
) -> None:
    begin, end = newest_closed(window, as_of)

    assert span(window, as_of) == (begin, end - 1)
    assert end <= as_of - window.lookback
    if begin is not None:
        later = [one for one in spans_of(window, end) if one[0] > begin]
        assert all(one[1] + window.lookback > as_of for one in later)


@given(_tumbling | _hopping | _endless | _continuous, _instants, _instants)
def test_a_row_counts_from_one_instant_to_another(
    window: Continuous | Tumbling | Hopping, at: int, as_of: int
) -> None:
    first, last = span(window, as_of)

    shown, gone = counted_during(window, at)

    counts = (first is None or first <= at) and at <= last
    assert counts == (shown <= as_of and (gone is None or as_of < gone))


def test_a_continuous_window_counts_both_its_ends() -> None:
    assert [span(Continuous(6), as_of) for as_of in (-1, 0, 6)] == [(-7, -1), (-6, 0), (0, 6)]
    assert [counted_during(Continuous(6), at) for at in (-7, 0)] == [(-7, 0), (0, 7)]


@pytest.mark.parametrize(
    "window", [Tumbling(10), Tumbling(7, 3), Hopping(10, 5), Hopping(10, 4), Hopping(9, 4, 2)]
)
def test_discrete_windows_match_their_definition_at_every_instant(
    window: Tumbling | Hopping,
) -> None:
    length = window.duration or 0
    stride = window.stride if isinstance(window, Hopping) else length
    spans = [(at * stride, at * stride + length) for at in range(-60, 60)]
    read = {
        as_of: next(one for one in reversed(spans) if one[1] <= as_of - window.lookback)
        for as_of in range(-100, 101)
    }
    for at in range(-40, 41):
        begin, end = read[at]
        counts = [as_of for as_of, (first, after) in read.items() if first <= at < after]

        assert span(window, at) == (begin, end - 1)
        assert newest_closed(window, at) == (begin, end)
        assert spans_of(window, at) == tuple(one for one in spans if one[0] <= at < one[1])
        assert counted_during(window, at) == (counts[0], counts[-1] + 1)


def test_hopping_spans_begin_at_multiples_of_the_stride() -> None:
    window = Hopping(10, 4)

    assert spans_of(window, 9) == ((0, 10), (4, 14), (8, 18))
    assert spans_of(window, 10) == ((4, 14), (8, 18))
    assert [newest_closed(window, as_of) for as_of in (9, 10, 13, 14)] == [
        (-4, 6),
        (0, 10),
        (0, 10),
        (4, 14),
    ]
    assert spans_of(Hopping(None, 4), 9) == ()


def test_a_window_looks_back() -> None:
    window = Tumbling(10, lookback=5)

    assert newest_closed(window, 24) == (0, 10)
    assert newest_closed(window, 25) == (10, 20)


def test_rows_of_a_session_are_at_most_the_gap_apart() -> None:
    assert sessions([30, 0, 10, 21, 10], 10) == ((0, 11), (21, 31))
    assert sessions([0, 10, 20], 10) == ((0, 21),)
    assert sessions([], 10) == ()


@given(st.lists(_instants, max_size=12), st.integers(1, 50))
def test_a_longer_session_takes_the_place_of_the_shorter(instants: list[int], gap: int) -> None:
    whole = sessions(instants, gap)

    for at in instants:
        (within,) = (one for one in whole if one[0] <= at < one[1])
        partly = sessions([one for one in instants if one <= at], gap)
        assert partly[-1][0] == within[0]
        assert partly[-1][1] <= within[1]


@pytest.mark.parametrize(
    ("window", "problem"),
    [
        (Continuous(0), "is empty"),
        (Tumbling(0), "is empty"),
        (Tumbling(5, -1), "has a negative lookback"),
        (Hopping(5, 0), "has an empty stride"),
        (Hopping(5, 6), "has a stride longer than its duration, which would leave rows out"),
        (Hopping(None, 0), "has an empty stride"),
        (Session(0), "has an empty gap"),
        (Continuous(None, max_error="1%"), "has no length, so `max_error` cannot be a share of"),
    ],
)
def test_an_invalid_window_is_refused_with_a_reason(window: Window, problem: str) -> None:
    assert list(window_problems(window)) == [problem]


def test_windows_are_written_as_text() -> None:
    assert Hopping("forever", "1h", lookback="30m") == Hopping(None, 3_600_000_000, 1_800_000_000)
    assert Continuous("1d", max_error="0.1%").max_error == 0.001
    assert Continuous("1d", max_error="0.001") == Continuous("1d", max_error="0.1%")
    assert not list(window_problems(Hopping("1d", "1d")))
    with pytest.raises(DurationError):
        Tumbling("forever")
    for share in ("0", "100%", "-1%", "%", "much", "nan"):
        with pytest.raises(WindowInvalid):
            Continuous("1d", max_error=share)


def test_a_window_that_is_exact_means_what_it_meant_before_there_was_another() -> None:
    exact = Continuous("1d")

    assert from_plain(to_plain(exact)) == exact
    assert from_plain({"$": "Continuous", "duration": 5}) == Continuous(5)
    assert encode(exact) != encode(Continuous("1d", max_error="1%"))
    assert len(encode(exact)) < len(encode(Continuous("1d", max_error="1%")))
