"""A bounded number of worker processes, each of which runs code of one compartment only."""

import contextlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import attrs

from narthex._runtime.workers.process import (
    Sandbox,
    SandboxIncompleteError,
    Start,
    WorkerLostError,
    WorkerProcess,
)

_MEBIBYTE: Final = 1 << 20


@attrs.frozen(kw_only=True)
class Limits:
    """The resource limits of workers.

    Attributes:
        memory_bytes: Address space of each, including that of Python and its libraries.
        call_timeout_s: The time limit of one call.
        start_timeout_s: The time limit of the start of a worker.
        answer_bytes: The greatest size of an answer, and of a question that code asks meanwhile.
        calls: The number of calls after which a worker is replaced by a fresh one.
        idle_s: The number of seconds without a call after which a worker is ended.
    """

    memory_bytes: int = 4096 * _MEBIBYTE
    call_timeout_s: float = 30.0
    start_timeout_s: float = 60.0
    answer_bytes: int = 64 * _MEBIBYTE
    calls: int = 10_000
    idle_s: float = 600.0

    def start(self, *, is_reduced: bool, without: tuple[str, ...], directory: str = "") -> Start:
        """Return the start options of a worker with these limits."""
        return Start(
            memory_bytes=self.memory_bytes,
            timeout_s=self.start_timeout_s,
            answer_bytes=self.answer_bytes,
            is_reduced=is_reduced,
            without=without,
            directory=directory,
        )


@attrs.frozen
class _Idle:
    """A worker that waits for a call."""

    key: Hashable
    worker: WorkerProcess
    since: float


class Workers:
    """Up to `most` worker processes, up to `width` of one compartment.

    A worker that ran code of one compartment never runs code of another one. A call waits while
    all workers are busy; otherwise the worker that has been idle for longest is ended.
    """

    def __init__(
        self,
        start: Start,
        limits: Limits,
        *,
        most: int,
        width: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the pool without a worker.

        Args:
            start: The start options of each worker.
            limits: The limits of each worker.
            most: The greatest number of workers.
            width: The greatest number of workers of one compartment.
            clock: Returns seconds, for ending idle workers.
        """
        self.sandbox: Sandbox | None = None
        self.refusal = ""
        self._start, self._limits, self._most, self._width = start, limits, most, width
        self._clock = clock
        self._room = threading.Condition()
        self._idle: OrderedDict[int, _Idle] = OrderedDict()
        self._busy: Counter[Hashable] = Counter()
        self._taken: set[WorkerProcess] = set()
        self._is_killed = False

    def check(self) -> None:
        """Start a worker and end it again, to know the sandbox that the kernel grants."""
        with contextlib.suppress(WorkerLostError):  # a call that needs a worker raises it
            self._started().close()

    def take(self, key: Hashable, *, packages: str = "") -> WorkerProcess:
        """Wait for and return a worker that has run no code, or code of this compartment only.

        Args:
            key: The compartment.
            packages: The directory of its packages; the key of a compartment always has the same.

        Raises:
            SandboxIncompleteError: A layer of the sandbox is missing.
            WorkerLostError: A worker did not become ready, or all were killed.
        """
        known = self._admit(key)
        try:
            worker = self._started(packages) if known is None else known
            self._note_taken(worker)
        except BaseException:
            self.put_back(key, None)
            raise
        return worker

    def put_back(self, key: Hashable, worker: WorkerProcess | None) -> None:
        """Return a worker to the pool for the next call of the compartment; None if it ended."""
        with self._room:
            self._busy[key] -= 1
            self._taken = {one for one in self._taken if one is not worker and not one.is_closed}
            if worker is not None:
                self._idle[id(worker)] = _Idle(key, worker, self._clock())
            self._room.notify_all()
        self.end_idle()

    def end_idle(self) -> None:
        """End the workers that have been idle for too long."""
        with self._room:
            latest = self._clock() - self._limits.idle_s
            for number in [n for n, one in self._idle.items() if one.since < latest]:
                self._idle.pop(number).worker.close()
            self._room.notify_all()

    def kill(self) -> None:
        """Kill all workers, also those that run a call; from now on, every call fails."""
        with self._room:
            self._is_killed = True
            for worker in self._taken:
                worker.kill()
            self._room.notify_all()

    def close(self) -> None:
        """Wait for running calls, then end all workers."""
        with self._room:
            self._room.wait_for(lambda: self._busy.total() == 0)
            while self._idle:
                self._end_oldest()

    def _note_taken(self, worker: WorkerProcess) -> None:
        with self._room:
            if self._is_killed:
                worker.close()
                raise WorkerLostError("its call was stopped")
            self._taken.add(worker)

    def _admit(self, key: Hashable) -> WorkerProcess | None:
        """Wait until a call may begin; return its worker, or None if one has to be started.

        Raises:
            WorkerLostError: All workers were killed.
        """
        with self._room:
            while not self._is_killed:
                number = next((n for n, one in self._idle.items() if one.key == key), None)
                if number is not None:
                    worker = self._idle.pop(number).worker
                    if worker.is_alive and worker.calls < self._limits.calls:
                        self._busy[key] += 1
                        return worker
                    worker.close()
                elif self._busy[key] < self._width and self._has_room():
                    self._busy[key] += 1
                    return None
                else:
                    self._room.wait()
            raise WorkerLostError("its call was stopped")

    def _has_room(self) -> bool:
        if self._busy.total() + len(self._idle) >= self._most and self._idle:
            self._end_oldest()
        return self._busy.total() + len(self._idle) < self._most

    def _end_oldest(self) -> None:
        self._idle.popitem(last=False)[1].worker.close()

    def _started(self, packages: str = "") -> WorkerProcess:
        try:
            worker = WorkerProcess(attrs.evolve(self._start, packages=packages))
        except SandboxIncompleteError as error:
            self.refusal = str(error)
            raise
        self.refusal, self.sandbox = "", worker.sandbox
        return worker
