"""Feeds take turns at costly work, which takes a limited share of the time."""

import pytest

from narthex_spark_apps.writers.turns import Turns


def test_the_feed_that_has_waited_longest_is_next() -> None:
    turns = Turns(1 / 8)

    assert turns.next({}, 10.0) is None
    assert turns.next({2: 9.0, 1: 8.5, 3: 9.5}, 10.0) == 1


@pytest.mark.parametrize("feeds", [1, 50, 500])
def test_all_work_takes_its_share_of_the_time_and_no_feed_is_left_out(feeds: int) -> None:
    turns, now, cost_s, spent_s = Turns(1 / 8), 0.0, 0.005, 0.0
    since = dict.fromkeys(range(feeds), 0.0)
    while now < 60.0:
        due = turns.next(since, now)
        if due is None:
            now += 0.001
            continue
        now += cost_s
        spent_s += cost_s
        since[due] = now
        turns.spent(cost_s, now)

    assert spent_s / now == pytest.approx(1 / 8, rel=0.03)
    assert min(since.values()) > now - 1.1 * 8 * cost_s * (feeds + 1)
