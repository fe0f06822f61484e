"""The driver process: one Spark driver that runs the jobs its supervisor assigns.

The supervisor starts it as `python -m narthex_spark_apps.jobs.driver`.
It ends its whole process group when the supervisor is gone, because the JVM would outlive it.
"""

import sys
import threading
import time

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from narthex._base import Json
from narthex._ir import PipelineJobSpec, Trigger
from narthex._runtime.workers import WorkerPool
from narthex.errors import NarthexError
from narthex.settings import Settings, load_settings
from narthex_spark_apps.jobs.live_job import LiveJob
from narthex_spark_apps.jobs.start import input_broker, input_topics
from narthex_spark_apps.offline.queries import answer_query, parse_query
from narthex_spark_apps.platform.kafka_io import interval_s
from narthex_spark_apps.platform.log_consumer import BrokerEnds
from narthex_spark_apps.platform.session import open_session
from narthex_spark_apps.supervision.child_messages import (
    DesiredAssignments,
    Inbox,
    OfflineReport,
    OfflineRun,
    RunningJobs,
    end_process_group,
    send,
)
from narthex_stores import StoreError

log = structlog.get_logger()

TURN_S = 0.2
REPORT_EVERY_S = 1.0
LENGTHEN_EVERY_S = 1.0
"""Time between two restarts with longer intervals: jobs restart one at a time."""


class Driver:
    """All jobs of this process and the Spark session that they share."""

    def __init__(self, settings: Settings, session: SparkSession) -> None:
        """Prepare a driver without jobs."""
        self._settings = settings
        self._session = session
        self._jobs: dict[int, LiveJob] = {}
        self._stopping: list[LiveJob] = []
        self._turn = 0
        self._ends = BrokerEnds()
        self._offline: set[str] = set()
        self._lengthened_at = float("-inf")

    def assign(self, desired: DesiredAssignments) -> None:
        """Adopt the desired set of jobs; a new epoch is a new run."""
        self._turn = desired.turn
        wanted = {a.asset.asset_id: a for a in desired.assignments}
        for asset_id, job in list(self._jobs.items()):
            found = wanted.get(asset_id)
            if found is None or found.epoch != job.assignment.epoch:
                del self._jobs[asset_id]
                job.stop()
                self._stopping.append(job)
                if found is None:
                    self._ends.forget(asset_id)
            else:
                job.assign(found)
        for asset_id, assignment in wanted.items():
            if asset_id not in self._jobs:
                broker = input_broker(assignment.asset, self._settings)
                ends = self._ends.watch(asset_id, broker, input_topics(assignment.asset))
                before = tuple(j for j in self._stopping if j.assignment.asset.asset_id == asset_id)
                self._jobs[asset_id] = LiveJob.of(
                    assignment, self._session, self._settings, ends, after=before
                )
        for run in desired.offline:
            self._answer(run)

    def reconcile(self) -> None:
        """Start desired jobs that do not run; the number of jobs sets their intervals."""
        count = sum(map(_is_in_real_time, self._jobs.values()))
        wanted_s = {asset_id: interval_s(count, asset_id) for asset_id in self._jobs}
        for asset_id, job in self._jobs.items():
            job.reconcile(interval_s=wanted_s[asset_id])
        now = time.monotonic()
        if now - self._lengthened_at >= LENGTHEN_EVERY_S:
            jobs = self._jobs.items()
            short = next((job for number, job in jobs if job.is_short(wanted_s[number])), None)
            if short is not None:
                short.start_again()
                self._lengthened_at = now

    def report(self) -> None:
        """Report the running jobs and their states to the supervisor."""
        self._stopping = [job for job in self._stopping if job.is_running]
        ours = {job.assignment.asset.asset_id for job in (*self._jobs.values(), *self._stopping)}
        send(RunningJobs(turn=self._turn, assets=tuple(sorted(ours))))
        for job in self._jobs.values():
            send(job.report())

    def _answer(self, run: OfflineRun) -> None:
        if run.request_id in self._offline:
            return
        self._offline.add(run.request_id)
        threading.Thread(
            target=self._answer_now, args=(run,), name=f"offline-{run.request_id}", daemon=True
        ).start()

    def _answer_now(self, run: OfflineRun) -> None:
        def said(progress: dict[str, Json]) -> None:
            send(_offline(run, "running", progress))

        said({})
        try:
            query = parse_query(run.request, self._settings.offline_directory(run.request_id))
            with WorkerPool(size=1) as workers:
                rows = answer_query(self._session, query, workers=workers, progress=said)
        except (
            NarthexError,
            PySparkException,
            StoreError,
            OSError,
            ValueError,
            TypeError,
            KeyError,
        ) as error:
            log.warning("offline_query_failed", request_id=run.request_id, error=str(error))
            send(_offline(run, "failed", {}, error=str(error)))
        else:
            send(_offline(run, "done", {"rows": rows}))


def _is_in_real_time(job: LiveJob) -> bool:
    spec = job.assignment.asset.spec
    return isinstance(spec, PipelineJobSpec) and spec.trigger is Trigger.REAL_TIME


def _offline(
    run: OfflineRun, state: str, progress: dict[str, Json], *, error: str | None = None
) -> OfflineReport:
    return OfflineReport(
        request_id=run.request_id, epoch=run.epoch, state=state, progress=progress, error=error
    )


def main() -> None:
    """Run until the supervisor is gone."""
    settings = load_settings()
    inbox = Inbox(sys.stdin, gone=end_process_group)
    driver = Driver(settings, open_session(settings, name="narthex"))
    reported = time.monotonic()
    while True:
        desired = inbox.newest(wait_s=TURN_S)
        if desired is not None:
            driver.assign(desired)
        driver.reconcile()
        if time.monotonic() - reported >= REPORT_EVERY_S:
            driver.report()
            reported = time.monotonic()


if __name__ == "__main__":
    main()
