"""One worker process from the outside: start it, ask with a deadline, end it."""

import os
import select
import sys
import time
from typing import Final

import attrs

from narthex._runtime.confinement import LAYERS, YES
from narthex._runtime.template import NoTemplateError, template
from narthex._runtime.workers.frames import (
    GREATEST_ANSWER_HEADER_BYTES,
    BrokenFrameError,
    Frame,
    read_frame,
    render_frame,
)

_CHUNK: Final = 1 << 20
_PIPE_BYTES: Final = 1 << 16


class WorkerLostError(RuntimeError):
    """A worker died, was silent for too long, or wrote invalid data; it has been killed."""


class SandboxIncompleteError(WorkerLostError):
    """A worker lacks a layer of the sandbox that isolates author code; it has been killed."""


@attrs.frozen(kw_only=True)
class Sandbox:
    """The layers that the kernel granted to a worker: for each, `yes`, or `no` with the reason."""

    granted: tuple[tuple[str, str], ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The missing layers."""
        there = {name for name, granted in self.granted if granted == YES}
        return tuple(name for name in LAYERS if name not in there)

    @property
    def is_complete(self) -> bool:
        """Whether every layer was granted."""
        return not self.missing

    @property
    def reasons(self) -> str:
        """The reasons why layers are missing, for people."""
        granted = dict(self.granted)
        return ", ".join(
            f"`{name}` ({granted.get(name, 'no').removeprefix('no: ')})" for name in self.missing
        )


@attrs.frozen(kw_only=True)
class Start:
    """The start options of a worker.

    Attributes:
        memory_bytes: Address space that it may use.
        timeout_s: The time limit of the start.
        answer_bytes: The greatest size of the body of an answer.
        is_reduced: Whether it may work without some layers of the sandbox.
        without: Layers that it does not try, as on a machine that lacks them.
        directory: A directory that it may read, and in which it works; empty for none.
        packages: A directory of packages that it may read and import; empty for none.
    """

    memory_bytes: int
    timeout_s: float
    answer_bytes: int
    is_reduced: bool = False
    without: tuple[str, ...] = ()
    directory: str = ""
    packages: str = ""


class WorkerProcess:
    """A process that runs author code; not thread-safe, except for `kill`."""

    def __init__(self, start: Start) -> None:
        """Start the process and wait until it is ready.

        Raises:
            SandboxIncompleteError: A layer of the sandbox is missing.
            WorkerLostError: The worker did not become ready.
        """
        self._greatest_answer_bytes = start.answer_bytes
        self.calls = 0
        ends_at = time.monotonic() + start.timeout_s
        try:
            self._forked = template().fork(
                memory_bytes=start.memory_bytes,
                without=start.without,
                timeout_s=start.timeout_s,
                directory=start.directory,
                packages=start.packages,
            )
            ready = self._receive(ends_at)
        except (NoTemplateError, WorkerLostError) as error:
            raise WorkerLostError(
                f"no worker became ready: {error}; see that every account may read the libraries "
                f"of `{sys.executable}`"
            ) from None
        self.sandbox = self._checked_sandbox(ready, start)

    def _checked_sandbox(self, ready: Frame, start: Start) -> Sandbox:
        granted = ready.header.get("sandbox")
        if ready.header.get("kind") != "ready" or not isinstance(granted, dict):
            self.lose("it did not become ready")
        pairs = granted.items() if isinstance(granted, dict) else ()
        sandbox = Sandbox(granted=tuple((str(name), str(state)) for name, state in pairs))
        if not (sandbox.is_complete or start.is_reduced):
            self.close()
            raise SandboxIncompleteError(
                f"the sandbox of authors' code lacks {sandbox.reasons}; let the kernel grant that, "
                "or set `NARTHEX_SANDBOX=reduced` to run authors' code without it"
            )
        return sandbox

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._forked.is_alive

    def ask(self, frame: Frame, *, deadline: float) -> Frame:
        """Send a frame and return the answer, before the monotonic deadline.

        Each call has its own number, which its answers must repeat, so output that author code
        writes itself is not mistaken for the answer of a later call.

        Raises:
            WorkerLostError: No answer came in time, or the process ended; it has been killed.
        """
        self._send(render_frame(frame), deadline)
        answer = self._receive(deadline)
        if answer.header.get("call") != frame.header.get("call"):
            self.lose("its answer does not match the request")
        return answer

    @property
    def is_closed(self) -> bool:
        """Whether the process was killed and its resources are free."""
        return self._forked.is_ended

    def kill(self) -> None:
        """Kill the process, from any thread: a call that waits for its answer loses it."""
        self._forked.kill()

    def close(self) -> None:
        """Kill the process and free its resources."""
        self._forked.end()

    def _send(self, rendered: bytes, deadline: float) -> None:
        pipe = self._forked.calls
        os.set_blocking(pipe, False)
        rest = memoryview(rendered)
        while rest:
            self._wait(pipe, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(pipe, rest[:_PIPE_BYTES]) :]
            except BrokenPipeError:
                self.lose("it ended")
            except BlockingIOError:
                continue

    def _receive(self, deadline: float) -> Frame:
        def read(count: int) -> bytes:
            return self._read(count, deadline)

        try:
            return read_frame(
                read,
                greatest_body_bytes=self._greatest_answer_bytes,
                greatest_header_bytes=GREATEST_ANSWER_HEADER_BYTES,
            )
        except BrokenFrameError as error:
            self.lose(str(error))
            raise

    def _read(self, count: int, deadline: float) -> bytes:
        pipe = self._forked.answers
        parts: list[bytes] = []
        while count > 0:
            self._wait(pipe, select.POLLIN, deadline)
            part = os.read(pipe, min(count, _CHUNK))
            if not part:
                self.lose("it ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        left_ms = max(0, int((deadline - time.monotonic()) * 1000))
        if not poll.poll(left_ms):
            self.lose("it did not answer in time")

    def lose(self, why: str) -> None:
        """Kill the process.

        Raises:
            WorkerLostError: Always.
        """
        self.close()
        raise WorkerLostError(why)
