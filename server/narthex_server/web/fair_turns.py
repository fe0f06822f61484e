"""Turns for the work of requests, shared fairly between callers, with bounded waiting."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from narthex_server.errors import DeadlineExceeded, TooManyRequests


@attrs.define(eq=False)
class _Turn:
    """A request that waits for a place.

    Attributes:
        has_place: Whether a place is reserved for it.
        noticed: Resolved, on the event loop of its request, once a place is reserved.
    """

    noticed: asyncio.Future[None]
    has_place: bool = False

    def give_place(self) -> None:
        """Reserve a place; any thread may call this."""
        self.has_place = True
        self.noticed.get_loop().call_soon_threadsafe(self._notice)

    def _notice(self) -> None:
        if not self.noticed.done():
            self.noticed.set_result(None)


@attrs.define
class _Queue:
    """The requests of one caller: how many work, and which wait, oldest first."""

    running: int = 0
    waiting: deque[_Turn] = attrs.field(factory=deque)


class FairTurns:
    """Lets a fixed number of requests work at a time; any event loop may use it.

    Callers take turns for a free place. None of them occupies more than `most_each` places, or
    more than half of those where requests may wait, so none can make others wait for long.
    """

    def __init__(self, places: int, *, most_waiting: int, most_each: int) -> None:
        """Prepare; nothing works yet.

        Args:
            places: How many work at a time.
            most_waiting: How many may wait for a place.
            most_each: How many places one caller may occupy.
        """
        self._most_waiting = most_waiting
        self._most_each = most_each
        self._lock = threading.Lock()
        self._free = places
        self._waiting = 0
        self._queues: dict[str, _Queue] = {}  # those with work; the next one to take a turn first

    @asynccontextmanager
    async def turn(self, caller: str, *, deadline: float | None = None) -> AsyncIterator[None]:
        """Wait for a place, and hold it during the block.

        Args:
            caller: The name of the caller who works.
            deadline: The instant of the monotonic clock after which the work must not begin.

        Raises:
            TooManyRequests: Too many wait, of all callers or of this one.
            DeadlineExceeded: The deadline passed before a place was free.
        """
        turn = self._enter(caller)
        if turn is not None:
            await self._wait(caller, turn, deadline)
        try:
            if deadline is not None and time.monotonic() > deadline:
                raise DeadlineExceeded
            yield
        finally:
            self._end(caller)

    def _enter(self, caller: str) -> _Turn | None:
        """Reserve a place for a caller, and return None; or add it to those that wait.

        Raises:
            TooManyRequests: Too many wait.
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
        """Wait until a place is reserved.

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
        """Return whether a request still waited, and waits no longer."""
        with self._lock:
            if turn.has_place:
                return False
            self._queues[caller].waiting.remove(turn)
            self._waiting -= 1
            self._forget(caller)
            return True

    def _end(self, caller: str) -> None:
        """Free a place, and reserve it for the next caller that may have one."""
        with self._lock:
            self._free += 1
            self._queues[caller].running -= 1
            self._forget(caller)
            for name, queue in self._queues.items():
                if queue.waiting and queue.running < self._most_each:
                    self._free -= 1
                    queue.running += 1
                    self._waiting -= 1
                    queue.waiting.popleft().give_place()
                    # Its next turn is after the others'.
                    self._queues[name] = self._queues.pop(name)
                    return

    def _forget(self, caller: str) -> None:
        queue = self._queues[caller]
        if not queue.running and not queue.waiting:
            del self._queues[caller]
