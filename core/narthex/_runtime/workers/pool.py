# mypy: disable-error-code="type-arg, arg-type"
"""Call author code as a function, from any thread, in worker processes."""

import os
import time
from collections.abc import Callable, Hashable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

import attrs
import pyarrow as pa
from typing_extensions import override

from narthex._ir.code import UserCode, environment_name
from narthex._ir.schema import Column
from narthex._runtime.environments import NoEnvironmentError, packages_directory
from narthex._runtime.workers.arrow_messages import BrokenStreamError
from narthex._runtime.workers.calls import (
    CodeCalls,
    RowResults,
    call_header,
    checked_result,
    checked_rows,
    failed,
    file_content,
)
from narthex._runtime.workers.frames import Frame
from narthex._runtime.workers.lookups import Find, answer_lookup
from narthex._runtime.workers.process import Sandbox, WorkerLostError, WorkerProcess
from narthex._runtime.workers.process_pool import Limits, Workers
from narthex._runtime.workers.results import read_answer, read_failures, render_table
from narthex.errors import LookupImpossible, SandboxUnavailable, UserCodeError
from narthex.secrets import Provider
from narthex.settings import is_sandbox_reduced

_KEPT_WARM: Final = 4
"""How many workers of a job's pool may be warm, each with other packages of a lock."""
_ASKS: Final = frozenset({"lookup", "secret", "file"})


@attrs.frozen(kw_only=True)
class Compartment:
    """The code and data that a worker may have; compartments share nothing.

    Attributes:
        branch: The branch, or the job, that the code belongs to.
        tags: The tags of all data that reaches the code.
    """

    branch: str
    tags: frozenset[str] = frozenset()


_T = TypeVar("_T")


@attrs.frozen
class _Call:
    """A call of author code.

    Attributes:
        rows: The number of rows that it receives.
    """

    code: UserCode
    title: str
    question: Frame
    find: Find | None
    rows: int


class CompartmentCalls(CodeCalls):
    """Calls author code in the workers of one compartment.

    A worker that dies or is silent for too long is killed and replaced; its current call fails,
    other calls are not affected.
    """

    def __init__(
        self, workers: Workers, key: Hashable, limits: Limits, secrets: Provider | None
    ) -> None:
        """Create the calls without a worker."""
        self._workers, self._key = workers, key
        self._limits, self._secrets = limits, secrets

    @override
    def call(
        self,
        code: UserCode,
        kind: str,
        table: pa.Table,
        outputs: Sequence[Column],
        *,
        title: str,
        find: Find | None = None,
    ) -> pa.Table:
        question = Frame(call_header(code, kind, outputs), render_table(table))
        rows = table.num_rows

        def read(answer: Frame) -> pa.Table:
            if _kind(answer) == "error":
                raise failed(code, title, answer.header)
            found = self._read(answer, outputs, rows=rows)
            return checked_result(found, code, outputs, rows=rows, title=title)

        return self._answered(_Call(code, title, question, find, rows), read)

    @override
    def call_one_by_one(
        self, code: UserCode, kind: str, table: pa.Table, outputs: Sequence[Column], *, title: str
    ) -> RowResults:
        """Call code with each row alone, all of them in one call of the worker."""
        header = {**call_header(code, kind, outputs), "alone": True}
        question, rows = Frame(header, render_table(table)), table.num_rows

        def read(answer: Frame) -> RowResults:
            if _kind(answer) == "error":
                raise failed(code, title, answer.header)
            errors = {
                at: failed(code, title, told)
                for at, told in read_failures(answer.header, rows=rows).items()
            }
            found = self._read(answer, outputs, rows=rows - len(errors))
            return checked_rows(found, errors, code, outputs, title=title)

        return self._answered(_Call(code, title, question, None, rows), read)

    def _answered(self, call: "_Call", read: Callable[[Frame], _T]) -> _T:
        """Ask a worker, and read its answer; a worker that gave an invalid answer is replaced.

        Raises:
            UserCodeError: The worker was lost, or `read` refuses the answer.
            SandboxUnavailable: No worker could be started.
        """
        title, origin = call.title, call.code.origin
        environment = environment_name(call.code.locked)
        key = (self._key, environment)
        try:
            worker = self._workers.take(key, packages=packages_directory(environment))
        except (WorkerLostError, NoEnvironmentError) as error:
            raise SandboxUnavailable(f"{title} cannot run: {error}", origin=origin) from None
        kept: WorkerProcess | None = None
        try:
            answer = self._ask(worker, call)
            made = _read_or_error(answer, read)
            kept = worker
        except WorkerLostError as error:
            message = f"{title}: the worker was lost: {error}"
            raise UserCodeError(message, origin=origin, is_worker_lost=True) from None
        except BrokenStreamError as error:
            worker.close()
            raise UserCodeError(f"{title} gave a wrong answer: {error}", origin=origin) from None
        except BaseException:  # the worker still waits for the answer of its lookup
            worker.close()
            raise
        finally:
            self._workers.put_back(key, kept)
        if isinstance(made, UserCodeError):
            raise made
        return made

    def _ask(self, worker: WorkerProcess, call: "_Call") -> Frame:
        deadline = time.monotonic() + self._limits.call_timeout_s
        worker.calls += 1
        number = os.urandom(8).hex()
        answer = worker.ask(_numbered(call.question, number), deadline=deadline)
        while answer.header.get("kind") in _ASKS:
            reply = self._reply(answer, call)
            answer = worker.ask(_numbered(reply, number), deadline=deadline)
        return answer

    def _reply(self, question: Frame, call: "_Call") -> Frame:
        """Answer a question that code asks while it runs."""
        match question.header.get("kind"):
            case "secret":
                return self._secret(question)
            case "file":
                content = file_content(call.code, question.header.get("name"))
                return _found_or_missing(content)
            case _:
                return self._looked_up(question, call.find, rows=call.rows)

    def _read(self, answer: Frame, outputs: Sequence[Column], *, rows: int) -> pa.Table:
        if _kind(answer) != "result":
            raise BrokenStreamError("it is neither columns nor an error")
        return read_answer(answer.body, outputs, rows=rows, most_bytes=self._limits.answer_bytes)

    def _secret(self, question: Frame) -> Frame:
        found = self._secrets(str(question.header.get("name"))) if self._secrets else None
        return _found_or_missing(None if found is None else found.encode())

    def _looked_up(self, question: Frame, find: Find | None, *, rows: int) -> Frame:
        try:
            return answer_lookup(question, find, rows=rows, most_bytes=self._limits.answer_bytes)
        except LookupImpossible as error:
            return Frame({"kind": "refused", "message": error.message})


class WorkerPool(CompartmentCalls):
    """Up to `size` workers of one compartment, for a job or a caller of one branch's code.

    A worker is started when none is idle for a call, and kept warm. A call waits while all are
    busy. Code with other packages of a lock has other workers, of which the pool keeps a few.
    """

    def __init__(
        self,
        size: int,
        limits: Limits | None = None,
        *,
        secrets: Provider | None = None,
        is_reduced: bool | None = None,
        without: tuple[str, ...] = (),
        directory: str = "",
    ) -> None:
        """Create the pool without a worker.

        Args:
            size: The greatest number of workers.
            limits: The limits of each worker.
            secrets: Finds the secrets that code reads; without it, there are none.
            is_reduced: Whether they may work without some layers of the sandbox; by default, the
                installation decides.
            without: Layers that they do not try, as on a machine that lacks them.
            directory: A directory that they may read, and in which they work; empty for none.
        """
        found = limits or Limits()
        start = found.start(
            is_reduced=_may_be_reduced(is_reduced), without=without, directory=directory
        )
        workers = Workers(start, found, most=max(size, _KEPT_WARM), width=size)
        super().__init__(workers, None, found, secrets)

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
        """Wait for running calls, then end all workers."""
        self._workers.close()

    def kill(self) -> None:
        """Kill all workers, from any thread: running calls fail, and so does every later one."""
        self._workers.kill()

    def warm(self) -> Sandbox:
        """Start one worker if none is idle; return the sandbox that the kernel granted to it.

        Raises:
            SandboxIncompleteError: A layer of the sandbox is missing.
            WorkerLostError: The worker did not become ready.
        """
        key = (self._key, "")
        worker = self._workers.take(key)
        self._workers.put_back(key, worker)
        return worker.sandbox


class Compartments:
    """One worker for each compartment with calls, at most `most` at a time.

    A worker is never shared: when all are taken, the pool ends the one that has been idle for
    longest and starts a fresh one.
    """

    def __init__(
        self,
        most: int,
        limits: Limits | None = None,
        *,
        is_reduced: bool | None = None,
        without: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the pool without a worker.

        Args:
            most: The greatest number of workers.
            limits: The limits of each worker.
            is_reduced: Whether they may work without some layers of the sandbox; by default, the
                installation decides.
            without: Layers that they do not try, as on a machine that lacks them.
            clock: Returns seconds, for ending idle workers.
        """
        self._limits = limits or Limits()
        self.is_reduced = _may_be_reduced(is_reduced)
        start = self._limits.start(is_reduced=self.is_reduced, without=without)
        self._workers = Workers(start, self._limits, most=most, clock=clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def compartment(self, branch: str, tags: frozenset[str] = frozenset()) -> CodeCalls:
        """Return the caller of a branch's code that rows with some tags reach."""
        key = Compartment(branch=branch, tags=tags)
        return CompartmentCalls(self._workers, key, self._limits, None)

    def check(self) -> None:
        """Start a worker and end it again; from now on, `weakness` names missing layers."""
        self._workers.check()

    def end_idle(self) -> None:
        """End the workers that have been idle for too long."""
        self._workers.end_idle()

    def close(self) -> None:
        """Wait for running calls, then end all workers."""
        self._workers.close()

    @property
    def weakness(self) -> str:
        """The gaps in the sandbox of the latest worker, for people; empty without gaps."""
        if self._workers.refusal:
            return self._workers.refusal
        sandbox = self._workers.sandbox
        if sandbox is None or sandbox.is_complete:
            return "sandbox: reduced" if self.is_reduced else ""
        return f"sandbox: reduced — missing {', '.join(sandbox.missing)}"


def _found_or_missing(content: bytes | None) -> Frame:
    return Frame({"kind": "missing"}) if content is None else Frame({"kind": "found"}, content)


def _kind(answer: Frame) -> object:
    return answer.header.get("kind")


def _read_or_error(answer: Frame, read: Callable[[Frame], _T]) -> _T | UserCodeError:
    """Read an answer; an error that the code raised, or a wrong value, is an answer too."""
    try:
        return read(answer)
    except UserCodeError as error:
        return error


def _may_be_reduced(given: bool | None) -> bool:
    return is_sandbox_reduced() if given is None else given


def _numbered(frame: Frame, number: str) -> Frame:
    return Frame({**frame.header, "call": number}, frame.body)
