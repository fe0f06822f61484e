"""The loop of one service: how long it waits before it restarts the service."""

import attrs

from narthex_stack.operator.service_loop import RESTARTS


def test_the_longest_pause_doubles_and_ends_at_half_a_minute() -> None:
    longest = attrs.evolve(RESTARTS, random=lambda: 1.0)

    assert [longest.delay_s(failures) for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert longest.delay_s(1000) == 30


def test_a_pause_is_drawn_from_the_whole_range() -> None:
    shortest = attrs.evolve(RESTARTS, random=lambda: 0.0)
    first = {RESTARTS.delay_s(1) for _ in range(100)}
    late = {RESTARTS.delay_s(1000) for _ in range(100)}

    assert (shortest.delay_s(1), shortest.delay_s(1000)) == (0, 0)
    assert 0 <= min(first) < max(first) < 1
    assert 0 <= min(late) < max(late) < 30
