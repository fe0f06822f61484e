"""All jobs of one Spark application: its streaming queries, and its standing tasks.

Expressions and files are streaming queries of the driver itself. Sources, joins, author code, state
and sinks run in the standing task `stage_runner`; the logs are written to indexes by
`index_writer`, and to histories by `history_writer`. The driver hands each its assignments and
passes its reports on to the supervisor. A standing task that ends is started again; the others do
not notice.
"""

from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError
from pyspark import SparkContext

from narthex._ir import (
    AssetBlueprint,
    AssetKind,
    PipelineJobSpec,
    ResolvedAsset,
    SinkJobSpec,
    SourceJobSpec,
    Trigger,
)
from narthex.settings import Settings, environment_of
from narthex_spark_apps.jobs.shared_places import SharedPlaces
from narthex_spark_apps.jobs.task_instance import TaskInstance
from narthex_spark_apps.jobs.task_listener import LocalListener, TaskListener, TcpListener
from narthex_spark_apps.platform.python_workers import with_environment
from narthex_spark_apps.supervision.runner import Inbox
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner.loop_thread import LoopThread
from narthex_spark_apps.supervision.runner.process_runner import Loop
from narthex_spark_apps.supervision.runner.task_runner import (
    CheckPlaces,
    StandingTask,
    accept_any_place,
)
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    RunnerMessage,
    RunningJobs,
)
from narthex_spark_apps.supervision.supervised_runner import SupervisedRunner

STAGE_RUNNER, INDEX_WRITER, HISTORY_WRITER = "stage_runner", "index_writer", "history_writer"
STANDING_TASKS = {
    STAGE_RUNNER: "narthex_spark_apps.jobs.stage_runner:make_loop",
    INDEX_WRITER: "narthex_spark_apps.writers.index_writer:make_loop",
    HISTORY_WRITER: "narthex_spark_apps.writers.history_writer:make_loop",
}
"""The function that makes the loop of each standing task."""

DRIVER_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host")
_IN_STAGES = frozenset({Trigger.STAGE, Trigger.STATEFUL})


def task_of(asset: ResolvedAsset | AssetBlueprint) -> str | None:
    """Return the standing task that runs a job or a feed; None for a streaming query."""
    if asset.kind is AssetKind.INDEX_FEED:
        return INDEX_WRITER
    if asset.kind is AssetKind.HISTORY_FEED:
        return HISTORY_WRITER
    spec = asset.spec
    streams = SourceJobSpec | PipelineJobSpec | SinkJobSpec
    in_stage = isinstance(spec, streams) and spec.trigger in _IN_STAGES
    return STAGE_RUNNER if in_stage else None


class SparkStoppedError(RuntimeError):
    """The JVM of the driver has ended, or Spark has stopped its context."""


def standing_tasks(context: SparkContext, settings: Settings) -> dict[str, SupervisedRunner]:
    """Return the standing tasks of an application; none is started yet."""
    context = with_environment(context, environment_of(settings))
    return {
        name: _standing_task(context, settings, name=name, make=make)
        for name, make in STANDING_TASKS.items()
    }


def _ends_of(context: SparkContext, settings: Settings) -> tuple[TaskListener, CheckPlaces]:
    """Return what waits for a new task, and what the task checks where Spark has placed it."""
    if settings.has_local_spark:
        return LocalListener(), accept_any_place
    bind, host = (str(context.getConf().get(one)) for one in DRIVER_ADDRESSES)
    return TcpListener(bind=bind, host=host), SharedPlaces.of(settings).require


def _standing_task(
    context: SparkContext, settings: Settings, *, name: str, make: str
) -> SupervisedRunner:
    def start() -> TaskInstance:
        listener, places = _ends_of(context, settings)
        task = StandingTask(name=name, make=make, address=listener.address, check_places=places)
        return TaskInstance(context, task, listener, jobs=runner.assigned)

    runner = SupervisedRunner(name, start)
    return runner


class Application:
    """The jobs of one driver: its queries, and its standing tasks."""

    turn_s = 0.2

    def __init__(
        self,
        tasks: Mapping[str, SupervisedRunner],
        *,
        inbox: Inbox,
        send: Send,
        make_queries: Callable[[Send], Loop],
        requests: Callable[[DesiredAssignments], None],
        require_engine: Callable[[], None],
    ) -> None:
        """Prepare an application without jobs.

        Args:
            tasks: The standing tasks, by name.
            inbox: Knows when the leases expire.
            send: Sends to the supervisor.
            make_queries: Makes the loop of the streaming queries, given how that loop sends.
            requests: Begins what the newest assignments ask for once, without waiting for it.
            require_engine: Raises an error once Spark has ended.
        """
        self._require_engine = require_engine
        self._requests = requests
        self._tasks = tasks
        self._inbox = inbox
        self._send = send
        # Starting a query takes seconds, in which tasks need leases and the supervisor reports.
        self._queries = LoopThread(make_queries(self._pass_on), name="queries")
        self._queries.start()

    def turn(self, desired: DesiredAssignments | None) -> None:
        """Adopt the newest assignments, if there are any, and reconcile queries and tasks.

        Raises:
            SparkStoppedError: Spark has ended: no job can run in this process any more.
            LoopEndedError: The loop of the queries has ended by an error.
        """
        self._require_engine()
        self._queries.require_alive()
        if desired is not None:
            self._adopt(desired)
        for task in self._tasks.values():
            if self._inbox.leased_until < float("inf"):
                task.extend_lease(self._inbox.leased_until)
            task.reconcile()
            for report in task.reports():
                self._send(report)

    def _adopt(self, desired: DesiredAssignments) -> None:
        self._requests(desired)
        self._queries.assign(_part(desired, None))
        for name, task in self._tasks.items():
            task.assign(_part(desired, name))

    def _pass_on(self, message: RunnerMessage) -> None:
        """Send a message of the queries; the running jobs include those of the tasks."""
        if isinstance(message, RunningJobs):
            in_tasks = [task.runs() for task in self._tasks.values() if task.is_up]
            if len(in_tasks) < len(self._tasks) or None in in_tasks:
                # A task starts, or has not adopted the newest set yet.
                return
            shards = {*message.shards, *(shard for runs in in_tasks for shard in runs or ())}
            message = RunningJobs(turn=message.turn, shards=tuple(sorted(shards)))
        self._send(message)


def _part(desired: DesiredAssignments, task: str | None) -> DesiredAssignments:
    assignments = tuple(a for a in desired.assignments if task_of(a.asset) == task)
    return DesiredAssignments(assignments=assignments, turn=desired.turn)


def require_spark(context: SparkContext) -> None:
    """Require that Spark runs.

    Raises:
        SparkStoppedError: Its JVM has ended, or has stopped the context.
    """
    try:
        is_stopped = context._jsc.sc().isStopped()  # noqa: SLF001 (no public API has it)
    except (Py4JError, OSError) as error:
        raise SparkStoppedError("the JVM of the driver has ended") from error
    if is_stopped:
        raise SparkStoppedError("Spark has stopped its context; the log has its error")
