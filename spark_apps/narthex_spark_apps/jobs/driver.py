"""The driver process: one Spark application that runs the jobs its supervisor assigns.

`driver_start` is its command, which starts the JVM and then calls `main`. `Driver` carries out the
jobs that are streaming queries; `application` adds the standing tasks. The process ends with its
whole process group when the supervisor is gone, because the JVM would outlive it.
"""

import time
from collections.abc import Iterable, Mapping

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from narthex._ir import PipelineJobSpec, Trigger
from narthex.errors import NarthexError
from narthex.settings import Settings
from narthex_spark_apps.jobs.application import Application, standing_tasks
from narthex_spark_apps.jobs.engine_watch import EngineWatch, ExecutorWatch
from narthex_spark_apps.jobs.live_job import LiveJob, QueryFailedError
from narthex_spark_apps.jobs.requests import Requests
from narthex_spark_apps.jobs.start import NotRunnableError, input_broker, input_topics
from narthex_spark_apps.platform.kafka_io import CROWDED_JOBS, interval_s, planning_share
from narthex_spark_apps.platform.log_consumer import BrokerEnds
from narthex_spark_apps.platform.session import open_session
from narthex_spark_apps.supervision.runner import Ended, Inbox, JobLoop, Progress, attempt
from narthex_spark_apps.supervision.runner.process_runner import send, serve
from narthex_spark_apps.supervision.runner_messages import ShardId, WorkAssignment

log = structlog.get_logger()

LENGTHEN_EVERY_S = 1.0
"""Time between two restarts with longer intervals: jobs restart one at a time."""


class Driver:
    """The streaming queries of this process on the Spark session that they share."""

    turn_s = 0.2
    expected = (PySparkException, NarthexError, NotRunnableError, QueryFailedError, OSError)

    def __init__(self, settings: Settings, session: SparkSession) -> None:
        """Prepare a driver without jobs."""
        self._settings = settings
        self._session = session
        self._ends = BrokerEnds()
        self._in_real_time = 0
        self._lengthened_at = float("-inf")

    def adopt(self, desired: Mapping[ShardId, WorkAssignment], /) -> None:
        """Count the real-time jobs: their number sets the length of their intervals."""
        before = self._in_real_time
        self._in_real_time = jobs = sum(map(_is_in_real_time, desired.values()))
        if jobs > max(before, CROWDED_JOBS):
            log.warning(
                "driver_crowded",
                jobs=jobs,
                planning_cpus=round(planning_share(jobs), 2),
                remedy="start another supervisor: it takes over a share of the slots",
            )
        self._ends.retain(desired)

    def start(self, assignment: WorkAssignment, progress: Progress) -> LiveJob:
        """Start the query of a job, or its reader of files."""
        asset = assignment.asset
        progress.topics = input_topics(asset)
        broker = input_broker(asset, self._settings)
        progress.ends = self._ends.watch(assignment.shard_id, broker, progress.topics)
        return LiveJob.start(
            assignment,
            progress,
            self._session,
            self._settings,
            interval_s=self._interval_s(asset.asset_id),
        )

    def advance(self, runs: Mapping[ShardId, LiveJob]) -> Iterable[Ended]:
        """Read files, notice failed queries, and restart a query whose intervals are too short."""
        ended = [end for shard_id, run in runs.items() for end in attempt(shard_id, run.advance)]
        failed = {end.shard_id for end in ended}
        now = time.monotonic()
        if now - self._lengthened_at < LENGTHEN_EVERY_S:
            return ended
        for shard_id, run in runs.items():
            if shard_id not in failed and run.is_short(self._interval_s(shard_id.asset_id)):
                self._lengthened_at = now
                return [*ended, Ended(shard_id)]
        return ended

    def _interval_s(self, asset_id: int) -> int:
        return interval_s(self._in_real_time, asset_id)


def _is_in_real_time(assignment: WorkAssignment) -> bool:
    spec = assignment.asset.spec
    return isinstance(spec, PipelineJobSpec) and spec.trigger is Trigger.REAL_TIME


def _make_application(settings: Settings, inbox: Inbox) -> Application:
    session = open_session(settings, name="narthex")
    driver = Driver(settings, session)
    context = session.sparkContext
    executors = None if settings.has_local_spark else ExecutorWatch()
    return Application(
        standing_tasks(context, settings),
        inbox=inbox,
        send=send,
        make_queries=lambda to: JobLoop(driver, to),
        requests=Requests(settings, session, send),
        require_engine=EngineWatch(context, send, executors).check,
    )


def main() -> None:
    """Run until the supervisor is gone."""
    serve(_make_application)
