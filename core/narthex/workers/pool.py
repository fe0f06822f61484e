# mypy: disable-error-code="type-arg, arg-type"
"""A pool of workers: authors' code called as a function, from any thread."""

import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self, TypeAlias

import attrs
import pyarrow as pa
from typing_extensions import override

from narthex.code import UserCode
from narthex.errors import LookupImpossible, UserCodeError
from narthex.schema import Column
from narthex.secrets import Provider
from narthex.workers.calls import CodeCalls, call_header, failed, judged
from narthex.workers.frames import Frame
from narthex.workers.lookups import Find, answer_lookup
from narthex.workers.process import Sandbox, WorkerLostError, WorkerProcess
from narthex.workers.results import read_table, render_table

_MEBIBYTE: Final = 1 << 20


@attrs.frozen(kw_only=True)
class Limits:
    """What one worker may use.

    Attributes:
        memory_bytes: Address space, that of Python and its libraries included.
        call_timeout_s: How long one call may take.
        start_timeout_s: How long a worker may take to start.
        answer_bytes: How long an answer may be.
        calls: After how many calls a worker is replaced by a fresh one.
    """

    memory_bytes: int = 4096 * _MEBIBYTE
    call_timeout_s: float = 30.0
    start_timeout_s: float = 60.0
    answer_bytes: int = 512 * _MEBIBYTE
    calls: int = 100_000


Slot: TypeAlias = "WorkerProcess | None"


class WorkerPool(CodeCalls):
    """Up to `size` workers; one is started when a call finds none idle, and kept warm.

    A call waits while all are busy. A worker that dies or is silent for too long is killed and
    replaced; the call that it was at fails, others do not notice.
    """

    def __init__(
        self, size: int, limits: Limits | None = None, *, secrets: Provider | None = None
    ) -> None:
        """Begin without a worker.

        Args:
            size: How many there are at most.
            limits: What each may use.
            secrets: Finds the secrets that code reads; not given, there are none.
        """
        self._secrets = secrets
        self._limits = limits or Limits()
        self._slots: queue.LifoQueue[Slot] = queue.LifoQueue()
        self._size = size
        # A worker dies with the thread that started it, so one that stays starts all of them.
        self._launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="worker-launcher")
        for _ in range(size):
            self._slots.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; waits for calls that are running."""
        slots = [self._slots.get() for _ in range(self._size)]
        for worker in slots:
            if worker is not None:
                worker.close()
            self._slots.put(None)
        self._launcher.shutdown()

    def warm(self) -> Sandbox:
        """Start one worker if none is idle; give what the kernel granted to it."""
        worker = self._take()
        self._slots.put(worker)
        return worker.sandbox

    @override
    def _call(
        self,
        code: UserCode,
        kind: str,
        table: pa.Table,
        outputs: Sequence[Column],
        *,
        title: str,
        find: Find | None = None,
    ) -> pa.Table:
        worker = self._take()
        kept: Slot = None
        try:
            answer = self._ask(
                worker, Frame(call_header(code, kind, outputs), render_table(table)), find
            )
            kept = worker
        except WorkerLostError as error:
            raise UserCodeError(
                f"{title}: the worker was lost: {error}", origin=code.origin
            ) from None
        except BaseException:  # who answers its look-ups broke off: it waits for an answer
            worker.close()
            raise
        finally:
            self._slots.put(kept)
        if answer.header.get("kind") != "result":
            raise failed(code, title, answer.header)
        return judged(read_table(answer.body), code, outputs, rows=table.num_rows, title=title)

    def _ask(self, worker: WorkerProcess, question: Frame, find: Find | None) -> Frame:
        deadline = time.monotonic() + self._limits.call_timeout_s
        worker.calls += 1
        answer = worker.ask(question, deadline=deadline)
        while answer.header.get("kind") in {"lookup", "secret"}:
            if answer.header.get("kind") == "secret":
                reply = self._secret(answer)
            else:
                reply = _looked_up(answer, find)
            answer = worker.ask(reply, deadline=deadline)
        return answer

    def _secret(self, asked: Frame) -> Frame:
        found = self._secrets(str(asked.header.get("name"))) if self._secrets else None
        return (
            Frame({"kind": "missing"})
            if found is None
            else Frame({"kind": "found"}, found.encode())
        )

    def _take(self) -> WorkerProcess:
        worker = self._slots.get()
        try:
            if worker is not None and worker.is_alive and worker.calls < self._limits.calls:
                return worker
            if worker is not None:
                worker.close()
            return self._launcher.submit(self._start).result()
        except BaseException:
            self._slots.put(None)
            raise

    def _start(self) -> WorkerProcess:
        return WorkerProcess(
            memory_bytes=self._limits.memory_bytes,
            start_timeout_s=self._limits.start_timeout_s,
            greatest_answer_bytes=self._limits.answer_bytes,
        )


def _looked_up(asked: Frame, find: Find | None) -> Frame:
    try:
        return answer_lookup(asked, find)
    except LookupImpossible as error:
        return Frame({"kind": "refused", "message": error.message})
