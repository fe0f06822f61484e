"""Retries and polls: exponential backoff with a cap and full jitter, in one implementation.

`Backoff.until` polls, `Backoff.retry` retries a call, and `Backoff.attempts` is the loop of both.
`Backoff.delays` is for callers that wait by other means, such as an event or an event loop.
`Restarts` is for what a loop of its own starts again.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import attrs

Clock = Callable[[], float]
"""Returns seconds that only grow, as `time.monotonic` does."""

_T = TypeVar("_T")

_NO_LIMIT: Final = float("inf")
_LARGEST_EXPONENT: Final = 60
"""More doublings than any cap needs; a float has room for them."""


@attrs.frozen
class Backoff:
    """How long to wait between attempts, and how the time passes."""

    first_s: float
    """The longest wait after the first failure; it doubles with each failure in a row."""

    greatest_s: float
    """The longest wait of all."""

    clock: Clock = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    random: Callable[[], float] = secrets.SystemRandom().random
    """Returns a number from 0 to 1, without 1."""

    def delay_s(self, failures: int) -> float:
        """Return a random delay, so that many who failed at once do not retry at once."""
        exponent = min(failures - 1, _LARGEST_EXPONENT)
        return self.random() * min(self.greatest_s, self.first_s * 2.0**exponent)

    def delays(self, *, within_s: float = _NO_LIMIT, most: float = _NO_LIMIT) -> Iterator[float]:
        """Yield the wait before each attempt: none before the first.

        It ends after `most` attempts, or with the attempt that ends the time: at least one is made.
        """
        ends_at = self.clock() + within_s
        failures = 0
        yield 0.0
        while (failures := failures + 1) < most and (left_s := ends_at - self.clock()) > 0:
            yield min(left_s, self.delay_s(failures))

    def attempts(self, *, within_s: float = _NO_LIMIT, most: float = _NO_LIMIT) -> Iterator[int]:
        """Yield the number of each attempt, from 1, after the wait of `delays`."""
        for number, delay_s in enumerate(self.delays(within_s=within_s, most=most), start=1):
            if delay_s:
                self.sleep(delay_s)
            yield number

    def until(self, is_done: Callable[[], bool], *, within_s: float = _NO_LIMIT) -> bool:
        """Poll until it is done; return False if it is not done in time."""
        return any(is_done() for _ in self.attempts(within_s=within_s))

    def retry(
        self,
        call: Callable[[], _T],
        *,
        may_retry: Callable[[Exception], bool],
        within_s: float = _NO_LIMIT,
        most: float = _NO_LIMIT,
    ) -> _T:
        """Return the call's result; retry while it fails with an error that may be retried.

        Raises:
            Exception: The error of the last attempt.
        """
        delays = self.delays(within_s=within_s, most=most)
        next(delays)
        while True:
            try:
                return call()
            except Exception as error:
                delay_s = next(delays, None) if may_retry(error) else None
                if delay_s is None:
                    raise
            self.sleep(delay_s)


@attrs.define
class Restarts:
    """The failures in a row of what is restarted, and when it may start again.

    Attributes:
        backoff: How long it waits, and its clock.
        steady_s: After a run that lasts this long, the next one is due at once, and the count of
            failures starts anew.
    """

    backoff: Backoff
    steady_s: float = _NO_LIMIT
    failures: int = 0
    _started_at: float = _NO_LIMIT
    _not_before: float = -_NO_LIMIT

    def started(self) -> None:
        """Note the start of a run."""
        self._started_at = self.backoff.clock()

    @property
    def ran_s(self) -> float:
        """How long the last run has lasted."""
        return self.backoff.clock() - self._started_at

    def failed(self) -> float:
        """Count the failure of a run; return the delay before the next start."""
        is_steady = self.ran_s >= self.steady_s
        self.failures = 0 if is_steady else self.failures + 1
        delay_s = 0.0 if is_steady else self.backoff.delay_s(self.failures)
        self._not_before = self.backoff.clock() + delay_s
        return delay_s

    def succeeded(self) -> None:
        """Forget the failures: a start is due at once."""
        self.failures, self._not_before = 0, -_NO_LIMIT

    @property
    def due_in_s(self) -> float:
        """The rest of the delay; 0 if it has passed."""
        return max(0.0, self._not_before - self.backoff.clock())

    @property
    def is_due(self) -> bool:
        """Whether the delay has passed."""
        return not self.due_in_s
