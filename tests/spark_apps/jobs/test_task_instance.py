"""A standing task of Spark: started, connected, killed in any state, and started again."""

import os
import signal
import socket
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from narthex._base import Backoff
from narthex._processes import Process, is_alive, send_signal, wait_gone
from narthex.settings import Settings, environment_of
from narthex_spark_apps.jobs.task_instance import OWN_WORKERS, TaskInstance
from narthex_spark_apps.jobs.task_listener import LocalListener, TaskListener
from narthex_spark_apps.platform.python_workers import with_environment
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner.task_runner import StandingTask
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    RunningJobs,
    ShardId,
    Started,
    parse_report,
    render_desired,
)
from tests.spark_processes import command_of

pytestmark = pytest.mark.spark

POLL = Backoff(first_s=0.05, greatest_s=0.2)
WITHIN_S = 60.0


class EchoLoop:
    """Sends the turn of each set that it gets; one of turn 13 ends it by an error."""

    turn_s = 0.05

    def __init__(self, send: Send) -> None:
        self._send = send

    def turn(self, desired: DesiredAssignments | None) -> None:
        if desired is None:
            return
        if desired.turn == 13:
            raise RuntimeError("turn 13")
        self._send(RunningJobs(turn=desired.turn, shards=(ShardId(os.getpid()),)))


def make_echo(_settings: Settings, send: Send) -> EchoLoop:
    return EchoLoop(send)


@pytest.fixture
def context(settings_of: Settings, spark: SparkSession) -> SparkContext:
    """Return the context, whose Python workers have the settings and can import this module."""
    environment = {**environment_of(settings_of), "PYTHONPATH": str(Path(__file__).parents[3])}
    return with_environment(spark.sparkContext, environment)


# A connection closes when nothing refers to its lines any more: each test keeps them.
@contextmanager
def started(
    context: SparkContext, name: str = "echo", *, listener: TaskListener | None = None
) -> Iterator[TaskInstance]:
    listener = listener or LocalListener()
    task = StandingTask(name=name, make=f"{__name__}:make_echo", address=listener.address)
    instance = TaskInstance(context, task, listener)
    try:
        yield instance
    finally:
        instance.kill()


MessageT = TypeVar("MessageT", Started, RunningJobs)


def next_of(lines: Iterator[str], kind: type[MessageT]) -> MessageT:
    return next(message for line in lines if isinstance(message := parse_report(line), kind))


def wait_over(instance: TaskInstance) -> None:
    assert POLL.until(lambda: not instance.is_running, within_s=WITHIN_S)


def order(instance: TaskInstance, turn: int) -> None:
    instance.send(render_desired(DesiredAssignments(assignments=(), turn=turn)))


def test_a_task_runs_its_loop_in_a_worker_that_has_its_name(context: SparkContext) -> None:
    with started(context) as instance:
        order(instance, 7)
        lines = instance.lines()
        process = as_process(next_of(lines, Started))
        answer = next_of(lines, RunningJobs)

        assert (answer.turn, answer.shards) == (7, (ShardId(process.pid),))
        assert command_of(process) == "echo"
        assert (instance.is_running, instance.ending) == (True, "")

    assert not is_alive(process)
    assert not instance.is_running
    assert instance.ending != ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_task_whose_worker_dies_ends_and_names_the_reason(
    context: SparkContext, number: signal.Signals
) -> None:
    with started(context) as instance:
        lines = instance.lines()
        process = as_process(next_of(lines, Started))
        send_signal(process, number)
        wait_over(instance)

    assert "Python worker exited unexpectedly" in instance.ending


def test_a_task_whose_loop_fails_ends_and_names_the_error(context: SparkContext) -> None:
    with started(context) as instance:
        lines = instance.lines()
        next_of(lines, Started)
        order(instance, 13)
        wait_over(instance)

    assert "RuntimeError: turn 13" in instance.ending


def test_a_stopped_worker_is_gone_when_its_task_is_killed(context: SparkContext) -> None:
    with started(context) as instance:
        lines = instance.lines()
        process = as_process(next_of(lines, Started))
        send_signal(process, signal.SIGSTOP)

    assert not is_alive(process)
    assert not instance.is_running


def test_a_task_ends_when_its_driver_closes_the_connection(context: SparkContext) -> None:
    with started(context) as instance:
        lines = instance.lines()
        process = as_process(next_of(lines, Started))
        assert isinstance(lines, Generator)
        lines.close()

        assert wait_gone((process,), within_s=WITHIN_S) == ()
        wait_over(instance)


def test_the_job_of_a_task_has_its_name_and_number_of_jobs_on_the_pages_of_spark(
    context: SparkContext,
) -> None:
    listener = LocalListener()
    task = StandingTask(name="named", make=f"{__name__}:make_echo", address=listener.address)
    instance = TaskInstance(context, task, listener, jobs=12)
    try:
        next_of(instance.lines(), Started)
        described = descriptions(context)
    finally:
        instance.kill()

    assert "standing task named: 12 jobs at its start" in described


def descriptions(context: SparkContext) -> list[str]:
    """Return the descriptions of all jobs that Spark's pages show."""
    jobs = context._jsc.sc().statusStore().jobsList(None)  # noqa: SLF001 (no public API has it)
    found = [jobs.apply(place).description() for place in range(jobs.size())]
    return [str(description.get()) for description in found if description.isDefined()]


@pytest.mark.slow
def test_tasks_do_not_share_workers_with_other_functions(context: SparkContext) -> None:
    def pid(_rows: Iterable[int]) -> Iterator[int]:
        yield os.getpid()

    served = set(context.parallelize(range(8), 8).mapPartitions(pid).collect())
    with started(context, "one") as one, started(context, "two") as two:
        connected = [instance.lines() for instance in (one, two)]
        tasks = [next_of(lines, Started).pid for lines in connected]
        served |= set(context.parallelize(range(8), 8).mapPartitions(pid).collect())

    assert len({*tasks, *served}) == 2 + len(served)
    assert OWN_WORKERS.items().isdisjoint(context.environment.items())


def test_a_connection_without_the_key_is_refused_and_the_task_still_connects(
    context: SparkContext,
) -> None:
    listener = LocalListener()
    path = listener.address.path
    with started(context, listener=listener) as instance:
        mode = Path(path).parent.stat().st_mode & 0o777
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(path)
        stranger = threading.Thread(target=_connect, args=(path,))
        stranger.start()
        lines = instance.lines()
        process = as_process(next_of(lines, Started))
        stranger.join()

        assert is_alive(process)
        assert mode == 0o700


def _connect(address: str) -> None:
    with pytest.raises((AuthenticationError, OSError, EOFError)):
        Client(address, authkey=b"another key")


def as_process(message: Started) -> Process:
    return Process(pid=message.pid, start=message.start)
