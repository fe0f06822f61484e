"""The template of workers: a process with all libraries loaded, from which workers are forked.

To start Python and load the libraries takes a second; a fork takes milliseconds, and shares their
memory. The template starts when it is first needed, and ends when the processes that may send it
requests have ended: the one that started it, and those forked from that.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Final

import attrs

import narthex

_MAIN: Final = Path(__file__).parents[1] / "workers" / "main.py"
_LIBRARY_PATHS: Final = (
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/local/lib",
    "/usr/share/zoneinfo",
)
_ENVIRONMENT: Final = {
    "PYTHONHASHSEED": "0",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""The whole environment of a worker: fixed seeds and places, one thread."""


class NoTemplateError(RuntimeError):
    """The template ended, or forked no worker in time."""


@attrs.define
class ForkedWorker:
    """A worker that was forked from the template, with its pipes.

    Attributes:
        calls: The descriptor to which calls are written.
        answers: The descriptor from which answers are read.
        is_ended: Whether `end` was called.
    """

    calls: int
    answers: int
    _guard: int
    is_ended: bool = False
    _ending: threading.Lock = attrs.field(factory=threading.Lock)

    @property
    def is_alive(self) -> bool:
        """Whether the worker has not ended."""
        return not (self.is_ended or _is_readable(self._guard, within_s=0.0))

    def kill(self) -> None:
        """Kill the worker, from any thread; the one that uses its pipes still has to end it."""
        with self._ending, contextlib.suppress(ProcessLookupError):
            if not self.is_ended:
                signal.pidfd_send_signal(self._guard, signal.SIGKILL)

    def end(self) -> None:
        """Kill the worker, wait until it is gone, and close the pipes."""
        if self.is_ended:
            return
        self.kill()
        with self._ending:
            self.is_ended = True
        _is_readable(self._guard, within_s=None)
        for descriptor in (self.calls, self.answers, self._guard):
            os.close(descriptor)


class Template:
    """A template that this process, or the one that this was forked from, has started."""

    def __init__(self) -> None:
        """Start the process, which loads no library yet."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-S", "-P", "-B", str(_MAIN), json.dumps(_paths())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        self._requests = ours

    def fork(
        self,
        *,
        memory_bytes: int,
        without: tuple[str, ...],
        timeout_s: float,
        directory: str = "",
        packages: str = "",
    ) -> ForkedWorker:
        """Fork a worker, which ends when this process does.

        Args:
            memory_bytes: The address space that it may use.
            without: Layers of the sandbox that it does not try.
            timeout_s: The time limit.
            directory: A directory that it may read besides the libraries, and in which it works;
                empty for none.
            packages: A directory of packages that it may read and import, where the libraries lack
                them; empty for none.

        Raises:
            NoTemplateError: The template has ended, or did not answer in time.
        """
        request = {
            "memory_bytes": memory_bytes,
            "without": without,
            "readable": [*_readable(), *(one for one in (directory, packages) if one)],
            "directory": directory or "/",
            "packages": packages,
        }
        with contextlib.ExitStack() as passed, contextlib.ExitStack() as kept:
            calls_read, calls = os.pipe()
            answers, answers_write = os.pipe()
            reply, replies = socket.socketpair()
            user = os.pidfd_open(os.getpid())
            for descriptor in (calls_read, answers_write, user):
                passed.callback(os.close, descriptor)
            passed.callback(replies.close)
            for descriptor in (calls, answers):
                kept.callback(os.close, descriptor)
            with reply:
                try:
                    given = [calls_read, answers_write, replies.fileno(), user]
                    socket.send_fds(self._requests, [json.dumps(request).encode()], given)
                except OSError as error:
                    raise NoTemplateError(f"its template has ended: {error.strerror}") from None
                passed.close()
                guard = _guard(reply, timeout_s)
            kept.pop_all()
            return ForkedWorker(calls, answers, guard)

    @property
    def is_alive(self) -> bool:
        """Whether the template has not ended."""
        return not _is_readable(self._requests.fileno(), within_s=0.0)

    def close(self) -> None:
        """Close this process's end; the template ends when no other process has one."""
        self._requests.close()
        self._process.poll()


def _guard(reply: socket.socket, timeout_s: float) -> int:
    """Return the identity of a worker that is being forked."""
    if not _is_readable(reply.fileno(), within_s=timeout_s):
        raise NoTemplateError("its template did not answer in time")
    message, descriptors, _, _ = socket.recv_fds(reply, 16, 1)
    if not message or not descriptors:
        raise NoTemplateError("its template has ended")
    return descriptors[0]


def _is_readable(descriptor: int, *, within_s: float | None) -> bool:
    """Wait until a descriptor is readable, as that of a process is when it has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if within_s is None else within_s * 1000))


_lock = threading.Lock()
_current: Template | None = None


def template() -> Template:
    """Return the template of this process; start one if there is none, or if it has ended."""
    global _current  # noqa: PLW0603 (one a process, inherited by forks)
    with _lock:
        if _current is None or not _current.is_alive:
            if _current is not None:
                _current.close()
            _current = Template()
        return _current


def _libraries() -> list[str]:
    return [*dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))]


def _ours() -> str:
    return str(Path(next(iter(narthex.__path__))).parent)


def _paths() -> dict[str, list[str]]:
    stdlib = [path for path in (sysconfig.get_path(n) for n in ("stdlib", "platstdlib")) if path]
    return {
        "stdlib": [*dict.fromkeys(stdlib), f"{stdlib[0]}/lib-dynload"],
        "path": [*_libraries(), _ours()],
    }


def _readable() -> list[str]:
    base = str(Path(sys.base_prefix))
    return [*_libraries(), f"{_ours()}/narthex", f"{base}/lib", *_LIBRARY_PATHS]
