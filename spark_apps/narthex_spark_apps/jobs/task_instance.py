"""A runner that is a standing task of Spark, from the side of its driver.

Each instance has a job of Spark with one task that never ends, and a connection to it. Spark
chooses the executor, starts the Python worker and notices its end.
"""

import contextlib
import queue
import secrets
import signal
import threading
from collections.abc import Iterator

import structlog
from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException

from narthex._processes import Process, send_signal, wait_gone
from narthex_spark_apps.jobs.task_listener import TaskListener
from narthex_spark_apps.platform.python_workers import cause_of, with_environment
from narthex_spark_apps.supervision.line_sender import LineSender
from narthex_spark_apps.supervision.runner.task_channel import Channel
from narthex_spark_apps.supervision.runner.task_runner import StandingTask
from narthex_spark_apps.supervision.runner_messages import (
    GarbledLineError,
    Started,
    TaskFailed,
    parse_report,
)

log = structlog.get_logger()

KILLED_WITHIN_S = 5.0
OWN_WORKERS = {"NARTHEX_STANDING_TASK": "1"}
"""Spark keeps Python workers with another environment apart.

A standing task would otherwise run in a worker that has served other tasks and has an index open:
LMDB forbids opening it twice in a process.
"""


class TaskInstance:
    """One standing task, from its start until its end."""

    def __init__(
        self, context: SparkContext, task: StandingTask, listener: TaskListener, *, jobs: int = 0
    ) -> None:
        """Start a job of Spark with the task; the task connects later.

        Args:
            context: The context of the driver.
            task: The function of the task, which connects to the listener.
            listener: Waits for the task.
            jobs: The number of its jobs when it starts, for Spark's pages.
        """
        self._context = context
        self._name = task.name
        self._tag = f"narthex-{task.name}-{secrets.token_hex(4)}"
        self._listener = listener
        self._is_remote = listener.address.is_remote
        self._connected: queue.SimpleQueue[Channel | None] = queue.SimpleQueue()
        self._channel: Channel | None = None
        self._sender = LineSender(self._write, name=f"{task.name}-orders")
        self._process: Process | None = None
        self._failure = self._ending = ""
        self._is_over, self._is_disconnected = threading.Event(), threading.Event()
        title = f"standing task {task.name}: {jobs} jobs at its start"
        name = f"{task.name}-job"
        InheritableThread(target=self._run, args=(task, title), name=name, daemon=True).start()

    def _run(self, task: StandingTask, title: str) -> None:
        """Run the job of Spark until it ends."""
        context = with_environment(self._context, OWN_WORKERS)
        try:
            # These two hold for the jobs of this thread only.
            context.addJobTag(self._tag)
            context.setJobDescription(title)
            context.parallelize([0], 1).mapPartitions(task).count()
            self._ending = "ended"
        except (Py4JError, PySparkException, OSError) as error:
            self._ending = cause_of(error)
        finally:
            self._is_over.set()

    @property
    def is_running(self) -> bool:
        """Whether the task runs, as far as Spark and its connection show."""
        # On a cluster Spark first retries a task whose worker has died, which ends at once.
        has_ended = self._is_remote and self._is_disconnected.is_set()
        return not (self._is_over.is_set() or has_ended)

    @property
    def ending(self) -> str:
        """Describe how the task ended; empty while it runs."""
        if self.is_running:
            return ""
        return self._failure or self._ending

    @property
    def is_gone(self) -> bool:
        """Whether the process of the task has certainly ended, after `kill`.

        On another machine its end is certain only when it has closed the connection: Spark reports
        a cancelled task as ended while its worker may still run.
        """
        if not self._is_remote:
            return True
        is_closed = self._channel is None or self._channel.has_peer_ended
        return self._is_disconnected.is_set() and is_closed

    def send(self, line: str) -> None:
        """Send a line; before the task has connected, it waits in a queue."""
        self._sender.send(line)

    def _write(self, line: str) -> None:
        channel = self._channel or self._connected.get()
        if channel is None:
            raise BrokenPipeError(f"task `{self._name}` was ended")
        channel.send(line)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the task, until it ends."""
        try:
            channel = self._listener.accept(lambda: not self._is_over.is_set())
            if channel is None:
                return
            self._channel = channel
            self._connected.put(channel)
            with contextlib.closing(channel):
                for line in channel.lines():
                    self._note(line)
                    yield line
        finally:
            if self._channel is not None and self._is_remote and not self._is_over.is_set():
                self._failure = self._failure or "its Python worker has ended"
            self._is_disconnected.set()

    def _note(self, line: str) -> None:
        """Note which process the task is, and why it fails."""
        if self._process is not None and TaskFailed.NAME not in line:
            return
        try:
            message = parse_report(line)
        except GarbledLineError:
            return
        if isinstance(message, Started):
            self._process = Process(pid=message.pid, start=message.start)
            log.info("task_started", task=self._name, host=message.host, pid=message.pid)
        elif isinstance(message, TaskFailed):
            self._failure = message.error

    def end(self, *, within_s: float) -> bool:
        """Kill the task: committed data stays, and its next start repeats the rest."""
        del within_s
        self.kill()
        return True

    def kill(self) -> None:
        """End the job and its Python worker; see `is_gone` for a worker on another machine."""
        try:
            self._context.cancelJobsWithTag(self._tag)
        except (Py4JError, OSError) as error:
            log.warning("task_not_cancelled", task=self._name, error=cause_of(error))
        self._listener.close()
        self._sender.close()
        self._connected.put(None)
        if self._channel is not None:
            self._channel.end()
        if self._process is not None and not self._is_remote:
            # A stopped worker does not end by itself; two workers would share an epoch.
            send_signal(self._process, signal.SIGKILL)
            wait_gone((self._process,), within_s=KILLED_WITHIN_S)
        self._is_over.wait(KILLED_WITHIN_S)
