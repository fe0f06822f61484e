"""One application divides its jobs between streaming queries and standing tasks."""

import threading
from collections.abc import Callable, Iterator, Mapping

import attrs
import pytest

from narthex._base import Backoff
from narthex._ir import AssetKind, FeedSpec, Trigger, WebhookEndpoint
from narthex_spark_apps.jobs.application import (
    HISTORY_WRITER,
    INDEX_WRITER,
    STAGE_RUNNER,
    Application,
    SparkStoppedError,
)
from narthex_spark_apps.supervision.runner import Ended, Inbox, JobLoop
from narthex_spark_apps.supervision.runner.loop_thread import LoopEndedError
from narthex_spark_apps.supervision.runner_messages import (
    Alive,
    DesiredAssignments,
    OfflineRun,
    Report,
    RunnerMessage,
    RunningJobs,
    ShardId,
    WorkAssignment,
    lease_end,
    parse_desired,
    render_lease,
)
from narthex_spark_apps.supervision.supervised_runner import SupervisedRunner
from tests.spark_apps import spark_jobs
from tests.spark_apps.supervision.memory_instance import Instances
from tests.spark_apps.supervision.runner.memory_job_carrier import (
    MemoryCarrier,
    MemoryRun,
    Store,
    assignment,
)

TASKS = (STAGE_RUNNER, INDEX_WRITER, HISTORY_WRITER)
QUERY, STAGE, INDEX, HISTORY = 1, 2, 3, 4


def feed(asset_id: int, kind: AssetKind) -> WorkAssignment:
    one = assignment(asset_id)
    spec = FeedSpec(dataset="Orders", log=spark_jobs.log_of(spark_jobs.ORDERS))
    return attrs.evolve(one, asset=attrs.evolve(one.asset, kind=kind, spec=spec))


def stage(asset_id: int) -> WorkAssignment:
    webhook = WebhookEndpoint(webhook="w", endpoint="e")
    source = spark_jobs.source_job(webhook, needs=(), trigger=Trigger.STAGE)
    one = assignment(asset_id)
    return attrs.evolve(one, asset=attrs.evolve(one.asset, spec=source.asset.spec))


ALL = (
    assignment(QUERY),
    stage(STAGE),
    feed(INDEX, AssetKind.INDEX_FEED),
    feed(HISTORY, AssetKind.HISTORY_FEED),
)


@attrs.define(eq=False)
class QueriesUnderTest(MemoryCarrier):
    """Queries in memory; a test may block them, or break their loop."""

    store: Store = attrs.field(factory=lambda: Store(end=10))
    is_broken: bool = False
    turn_s = 0.02
    may_advance: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.may_advance.set()

    def advance(self, runs: Mapping[ShardId, MemoryRun]) -> Iterator[Ended]:
        assert self.may_advance.wait(60)
        if self.is_broken:
            raise RuntimeError("the carrier is broken")
        return super().advance(runs)


@attrs.define
class ApplicationUnderTest:
    """An application whose tasks are in memory, and what it sends."""

    instances: dict[str, Instances] = attrs.field(factory=lambda: {t: Instances() for t in TASKS})
    inbox: Inbox = attrs.field(factory=Inbox)
    carrier: QueriesUnderTest = attrs.field(factory=QueriesUnderTest)
    sent: list[RunnerMessage] = attrs.field(factory=list)
    requests: list[DesiredAssignments] = attrs.field(factory=list)
    turns: int = 0
    is_stopped: bool = False
    application: Application = attrs.field(init=False)

    @application.default
    def _make(self) -> Application:
        at_once = Backoff(first_s=0.0, greatest_s=0.0)
        return Application(
            {
                name: SupervisedRunner(name, instances.start, restarts=at_once)
                for name, instances in self.instances.items()
            },
            inbox=self.inbox,
            send=self.sent.append,
            make_queries=lambda send: JobLoop(
                self.carrier, send, backoff=Backoff(0.0, 0.0, clock=self.clock)
            ),
            requests=self.requests.append,
            require_engine=self.require_engine,
        )

    def require_engine(self) -> None:
        if self.is_stopped:
            raise SparkStoppedError("the JVM of the driver has ended")

    def clock(self) -> float:
        """Return a time at which each turn reports."""
        self.turns += 1
        return self.turns * 10.0

    def assign(self, *assignments: WorkAssignment, turn: int = 1) -> None:
        self.application.turn(DesiredAssignments(assignments=assignments, turn=turn))

    def run(self, task: str, *assets: int, turn: int = 1) -> None:
        """Let a task report what it runs."""
        self.instances[task].all[-1].say(RunningJobs(turn=turn, shards=tuple(map(ShardId, assets))))

    def wait_for(self, is_so: Callable[[RunnerMessage], bool]) -> None:
        def happens() -> bool:
            self.application.turn(None)
            return any(map(is_so, self.sent))

        assert Backoff(first_s=0.01, greatest_s=0.05).until(happens, within_s=30.0), self.sent

    @property
    def running(self) -> list[RunningJobs]:
        return [message for message in self.sent if isinstance(message, RunningJobs)]


@pytest.fixture
def application() -> ApplicationUnderTest:
    return ApplicationUnderTest()


def test_each_task_gets_its_jobs_and_the_leases(application: ApplicationUnderTest) -> None:
    application.inbox.take(render_lease(since=2e9, lasts_s=5.0))
    application.assign(*ALL)
    instances = [one.all[0] for one in application.instances.values()]
    for instance in instances:
        instance.say(Alive(at=1e9))

    def has_work() -> bool:
        application.application.turn(None)
        return all(instance.turns for instance in instances)

    assert Backoff(first_s=0.01, greatest_s=0.05).until(has_work, within_s=30.0)
    found = {name: one.all[0].turns for name, one in application.instances.items()}
    assert found == {
        STAGE_RUNNER: [(1, [STAGE])],
        INDEX_WRITER: [(1, [INDEX])],
        HISTORY_WRITER: [(1, [HISTORY])],
    }
    assert all((lease_end(instance.sent[0]) or 0.0) > 2e9 for instance in instances)


def test_the_running_jobs_are_reported_when_all_tasks_have_adopted_theirs(
    application: ApplicationUnderTest,
) -> None:
    application.assign(*ALL, turn=5)
    application.run(STAGE_RUNNER, STAGE)
    application.run(INDEX_WRITER, INDEX)
    application.application.turn(None)
    before = list(application.running)
    application.run(HISTORY_WRITER, HISTORY)
    application.wait_for(lambda m: isinstance(m, RunningJobs))

    assert before == []
    assert application.running[0] == RunningJobs(
        turn=5, shards=tuple(map(ShardId, (QUERY, STAGE, INDEX, HISTORY)))
    )


def test_a_job_that_a_task_still_drains_is_reported(application: ApplicationUnderTest) -> None:
    application.assign(*ALL)
    for task, asset in ((STAGE_RUNNER, STAGE), (INDEX_WRITER, INDEX), (HISTORY_WRITER, HISTORY)):
        application.run(task, asset)
    application.wait_for(lambda m: isinstance(m, RunningJobs))
    application.sent.clear()
    application.assign(assignment(QUERY), turn=2)
    for task, assets in ((STAGE_RUNNER, (STAGE,)), (INDEX_WRITER, ()), (HISTORY_WRITER, ())):
        application.run(task, *assets, turn=2)
    application.wait_for(lambda m: isinstance(m, RunningJobs))

    assert application.running[0] == RunningJobs(turn=2, shards=(ShardId(QUERY), ShardId(STAGE)))


def test_reports_of_tasks_and_of_queries_are_passed_on(application: ApplicationUnderTest) -> None:
    application.assign(*ALL)
    report = Report(asset_id=INDEX, epoch=1, generation=1, phase="caught_up")
    application.instances[INDEX_WRITER].all[0].say(report)
    application.wait_for(lambda message: message == report)
    application.wait_for(lambda m: isinstance(m, Report) and m.asset_id == QUERY)


def test_a_task_that_ends_is_replaced_and_the_others_go_on(
    application: ApplicationUnderTest,
) -> None:
    application.assign(*ALL)
    application.instances[INDEX_WRITER].all[0].die("Python worker exited unexpectedly")
    application.application.turn(None)
    application.application.turn(None)

    started = {name: len(one.all) for name, one in application.instances.items()}
    assert started == {STAGE_RUNNER: 1, INDEX_WRITER: 2, HISTORY_WRITER: 1}
    assert application.instances[INDEX_WRITER].all[1].turns == [(1, [INDEX])]


def test_requests_are_passed_on_to_the_driver_alone(application: ApplicationUnderTest) -> None:
    query = OfflineRun(request_id="r", epoch=1, request=None)
    desired = DesiredAssignments(assignments=(), offline=(query,), backfills=("c",), turn=1)
    application.application.turn(desired)
    application.application.turn(None)

    assert application.requests == [desired]
    for one in application.instances.values():
        (line,) = one.all[0].sent
        assert (parse_desired(line).offline, parse_desired(line).backfills) == ((), ())


def test_an_application_ends_when_the_loop_of_its_queries_fails(
    application: ApplicationUnderTest,
) -> None:
    application.carrier.is_broken = True

    with pytest.raises(LoopEndedError, match="the carrier is broken"):
        application.wait_for(lambda _message: False)


def test_a_slow_start_of_a_query_delays_no_task(application: ApplicationUnderTest) -> None:
    application.carrier.may_advance.clear()
    application.assign(*ALL)
    report = Report(asset_id=INDEX, epoch=1, generation=1, phase="caught_up")
    application.instances[INDEX_WRITER].all[0].say(report)
    application.wait_for(lambda message: message == report)
    nothing_ran = application.running == []
    application.carrier.may_advance.set()

    assert nothing_ran


def test_an_application_ends_when_spark_has_stopped(application: ApplicationUnderTest) -> None:
    application.is_stopped = True

    with pytest.raises(SparkStoppedError):
        application.assign(*ALL)
