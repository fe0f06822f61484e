"""Threads for the work of requests, of which only so much may wait."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from narthex_server.errors import DeadlineExceeded, TooManyRequests

_Result = TypeVar("_Result")


class BoundedThreads:
    """Runs work in a fixed number of threads; an event loop uses it."""

    def __init__(self, name: str, threads: int, *, most_waiting: int) -> None:
        """Start no thread yet.

        Args:
            name: The prefix of the threads' names.
            threads: How many there are.
            most_waiting: How much work may wait for one of them.
        """
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + most_waiting
        self._accepted = 0

    async def run(self, work: Callable[[], _Result], deadline: float | None = None) -> _Result:
        """Run work in a thread, and return its result.

        Args:
            work: What to run.
            deadline: The instant of the monotonic clock after which it must not begin.

        Raises:
            TooManyRequests: Too much work waits.
            DeadlineExceeded: The deadline passed before a thread was free.
        """
        if self._accepted >= self._most:
            raise TooManyRequests

        def begin() -> _Result:
            if deadline is not None and time.monotonic() > deadline:
                raise DeadlineExceeded
            return work()

        self._accepted += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, begin)
        finally:
            self._accepted -= 1

    def close(self) -> None:
        """Wait for running work, and end the threads."""
        self._pool.shutdown()
