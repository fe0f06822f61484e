"""Threads for the work of requests, shared fairly between callers, with bounded waiting."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import attrs

from narthex_server.errors import DeadlineExceeded, TooManyRequests
from narthex_server.tracing import carried

_Result = TypeVar("_Result")


@attrs.define(eq=False)
class _Turn:
    """Work that waits for a thread.

    Attributes:
        has_thread: Whether a thread is reserved for it.
        noticed: Resolved, on the event loop of its request, once a thread is reserved.
    """

    noticed: asyncio.Future[None]
    has_thread: bool = False

    def give_thread(self) -> None:
        """Reserve a thread; any thread may call this."""
        self.has_thread = True
        self.noticed.get_loop().call_soon_threadsafe(self._notice)

    def _notice(self) -> None:
        if not self.noticed.done():
            self.noticed.set_result(None)


@attrs.define
class _Queue:
    """The work of one caller: how much runs, and what waits, oldest first."""

    running: int = 0
    waiting: deque[_Turn] = attrs.field(factory=deque)


class FairThreads:
    """Runs work in a fixed number of threads; event loops use it.

    Callers take turns for a free thread. None of them occupies more than `most_each` threads, or
    more than half of the places where work may wait, so none can make others wait for long.
    """

    def __init__(self, name: str, threads: int, *, most_waiting: int, most_each: int) -> None:
        """Start no thread yet.

        Args:
            name: The prefix of the threads' names.
            threads: How many there are.
            most_waiting: How much work may wait for one of them.
            most_each: How many of them one caller may occupy.
        """
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most_waiting = most_waiting
        self._most_each = most_each
        self._lock = threading.Lock()
        self._free = threads
        self._waiting = 0
        self._queues: dict[str, _Queue] = {}  # those with work; the next one to take a turn first

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
        turn = self._enter(caller)
        if turn is not None:
            await self._wait(caller, turn, deadline)
        try:
            if deadline is not None and time.monotonic() > deadline:
                raise DeadlineExceeded
            return await asyncio.get_running_loop().run_in_executor(self._pool, carried(work))
        finally:
            self._end(caller)

    def _enter(self, caller: str) -> _Turn | None:
        """Reserve a thread for a caller, and return None; or add its work to those that wait.

        Raises:
            TooManyRequests: Too much waits.
        """
        with self._lock:
            queue = self._queues.get(caller, _Queue())
            if self._free and queue.running < self._most_each and not queue.waiting:
                self._free -= 1
                queue.running += 1
                self._queues.setdefault(caller, queue)
                return None
            most_each = self._most_waiting // 2
            if self._waiting >= self._most_waiting or len(queue.waiting) >= most_each:
                raise TooManyRequests
            turn = _Turn(asyncio.get_running_loop().create_future())
            queue.waiting.append(turn)
            self._queues.setdefault(caller, queue)
            self._waiting += 1
            return turn

    async def _wait(self, caller: str, turn: _Turn, deadline: float | None) -> None:
        """Wait until a thread is reserved.

        Raises:
            DeadlineExceeded: The deadline passed.
        """
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            await asyncio.wait((turn.noticed,), timeout=left_s)
        except asyncio.CancelledError:
            if not self._leave(caller, turn):
                self._end(caller)
            raise
        if self._leave(caller, turn):
            raise DeadlineExceeded

    def _leave(self, caller: str, turn: _Turn) -> bool:
        """Return whether work still waited, and waits no longer."""
        with self._lock:
            if turn.has_thread:
                return False
            self._queues[caller].waiting.remove(turn)
            self._waiting -= 1
            self._forget(caller)
            return True

    def _end(self, caller: str) -> None:
        """Free a thread, and reserve it for the next caller that may have one."""
        with self._lock:
            self._free += 1
            self._queues[caller].running -= 1
            self._forget(caller)
            for name, queue in self._queues.items():
                if queue.waiting and queue.running < self._most_each:
                    self._free -= 1
                    queue.running += 1
                    self._waiting -= 1
                    queue.waiting.popleft().give_thread()
                    # Its next turn is after the others'.
                    self._queues[name] = self._queues.pop(name)
                    return

    def _forget(self, caller: str) -> None:
        queue = self._queues[caller]
        if not queue.running and not queue.waiting:
            del self._queues[caller]

    def close(self) -> None:
        """Wait for running work, and end the threads."""
        self._pool.shutdown()
