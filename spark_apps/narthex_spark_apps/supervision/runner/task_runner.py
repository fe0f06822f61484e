"""Run a loop in a standing task: a task of Spark that ends only with its process.

The task connects to its driver, and both prove that they know the key of this task. Work goes on in
the Python worker of Spark that runs the task.
"""

import os
import pkgutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Client, Connection
from pathlib import Path

import attrs

from narthex._processes import process_of
from narthex.settings import Settings, load_settings
from narthex_spark_apps.supervision.runner.lease_inbox import Inbox, Send, log_to_stderr
from narthex_spark_apps.supervision.runner.process_runner import Loop, take_turns
from narthex_spark_apps.supervision.runner_messages import RunnerMessage, Started, render_report

MakeLoop = Callable[[Settings, Send], Loop]
"""Makes the loop of a task."""


@attrs.frozen
class StandingTask:
    """The function of a standing task, which Spark sends to a Python worker.

    Attributes:
        name: The name of the task; `ps` and `top` show it, cut to 15 letters.
        make: Where the function is that makes the loop: `module:name`, a `MakeLoop`.
        address: The socket of the driver.
        key: Both sides of the connection must know it.
    """

    name: str
    make: str
    address: str
    key: bytes = attrs.field(repr=False)

    def __call__(self, _rows: Iterable[int]) -> Iterator[int]:
        """Run until the driver is gone; the parameter and the result are those of any task."""
        _name_process(self.name)
        log_to_stderr()
        with Client(self.address, authkey=self.key) as connection:
            send = _sender_to(connection)
            send(_this_process())
            inbox = Inbox()
            inbox.listen(lines_of(connection), send=send, gone=_end)
            make: MakeLoop = pkgutil.resolve_name(self.make)
            take_turns(make(load_settings(), send), inbox)


def lines_of(connection: "Connection[bytes, bytes]") -> Iterator[str]:
    """Yield the lines that arrive, until the other side is gone."""
    while True:
        try:
            yield connection.recv_bytes().decode(errors="replace")
        except (EOFError, OSError):
            return


def _sender_to(connection: "Connection[bytes, bytes]") -> Send:
    sending = threading.Lock()

    def send(message: RunnerMessage) -> None:
        with sending:
            connection.send_bytes(render_report(message).encode())

    return send


def _this_process() -> Started:
    process = process_of(os.getpid())
    return Started(pid=os.getpid(), start=process.start if process else 0)


def _name_process(name: str) -> None:
    if sys.platform == "linux":
        Path("/proc/self/comm").write_text(name)


def _end() -> None:
    """Kill this Python worker, at once: Spark reports that the task failed."""
    os.kill(os.getpid(), signal.SIGKILL)
