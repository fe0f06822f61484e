"""The rate limit of failed sign-ins per minute: for each caller, and for all of them."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
from fastapi import Request

WITHIN_S: Final = 60.0
GREATEST_OF_ONE: Final = 10
GREATEST_OF_ALL: Final = 200


@attrs.define
class Attempts:
    """The failed sign-ins of the last minute.

    Attributes:
        now: A clock in seconds, for durations.
    """

    now: Callable[[], float] = time.monotonic
    _failures: deque[tuple[float, str]] = attrs.field(factory=deque)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def may_try(self, caller: str) -> bool:
        """Return whether a caller may show another token now."""
        with self._lock:
            while self._failures and self._failures[0][0] <= self.now() - WITHIN_S:
                self._failures.popleft()
            of_one = sum(one == caller for _, one in self._failures)
            return of_one < GREATEST_OF_ONE and len(self._failures) < GREATEST_OF_ALL

    def failed(self, caller: str) -> None:
        """Note that a caller has shown an unknown token."""
        with self._lock:
            self._failures.append((self.now(), caller))


async def attempts_of(request: Request) -> Attempts:
    """Return the sign-in attempts of this process."""
    attempts: Attempts = request.app.state.attempts
    return attempts
