"""A live job of the driver: how long its intervals are, and where it goes on."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import PipelineInput, Trigger
from narthex._ir.entities import Csv, Files
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.operators import DatasetRef, Drop
from narthex._ir.schema import Field, Role, Schema
from narthex._ir.types import Datetime, Int, Str
from narthex.settings import Settings
from narthex_spark_apps.jobs.driver import Driver
from narthex_spark_apps.jobs.live_job import (
    OBSERVE_EVERY_S,
    LiveJob,
    committed_offsets,
    discard_unfinished,
)
from narthex_spark_apps.jobs.start import checkpoint_of
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.kafka_io import (
    CROWDED_JOBS,
    LONGEST_S,
    PLANNING_CPU_S,
    REAL_TIME_S,
    interval_s,
    planning_share,
)
from narthex_spark_apps.platform.log_consumer import LogEnds
from narthex_spark_apps.supervision.runner import JobLoop, Progress
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    Report,
    RunnerMessage,
    RunningJobs,
    WorkAssignment,
)
from narthex_stores import Broker
from tests.spark_apps.conftest import Log
from tests.spark_apps.spark_jobs import (
    checkpoint_need,
    log_of,
    pipeline_job,
    source_job,
    topic_need,
    wait_until,
)

CLICKS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
LONG_S = 60
WITHIN_S = 120.0


@pytest.fixture
def job(log: Log) -> PipelineJob:
    """A job with three rows before it."""
    found = clicks_without_number(log)
    send(log, found, 0, 3)
    return found


@pytest.fixture
def ends(platform: Settings, job: PipelineJob) -> Iterator[LogEnds]:
    """Ask how far the job's topic reaches, until the test ends."""
    found = LogEnds(Broker(bootstrap=platform.kafka))
    found.watch([job.input_topic])
    yield found
    found.close()


def test_few_jobs_have_short_intervals_and_many_plan_for_a_fixed_share_of_a_processor() -> None:
    assert {interval_s(jobs, number) for jobs in (0, 1, 2) for number in range(50)} == {REAL_TIME_S}
    for jobs in (50, 100, CROWDED_JOBS):
        lengths = [interval_s(jobs, number) for number in range(jobs)]
        planned_a_second = sum(1 / length for length in lengths)
        assert 0.4 < planned_a_second < 0.45
        assert planning_share(jobs) == pytest.approx(0.08)


def test_intervals_of_very_many_jobs_stay_short_and_planning_takes_what_it_needs() -> None:
    lengths = [interval_s(625, number) for number in range(625)]

    assert max(lengths) <= 1.4 * LONGEST_S
    planned_a_second = sum(1 / length for length in lengths)
    assert planning_share(625) == pytest.approx(PLANNING_CPU_S * planned_a_second, rel=0.1)


@pytest.mark.parametrize(
    ("files", "is_discarded"),
    [
        ((), False),
        (("metadata", "sources/0/0"), True),
        (("metadata", "sources/0/0", "commits/.0.4dae9318.tmp"), True),
        (("metadata", "sources/0/0", "commits/0"), True),
        (("metadata", "sources/0/0", "offsets/0"), False),
        (("metadata", "sources/0/0", "offsets/0", "commits/.0.4dae9318.tmp"), False),
        (("metadata", "sources/0/0", "offsets/0", "commits/0"), False),
    ],
)
def test_a_checkpoint_without_offsets_is_discarded(
    tmp_path: Path, files: tuple[str, ...], is_discarded: bool
) -> None:
    checkpoint = tmp_path / "live"
    write_files(checkpoint, *files)

    discard_unfinished(checkpoint)

    assert checkpoint.exists() == (bool(files) and not is_discarded)


def write_files(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1")


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.spark
def test_a_job_that_was_killed_at_the_end_of_its_first_interval_starts_again(
    spark: SparkSession, platform: Settings, job: PipelineJob, ends: LogEnds, log: Log
) -> None:
    checkpoint = checkpoint_of(job.asset, platform) / "live"
    write_files(checkpoint, "commits/.0.4dae9318-52c3.tmp", "commits/..0.4dae9318-52c3.tmp.crc")
    progress = progress_of(job, ends)

    live = LiveJob.start(
        WorkAssignment(asset=job.asset, epoch=1, generation=1), progress, spark, platform
    )
    work_until(live, progress, lambda: committed_offsets(checkpoint) is not None)
    rows = log.records(job.output, count=3, distinct=True)
    live.stop()
    wait_until(lambda: live.is_over, within_s=WITHIN_S)

    assert len(set(rows)) == 3


def test_jobs_that_began_together_do_not_end_together() -> None:
    lengths = sorted(interval_s(50, number) for number in range(1000, 1050))

    assert (lengths[0], lengths[-1]) == (76, 174)
    assert max(after - before for before, after in itertools.pairwise(lengths)) <= 4


@pytest.mark.parametrize(("every_us", "every_s"), [(None, 5.0), (90_000_000, 90.0)])
def test_files_are_listed_at_the_interval_of_the_source(
    tmp_path: Path, every_us: int | None, every_s: float
) -> None:
    files = Files(name="f", path="orders/*.csv", format=Csv())
    source = source_job(files, needs=(), trigger=Trigger.MICRO_BATCH, every_us=every_us)
    assignment = WorkAssignment(asset=source.asset, epoch=1, generation=1)

    live = LiveJob(assignment, Progress(), session=None, checkpoint=tmp_path)

    assert live.files_every_s == every_s


def test_an_empty_checkpoint_has_no_offsets(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"clicks":{"0":3}}')

    assert committed_offsets(tmp_path) is None


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.spark
def test_a_job_continues_from_its_commit_with_longer_intervals(
    log: Log, spark: SparkSession, platform: Settings, job: PipelineJob, ends: LogEnds
) -> None:
    progress = progress_of(job, ends)
    assignment = WorkAssignment(asset=job.asset, epoch=1, generation=1)
    first = LiveJob.start(assignment, progress, spark, platform, interval_s=LONG_S)
    work_until(first, progress, lambda: first.is_short(LONG_S))
    committed = committed_offsets(checkpoint_of(job.asset, platform) / "live")
    read = progress.read
    first.stop()
    wait_until(lambda: first.is_over, within_s=WITHIN_S)

    second = LiveJob.start(assignment, progress, spark, platform, interval_s=LONG_S)
    assert not second.is_short(LONG_S)
    send(log, job, 3, 2)
    rows = log.records(job.output, count=5, distinct=True)
    report = progress.report(assignment)
    second.stop()
    wait_until(lambda: second.is_over, within_s=WITHIN_S)

    assert committed == read == {job.input_topic: {0: 3}}
    assert len(set(rows)) == 5
    assert (first.interval_s, second.interval_s) == (REAL_TIME_S, LONG_S)
    assert progress.stale_s == LONG_S + OBSERVE_EVERY_S
    assert report.progress["offsets"] == {job.input_topic: {"0": 3}}


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.spark
def test_a_returned_job_starts_after_its_previous_run_ends(
    log: Log, spark: SparkSession, platform: Settings, job: PipelineJob
) -> None:
    sent: list[RunnerMessage] = []
    loop = JobLoop(Driver(platform, spark), send=sent.append)

    def turn_until(happens: Callable[[Report], bool]) -> Report:
        def has_happened() -> bool:
            loop.turn(None)
            sent.clear()
            loop.report()
            return any(isinstance(message, Report) and happens(message) for message in sent)

        wait_until(has_happened, within_s=WITHIN_S, so_far=sent)
        return next(message for message in sent if isinstance(message, Report))

    loop.turn(desired(WorkAssignment(asset=job.asset, epoch=1, generation=1)))
    turn_until(lambda report: report.phase == "caught_up")
    loop.turn(desired(WorkAssignment(asset=job.asset, epoch=2, generation=1)))
    send(log, job, 3, 2)
    report = turn_until(lambda report: report.phase == "caught_up" and report.epoch == 2)
    rows = log.records(job.output, count=5, distinct=True)
    loop.turn(desired())

    def is_stopped() -> bool:
        loop.turn(None)
        sent.clear()
        loop.report()
        return sent == [RunningJobs(turn=0, shards=())]

    wait_until(is_stopped, within_s=WITHIN_S)
    assert len(set(rows)) == 5
    assert report.progress["restarts"] == 0


def desired(*assignments: WorkAssignment) -> DesiredAssignments:
    return DesiredAssignments(assignments=assignments)


def progress_of(job: PipelineJob, ends: LogEnds) -> Progress:
    return Progress(topics=(job.input_topic,), ends=ends)


def clicks_without_number(log: Log) -> PipelineJob:
    return pipeline_job(
        Drop(DatasetRef("Clicks"), ("n",)),
        inputs=(PipelineInput(dataset="Clicks", log=log_of(CLICKS), schema=CLICKS),),
        schema=Schema(tuple(one for one in CLICKS.fields if one.name != "n")),
        needs=(
            topic_need("input:Clicks", log.topic("clicks"), log=log_of(CLICKS)),
            topic_need("output", log.topic("out")),
            checkpoint_need(Path(log.topic("checkpoint"))),
        ),
    )


def send(log: Log, job: PipelineJob, first: int, count: int) -> None:
    codec = fact_codec(log_of(CLICKS))
    for number in range(first, first + count):
        fact = Fact(
            row_id=RowId(position("webhook:a/b", 0, number)),
            version=Version(b"\x00"),
            event_time=1_357_000_000_000_000 + number,
            key=(),
            values=(f"who {number}", number),
        )
        log.send(job.input_topic, codec.encode(fact))


def work_until(live: LiveJob, progress: Progress, happens: Callable[[], bool]) -> None:
    """Let the job work, as the loop does, until something is true of it."""

    def has_happened() -> bool:
        live.advance()
        live.observe(progress)
        return happens()

    wait_until(has_happened, within_s=WITHIN_S)
