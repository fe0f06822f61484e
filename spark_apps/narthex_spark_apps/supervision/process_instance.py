"""A runner that is a process, connected by pipes: one line of stdin or stdout is one message."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
import structlog

from narthex._processes import ProcessGroup, end_leftovers
from narthex_spark_apps.supervision.line_sender import LineSender

log = structlog.get_logger()


@attrs.frozen
class ProcessInstance:
    """One process of a runner, in a session of its own."""

    group: ProcessGroup
    _pid_path: Path
    _sender: LineSender

    @classmethod
    def start(
        cls, name: str, *, module: str, environment: Mapping[str, str], run_dir: Path
    ) -> "ProcessInstance":
        """Start the process; first kill the one that an earlier supervisor left running.

        Args:
            name: The name of the runner in logs and files.
            module: The module that runs as a program.
            environment: All environment variables of the process.
            run_dir: The directory of its log and PID file; no other runner of that name may use it.
        """
        pid_path = run_dir / f"{name}.pid"
        end_leftovers(pid_path)
        group = ProcessGroup.start(
            [sys.executable, "-m", module],
            environment=environment,
            log=run_dir / f"{name}.log",
            has_pipes=True,
        )
        group.process.store(pid_path)
        log.info("runner_started", runner=name, pid=group.pid)
        return cls(group, pid_path, LineSender(_writer_to(group), name=f"{name}-orders"))

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.group.is_running

    @property
    def ending(self) -> str:
        """Describe how the process ended; empty while it runs."""
        return self.group.ending

    def send(self, line: str) -> None:
        """Send a line to its stdin, without waiting."""
        self._sender.send(line)

    def lines(self) -> Iterator[str]:
        """Yield the lines of its stdout until it ends."""
        for raw in self.group.popen.stdout or ():
            yield raw.decode(errors="replace")

    def end(self, *, within_s: float) -> bool:
        """Stop the process and all that it started; return whether it ended by itself."""
        self._sender.close()
        has_ended = self.group.end(within_s=within_s)
        self._pid_path.unlink(missing_ok=True)
        return has_ended

    def kill(self) -> None:
        """Kill the process and all that it started; on return, none of them runs."""
        self._sender.close()
        self.group.kill()

    @property
    def is_gone(self) -> bool:
        """Whether none of its processes runs, after `kill`."""
        return not self.group.is_running


def _writer_to(group: ProcessGroup) -> Callable[[str], None]:
    stdin = group.popen.stdin
    if stdin is None:
        raise ValueError(f"process {group.pid} was started without pipes")
    number = stdin.fileno()

    def write(line: str) -> None:
        data = line.encode() + b"\n"
        while data:
            data = data[os.write(number, data) :]

    return write
