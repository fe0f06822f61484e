"""A child process in a session and a process group of its own, which ends as a whole.

A Spark driver's JVM, or the workers of a server, outlive the process that started them. So a child
leads a session, and the process that ends the child kills the rest of the session. Spark's Python
workers are in a group of their own, but in the same session.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import attrs

from narthex._base import Backoff
from narthex._processes import die_with_parent
from narthex._processes.process_table import (
    Process,
    in_sessions,
    load_process,
    process_of,
    send_signal,
)

_KILLED_S = 5.0
_POLL = Backoff(first_s=0.05, greatest_s=0.1)


@attrs.frozen(kw_only=True)
class ProcessGroup:
    """A child process that was started here; its pid is also that of its group and its session."""

    popen: "subprocess.Popen[bytes]" = attrs.field(repr=False)
    process: Process

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path | None = None,
        has_pipes: bool = False,
        cwd: Path | None = None,
    ) -> "ProcessGroup":
        """Start a command.

        Args:
            command: The program and its arguments.
            environment: All environment variables of the child.
            log: The file to which its output is appended; None for this process's own output.
            has_pipes: Connect its stdin and stdout to this process; only stderr goes to the log.
            cwd: Its working directory; None for this process's own.
        """
        with ExitStack() as files:
            output = None
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                output = files.enter_context(log.open("ab"))
            popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if has_pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if has_pipes else output,
                stderr=output,
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        process = process_of(popen.pid)
        return cls(popen=popen, process=process or Process(pid=popen.pid, start=0))

    @property
    def pid(self) -> int:
        """The process id of the child, and the id of its group."""
        return self.popen.pid

    @property
    def is_running(self) -> bool:
        """Whether the child has not ended; processes that it started may run on."""
        return self.popen.poll() is None

    @property
    def ending(self) -> str:
        """Describe how the child ended; empty while it runs."""
        code = self.popen.poll()
        if code is None:
            return ""
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    def ask_to_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal the child, which then ends what it started; return at once."""
        self.popen.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM, *, within_s: float) -> bool:
        """Signal the child to stop, and kill what is left of its group after `within_s`.

        Returns:
            Whether the child ended by itself in that time.
        """
        self.ask_to_stop(number)
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(within_s)
        has_ended = not self.is_running
        self.kill()
        return has_ended

    def kill(self) -> None:
        """Kill the whole session at once, and wait until none of its processes runs."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()
        kill_session(self.process)


def dying_with_parent(
    command: Sequence[str], *, number: signal.Signals, account: str | None = None
) -> tuple[str, ...]:
    """Return a command line that runs a command, which gets a signal when this process ends.

    The kernel sends the signal when the *thread* that starts the command ends, so that thread must
    run as long as the command.

    Args:
        command: The program and its arguments.
        number: The signal to send.
        account: The account that the command runs as; None for this process's own.
    """
    return (
        *(sys.executable, "-I", "-S", die_with_parent.__file__),
        *(str(os.getpid()), str(int(number))),
        *(account or die_with_parent.NO_ACCOUNT, *command),
    )


def end_leftovers(path: Path) -> None:
    """Kill the child that an earlier program stored in a file, with its session; delete the file.

    The child may be dead while processes that it started run on: they are killed too.
    """
    leader = load_process(path)
    if leader is not None:
        kill_session(leader)
    path.unlink(missing_ok=True)


def kill_session(leader: Process) -> None:
    """Kill all processes of the session that a process leads or led; wait until they are gone."""
    for _ in _POLL.attempts(within_s=_KILLED_S):
        members = in_sessions((leader,))
        if not members:
            return
        for process in members:
            send_signal(process, signal.SIGKILL)


def end_own_group() -> None:
    """Kill this process and its whole process group, at once."""
    os.killpg(os.getpgid(0), signal.SIGKILL)
