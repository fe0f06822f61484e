"""Run a loop in a standing task: a task of Spark that ends only with its process.

The task connects to its driver, and both prove that they know the key of this task. Work goes on in
the Python worker of Spark that runs the task.
"""

import contextlib
import functools
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs
from pyspark import TaskContext

from narthex._processes import process_of
from narthex.settings import Settings, load_settings
from narthex_spark_apps.supervision.runner.lease_inbox import Inbox, Send
from narthex_spark_apps.supervision.runner.process_runner import Loop, take_turns
from narthex_spark_apps.supervision.runner.progress import describe_error
from narthex_spark_apps.supervision.runner.task_channel import (
    Channel,
    LocalAddress,
    TcpAddress,
)
from narthex_spark_apps.supervision.runner_messages import (
    RunnerMessage,
    Started,
    TaskFailed,
    render_report,
)
from narthex_stores import log_lines, open_log

MakeLoop = Callable[[Settings, Send], Loop]
"""Makes the loop of a task."""

CheckPlaces = Callable[[Settings], None]
"""Raises an error if the machine of a task lacks what its driver has."""


class RetriedTaskError(RuntimeError):
    """Spark has started a standing task again; its driver starts another one."""


def accept_any_place(_settings: Settings) -> None:
    """Check nothing: on one machine, a task has the places of its driver."""


@attrs.frozen
class StandingTask:
    """The function of a standing task, which Spark sends to a Python worker.

    Attributes:
        name: The name of the task; `ps` and `top` show it, cut to 15 letters.
        make: Where the function is that makes the loop: `module:name`, a `MakeLoop`.
        address: The way to the driver.
        check_places: Raises an error if this machine lacks what the task needs.
    """

    name: str
    make: str
    address: LocalAddress | TcpAddress
    check_places: CheckPlaces = accept_any_place

    def __call__(self, _rows: Iterable[int]) -> Iterator[int]:
        """Run until the driver is gone; the parameter and the result are those of any task."""
        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            raise RetriedTaskError(f"standing task `{self.name}` has ended before")
        _name_process(self.name)
        log_lines(sys.stderr)
        # Only the end of this process closes the channel: it is what the driver takes for that.
        channel = self.address.connect()
        send = functools.partial(_send, channel)
        send(_this_process())
        try:
            self._run(channel, send)
        except BaseException as error:
            with contextlib.suppress(OSError):
                send(TaskFailed(error=describe_error(error)))
            raise
        yield from ()

    def _run(self, channel: Channel, send: Send) -> None:
        inbox = Inbox(ends_with_lease=self.address.is_remote)
        inbox.listen(channel.lines(), send=send, gone=_end)
        settings = load_settings()
        open_log(settings, sys.stderr)
        self.check_places(settings)
        make: MakeLoop = pkgutil.resolve_name(self.make)
        take_turns(make(settings, send), inbox)


def _send(channel: Channel, message: RunnerMessage) -> None:
    channel.send(render_report(message))


def _this_process() -> Started:
    process = process_of(os.getpid())
    start = process.start if process else 0
    return Started(pid=os.getpid(), start=start, host=socket.gethostname())


def _name_process(name: str) -> None:
    if sys.platform == "linux":
        Path("/proc/self/comm").write_text(name)


def _end() -> None:
    """Kill this Python worker, at once: Spark reports that the task failed."""
    os.kill(os.getpid(), signal.SIGKILL)
