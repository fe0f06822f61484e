import asyncio
import itertools

import attrs
import numpy as np
import pytest

from narthex._base import Backoff, Restarts


@attrs.define
class Clock:
    """A clock that only sleeping moves."""

    now: float = 0.0
    slept: list[float] = attrs.field(factory=list)

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def backoff(clock: Clock, *, share: float = 0.5) -> Backoff:
    return Backoff(
        first_s=1.0, greatest_s=8.0, clock=clock.read, sleep=clock.sleep, random=lambda: share
    )


class NotYet(Exception):
    pass


class Never(Exception):
    pass


def test_a_delay_doubles_with_each_failure_up_to_the_cap(clock: Clock) -> None:
    longest = backoff(clock, share=1.0)

    assert [longest.delay_s(failures) for failures in range(1, 7)] == [1, 2, 4, 8, 8, 8]
    assert longest.delay_s(1_000_000) == 8


def test_a_delay_is_drawn_from_the_whole_range() -> None:
    source = np.random.default_rng(7)
    drawn = [
        Backoff(first_s=1.0, greatest_s=8.0, random=source.random).delay_s(3) for _ in range(1000)
    ]

    assert 0 <= min(drawn) < 0.1
    assert 3.9 < max(drawn) < 4


def test_the_first_attempt_is_at_once_and_the_last_one_when_the_time_ends(clock: Clock) -> None:
    numbers = list(backoff(clock).attempts(within_s=5.0))

    assert numbers == [1, 2, 3, 4, 5]
    assert clock.slept == [0.5, 1.0, 2.0, 1.5]
    assert clock.now == 5.0


def test_attempts_can_be_counted_instead(clock: Clock) -> None:
    assert list(backoff(clock).attempts(most=3)) == [1, 2, 3]
    assert clock.slept == [0.5, 1.0]


def test_one_attempt_is_made_even_without_time(clock: Clock) -> None:
    assert list(backoff(clock).attempts(within_s=0.0)) == [1]


def test_a_poll_ends_when_it_is_done_or_the_time_ends(clock: Clock) -> None:
    answers = iter([False, False, True])

    assert backoff(clock).until(lambda: next(answers), within_s=60.0)
    assert clock.slept == [0.5, 1.0]
    assert not backoff(clock).until(lambda: False, within_s=3.0)


def test_a_call_is_retried_until_it_succeeds(clock: Clock) -> None:
    tries = itertools.count(1)

    def call() -> int:
        number = next(tries)
        if number < 3:
            raise NotYet
        return number

    result = backoff(clock).retry(call, may_retry=lambda error: isinstance(error, NotYet))

    assert result == 3
    assert clock.slept == [0.5, 1.0]


@pytest.mark.parametrize(("error", "made"), [(NotYet, 4), (Never, 1)])
def test_the_last_error_is_raised_as_it_is(clock: Clock, error: type[Exception], made: int) -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise error

    with pytest.raises(error):
        backoff(clock).retry(call, may_retry=lambda e: isinstance(e, NotYet), most=4)

    assert len(calls) == made


def test_an_event_loop_waits_by_the_same_delays(clock: Clock) -> None:
    async def poll() -> list[float]:
        waited = []
        for delay_s in backoff(clock).delays(most=3):
            await asyncio.sleep(0)
            waited.append(delay_s)
        return waited

    assert asyncio.run(poll()) == [0.0, 0.5, 1.0]


def test_a_restart_is_due_after_its_delay_and_at_once_after_a_success(clock: Clock) -> None:
    restarts = Restarts(backoff(clock, share=0.75))

    assert restarts.is_due
    assert [restarts.failed(), restarts.failed()] == [0.75, 1.5]
    assert not restarts.is_due
    clock.now = 1.5
    assert restarts.is_due
    restarts.failed()
    restarts.succeeded()
    assert (restarts.is_due, restarts.failures) == (True, 0)
    assert restarts.failed() == 0.75


def test_a_restart_is_due_at_once_after_a_steady_run(clock: Clock) -> None:
    restarts = Restarts(backoff(clock, share=0.5), steady_s=10.0)
    for _ in range(3):
        restarts.started()
        restarts.failed()
    assert restarts.failures == 3

    restarts.started()
    clock.now += 9.0
    assert (restarts.failed(), restarts.failures) == (4.0, 4)

    restarts.started()
    clock.now += 10.0
    assert (restarts.ran_s, restarts.failed(), restarts.failures) == (10.0, 0.0, 0)
    assert (restarts.due_in_s, restarts.is_due) == (0.0, True)

    restarts.started()
    assert (restarts.failed(), restarts.failures, restarts.is_due) == (0.5, 1, False)
