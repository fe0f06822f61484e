"""A driver stops the offline queries that it should not answer any more."""

import threading
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

import attrs
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from narthex._base import to_plain
from narthex._sdk.commit_definitions import definitions
from narthex.featuresets import extractor, featureset
from narthex.lib import inputs, outputs
from narthex.settings import OFFLINE_SPINE, Settings
from narthex_spark_apps.jobs import carried_requests
from narthex_spark_apps.jobs.requests import Requests, Stop
from narthex_spark_apps.supervision.runner.lease_inbox import Send
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    OfflineReport,
    OfflineRun,
    RunnerMessage,
)
from tests.spark_apps.spark_jobs import wait_until

pytestmark = pytest.mark.spark

WITHIN_S = 60.0
BUSY_S = 2.0
RUN = OfflineRun(request_id="r", epoch=1, request="count")
WANTED = DesiredAssignments(assignments=(), offline=(RUN,))
IDLE = DesiredAssignments(assignments=())


def count_for_ever(
    run: OfflineRun, _settings: Settings, session: SparkSession, send: Send, _stop: Stop
) -> None:
    """Run a Spark job that takes days; report its start and its end."""
    send(report(run, "running"))
    session.range(10**15).selectExpr("sum(id)").collect()
    send(report(run, "done"))


def count_once_stopped(
    run: OfflineRun, _settings: Settings, session: SparkSession, send: Send, stop: Stop
) -> None:
    """Begin a Spark job that takes days when the run has to stop already."""
    send(report(run, "running"))
    asked = threading.Event()
    stop.then(asked.set)
    assert asked.wait(WITHIN_S)
    session.range(10**15).selectExpr("sum(id)").collect()
    send(report(run, "done"))


def report_twice(
    run: OfflineRun, _settings: Settings, _session: SparkSession, send: Send, _stop: Stop
) -> None:
    """Report the start and the end."""
    send(report(run, "running"))
    send(report(run, "done"))


def count_or_report(
    run: OfflineRun, settings: Settings, session: SparkSession, send: Send, stop: Stop
) -> None:
    """Count for ever, or report, as the request asks for."""
    does = count_for_ever if run.request == "count" else report_twice
    does(run, settings, session, send, stop)


def report(run: OfflineRun, state: str) -> OfflineReport:
    return OfflineReport(request_id=run.request_id, epoch=run.epoch, state=state)


@attrs.frozen
class Reports:
    """The states that were reported; the driver waits in its reports until it may go on."""

    states: list[str] = attrs.field(factory=list)
    arrived: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    may_go_on: threading.Event = attrs.field(factory=threading.Event)

    def take(self, message: RunnerMessage) -> None:
        assert isinstance(message, OfflineReport)
        self.states.append(message.state)
        self.arrived.release()
        assert self.may_go_on.wait(WITHIN_S)

    def wait(self) -> None:
        assert self.arrived.acquire(timeout=WITHIN_S)


def requests_of(
    settings: Settings, session: SparkSession, reports: Reports, answer: Callable[..., None]
) -> Requests:
    name = f"{__name__}:{answer.__name__}"
    return Requests(settings, session, reports.take, answer=name)


def wait_until_ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "request":
            thread.join(WITHIN_S)
            assert not thread.is_alive()


def test_a_query_that_is_not_assigned_any_more_sends_nothing_more(
    spark: SparkSession, settings_of: Settings
) -> None:
    reports = Reports()
    requests = requests_of(settings_of, spark, reports, report_twice)

    requests(WANTED)
    reports.wait()
    requests(IDLE)
    reports.may_go_on.set()
    wait_until_ended()

    assert reports.states == ["running"]


def test_a_query_that_is_assigned_again_begins_after_its_previous_run(
    spark: SparkSession, settings_of: Settings
) -> None:
    reports = Reports()
    requests = requests_of(settings_of, spark, reports, report_twice)

    requests(WANTED)
    requests(WANTED)
    reports.wait()
    requests(IDLE)
    requests(WANTED)
    assert reports.states == ["running"]
    reports.may_go_on.set()
    wait_until_ended()

    assert reports.states == ["running", "running", "done"]


def test_the_spark_jobs_of_a_stopped_query_are_cancelled(
    spark: SparkSession, settings_of: Settings
) -> None:
    reports = Reports()
    reports.may_go_on.set()
    requests = requests_of(settings_of, spark, reports, count_for_ever)
    tracker = spark.sparkContext.statusTracker()

    requests(WANTED)
    reports.wait()
    wait_until(lambda: bool(tracker.getActiveJobsIds()), within_s=WITHIN_S)
    requests(IDLE)
    wait_until_ended()

    assert reports.states == ["running"]


def test_a_spark_job_that_begins_when_its_query_is_stopped_does_not_run(
    spark: SparkSession, settings_of: Settings
) -> None:
    reports = Reports()
    reports.may_go_on.set()
    requests = requests_of(settings_of, spark, reports, count_once_stopped)

    requests(WANTED)
    reports.wait()
    requests(IDLE)
    wait_until_ended()

    assert reports.states == ["running"]


def test_queries_run_beside_each_other_and_one_of_them_is_stopped(
    spark: SparkSession, settings_of: Settings
) -> None:
    reports = Reports()
    reports.may_go_on.set()
    requests = requests_of(settings_of, spark, reports, count_or_report)
    endless, other = RUN, OfflineRun(request_id="other", epoch=1, request="report")

    requests(DesiredAssignments(assignments=(), offline=(endless,)))
    reports.wait()
    requests(DesiredAssignments(assignments=(), offline=(endless, other)))
    reports.wait()
    reports.wait()
    requests(IDLE)
    wait_until_ended()

    assert reports.states == ["running", "running", "done"]


@featureset
class Loop:
    """An extractor that does not return."""

    id: int
    never: int

    @extractor
    @inputs("id")
    @outputs("never")
    def for_ever(cls, ts: pd.Series, ids: pd.Series) -> pd.Series:  # noqa: N805
        while True:
            len(ids) + len(ts)


def busy_descendants() -> set[psutil.Process]:
    """Return the processes that began below this one and have computed for more than a second."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.name() != "java" and process.cpu_times().user > BUSY_S:
                found.add(process)
    return found


def test_the_worker_of_a_stopped_query_is_killed(
    spark: SparkSession, settings_of: Settings
) -> None:
    run = OfflineRun(
        request_id=str(UUID(int=7)),
        epoch=1,
        request={
            "definitions": to_plain(definitions([], [Loop])),
            "inputs": ["Loop.id"],
            "outputs": ["Loop.never"],
            "timestamp_column": "at",
            "offsets_column": None,
            "datasets": {},
        },
    )
    directory = settings_of.offline_directory(run.request_id)
    directory.mkdir(parents=True)
    at = pa.array(["2026-01-01T00:00:00Z"])
    pq.write_table(pa.table({"Loop.id": [1], "at": at}), directory / OFFLINE_SPINE)
    reports = Reports()
    reports.may_go_on.set()
    requests = Requests(settings_of, spark, reports.take)
    before = busy_descendants()

    requests(DesiredAssignments(assignments=(), offline=(run,)))
    wait_until(lambda: bool(busy_descendants() - before), within_s=WITHIN_S)
    workers = busy_descendants() - before
    requests(IDLE)

    # A call that is not stopped takes 30 s.
    wait_until(lambda: not workers & busy_descendants(), within_s=15.0)
    wait_until_ended()
    assert set(reports.states) == {"running"}


def test_a_query_that_fails_for_any_reason_is_reported(
    spark: SparkSession, settings_of: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [ValueError("no such column"), ZeroDivisionError("division by zero")]

    def fail(*_given: object, **_named: object) -> None:
        raise failures.pop(0)

    monkeypatch.setattr(carried_requests, "parse_query", fail)
    reports: list[OfflineReport] = []

    def take(message: RunnerMessage) -> None:
        assert isinstance(message, OfflineReport)
        reports.append(message)

    for _ in range(2):
        carried_requests.answer(RUN, settings_of, spark, take, Stop())

    assert [one.state for one in reports] == ["running", "failed"] * 2
    assert [one.error for one in reports if one.error] == [
        "no such column",
        "ZeroDivisionError: division by zero",
    ]
