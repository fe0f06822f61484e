"""A runner that is a standing task of Spark, from the side of its driver.

Each instance has a job of Spark with one task that never ends, and a socket to it. Spark chooses
the executor, starts the Python worker and notices its end. On one machine the socket is a Unix
socket in a directory that only this account can read.
"""

import os
import queue
import secrets
import shutil
import signal
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

import structlog
from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException

from narthex._processes import Process, send_signal, wait_gone
from narthex_spark_apps.platform.python_workers import cause_of, with_environment
from narthex_spark_apps.supervision.line_sender import LineSender
from narthex_spark_apps.supervision.runner.task_runner import StandingTask, lines_of
from narthex_spark_apps.supervision.runner_messages import (
    GarbledLineError,
    Started,
    parse_report,
)

log = structlog.get_logger()

ACCEPT_EVERY_S = 0.2
PROVE_WITHIN_S = 10
KILLED_WITHIN_S = 5.0
OWN_WORKERS = {"NARTHEX_STANDING_TASK": "1"}
"""Spark keeps Python workers with another environment apart.

A standing task would otherwise run in a worker that has served other tasks and has an index open:
LMDB forbids opening it twice in a process.
"""


class TaskInstance:
    """One standing task, from its start until Spark reports its end."""

    def __init__(self, context: SparkContext, name: str, make: str) -> None:
        """Start a job of Spark with the task; the task connects later.

        Args:
            context: The context of the driver.
            name: The name of the task, for Spark's pages and the process table.
            make: Where the function is that makes the loop of the task (`StandingTask.make`).
        """
        self._context = context
        self._name = name
        self._tag = f"narthex-{name}-{secrets.token_hex(4)}"
        self.address = Path(tempfile.mkdtemp(prefix="narthex-")) / "task"
        self._key = secrets.token_bytes(32)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self.address))
        self._server.listen()
        self._server.settimeout(ACCEPT_EVERY_S)
        self._connected: queue.SimpleQueue[Connection[bytes, bytes] | None] = queue.SimpleQueue()
        self._connection: Connection[bytes, bytes] | None = None
        self._sender = LineSender(self._write, name=f"{name}-orders")
        self._process: Process | None = None
        self._ending = ""
        self._is_over = threading.Event()
        task = StandingTask(name=name, make=make, address=str(self.address), key=self._key)
        InheritableThread(target=self._run, args=(task,), name=f"{name}-job", daemon=True).start()

    def _run(self, task: StandingTask) -> None:
        """Run the job of Spark until it ends."""
        context = with_environment(self._context, OWN_WORKERS)
        try:
            # These two hold for the jobs of this thread only.
            context.addJobTag(self._tag)
            context.setJobDescription(f"standing task: {self._name}")
            context.parallelize([0], 1).mapPartitions(task).count()
            self._ending = "ended"
        except (Py4JError, PySparkException, OSError) as error:
            self._ending = cause_of(error)
        finally:
            self._is_over.set()

    @property
    def is_running(self) -> bool:
        """Whether Spark still runs the task."""
        return not self._is_over.is_set()

    @property
    def ending(self) -> str:
        """Describe how the task ended; empty while it runs."""
        return self._ending

    def send(self, line: str) -> None:
        """Send a line; before the task has connected, it waits in a queue."""
        self._sender.send(line)

    def _write(self, line: str) -> None:
        if self._connection is None:
            self._connection = self._connected.get()
        if self._connection is None:
            raise BrokenPipeError(f"task `{self._name}` was ended")
        self._connection.send_bytes(line.encode())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the task, until it ends."""
        connection = self._accept()
        if connection is None:
            return
        with connection:
            for line in lines_of(connection):
                self._note_process(line)
                yield line

    def _note_process(self, line: str) -> None:
        if self._process is not None:
            return
        try:
            message = parse_report(line)
        except GarbledLineError:
            return
        if isinstance(message, Started):
            self._process = Process(pid=message.pid, start=message.start)
            log.info("task_started", task=self._name, pid=message.pid)

    def _accept(self) -> "Connection[bytes, bytes] | None":
        """Return the connection of the task; None if the task ends without one."""
        while self.is_running:
            try:
                accepted, _ = self._server.accept()
            except TimeoutError:
                continue
            except OSError:
                return None
            connection = _proven(accepted, self._key)
            if connection is not None:
                # Nothing else connects; a driver that is killed leaves no directory.
                shutil.rmtree(self.address.parent, ignore_errors=True)
                self._connected.put(connection)
                return connection
            log.warning("task_not_authenticated", task=self._name)
        return None

    def end(self, *, within_s: float) -> bool:
        """Kill the task: committed data stays, and its next start repeats the rest."""
        del within_s
        self.kill()
        return True

    def kill(self) -> None:
        """End the job and its Python worker; on return, neither runs."""
        try:
            self._context.cancelJobsWithTag(self._tag)
        except (Py4JError, OSError) as error:
            log.warning("task_not_cancelled", task=self._name, error=cause_of(error))
        self._server.close()
        self._sender.close()
        self._connected.put(None)
        if self._process is not None:
            # A stopped worker does not end by itself; two workers would share an epoch.
            send_signal(self._process, signal.SIGKILL)
            wait_gone((self._process,), within_s=KILLED_WITHIN_S)
        self._is_over.wait(KILLED_WITHIN_S)
        shutil.rmtree(self.address.parent, ignore_errors=True)


def _proven(accepted: socket.socket, key: bytes) -> "Connection[bytes, bytes] | None":
    """Return a connection whose other side knows the key; close any other."""
    # A limit of the kernel, because a read of a connection waits for ever.
    accepted.setblocking(True)
    limit = struct.pack("ll", PROVE_WITHIN_S, 0)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    connection: Connection[bytes, bytes] = Connection(os.dup(accepted.fileno()))
    try:
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    except (AuthenticationError, EOFError, OSError):
        connection.close()
        accepted.close()
        return None
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    accepted.close()
    return connection
