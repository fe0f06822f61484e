"""One worker process, seen from outside: start, ask with a deadline, end."""

import json
import os
import select
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Final

import attrs

import narthex
from narthex.workers.frames import BrokenFrameError, Frame, read_frame, render_frame

_MAIN: Final = Path(__file__).with_name("main.py")
_CHUNK: Final = 1 << 20
_PIPE_BYTES: Final = 1 << 16
_LIBRARY_PATHS: Final = ("/usr/lib", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo")


class WorkerLostError(RuntimeError):
    """A worker died, was silent for too long, or spoke nonsense; it was killed."""


@attrs.frozen(kw_only=True)
class Sandbox:
    """What the kernel granted to a worker, step by step: `yes`, or `no` with the reason."""

    granted: tuple[tuple[str, str], ...]

    @property
    def is_complete(self) -> bool:
        """Whether every step was granted."""
        return all(said == "yes" for _, said in self.granted)


class WorkerProcess:
    """A process that runs code of authors; not safe for two threads at once."""

    def __init__(
        self, *, memory_bytes: int, start_timeout_s: float, greatest_answer_bytes: int
    ) -> None:
        """Start it and wait until it is ready.

        Raises:
            WorkerLostError: It did not become ready.
        """
        self._greatest_answer_bytes = greatest_answer_bytes
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-S", "-P", "-B", str(_MAIN), _arguments(memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
        self.calls = 0
        ready = self._receive(time.monotonic() + start_timeout_s)
        granted = ready.header.get("sandbox")
        if ready.header.get("kind") != "ready" or not isinstance(granted, dict):
            self._lose("it did not become ready")
        pairs = granted.items() if isinstance(granted, dict) else ()
        self.sandbox = Sandbox(granted=tuple((str(name), str(said)) for name, said in pairs))

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, frame: Frame, *, deadline: float) -> Frame:
        """Send a frame and give the answer, before the monotonic deadline.

        Raises:
            WorkerLostError: No answer came in time, or the process ended; it is dead now.
        """
        self._send(render_frame(frame), deadline)
        return self._receive(deadline)

    def close(self) -> None:
        """Kill the process and free what it held."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _send(self, rendered: bytes, deadline: float) -> None:
        pipe = self._process.stdin
        if pipe is None:
            return
        os.set_blocking(pipe.fileno(), False)
        rest = memoryview(rendered)
        while rest:
            self._wait(pipe.fileno(), select.POLLOUT, deadline)
            try:
                rest = rest[os.write(pipe.fileno(), rest[:_PIPE_BYTES]) :]
            except BrokenPipeError:
                self._lose("it ended")
            except BlockingIOError:
                continue

    def _receive(self, deadline: float) -> Frame:
        def read(count: int) -> bytes:
            return self._read(count, deadline)

        try:
            return read_frame(read, greatest_body_bytes=self._greatest_answer_bytes)
        except BrokenFrameError as error:
            self._lose(str(error))
            raise

    def _read(self, count: int, deadline: float) -> bytes:
        pipe = self._process.stdout
        parts: list[bytes] = []
        while pipe is not None and count > 0:
            self._wait(pipe.fileno(), select.POLLIN, deadline)
            part = os.read(pipe.fileno(), min(count, _CHUNK))
            if not part:
                self._lose("it ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        left_ms = max(0, int((deadline - time.monotonic()) * 1000))
        if not poll.poll(left_ms):
            self._lose("it did not answer in time")

    def _lose(self, why: str) -> None:
        self.close()
        raise WorkerLostError(why)


_ENVIRONMENT: Final = {
    "PYTHONHASHSEED": "0",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""All that a worker's environment has: fixed seeds and places, one thread."""


def _arguments(memory_bytes: int) -> str:
    libraries = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    ours = str(Path(next(iter(narthex.__path__))).parent)
    stdlib = [path for path in (sysconfig.get_path(n) for n in ("stdlib", "platstdlib")) if path]
    base = str(Path(sys.base_prefix))
    return json.dumps(
        {
            "parent": os.getpid(),
            "stdlib": [*dict.fromkeys(stdlib), f"{stdlib[0]}/lib-dynload"],
            "path": [*libraries, ours],
            "readable": [*libraries, f"{ours}/narthex", f"{base}/lib", *_LIBRARY_PATHS],
            "memory_bytes": memory_bytes,
        }
    )
