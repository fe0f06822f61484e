"""Threads for the work of requests, shared fairly between callers, with bounded waiting."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from narthex_server.tracing import carried
from narthex_server.web.fair_turns import FairTurns

_Result = TypeVar("_Result")


class FairThreads:
    """Runs work in a fixed number of threads, by the rules of `FairTurns`; event loops use it."""

    def __init__(self, name: str, threads: int, *, most_waiting: int, most_each: int) -> None:
        """Start no thread yet.

        Args:
            name: The prefix of the threads' names.
            threads: How many there are.
            most_waiting: How much work may wait for one of them.
            most_each: How many of them one caller may occupy.
        """
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._turns = FairTurns(threads, most_waiting=most_waiting, most_each=most_each)

    async def run(
        self, work: Callable[[], _Result], *, caller: str, deadline: float | None = None
    ) -> _Result:
        """Run work in a thread, and return its result.

        Args:
            work: What to run.
            caller: The name of the caller for whom it runs.
            deadline: The instant of the monotonic clock after which it must not begin.

        Raises:
            TooManyRequests: Too much work waits, of all callers or of this one.
            DeadlineExceeded: The deadline passed before a thread was free.
        """
        async with self._turns.turn(caller, deadline=deadline):
            return await asyncio.get_running_loop().run_in_executor(self._pool, carried(work))

    def close(self) -> None:
        """Wait for running work, and end the threads."""
        self._pool.shutdown()
