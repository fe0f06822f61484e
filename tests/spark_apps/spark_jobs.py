"""Jobs for tests: resolved assets with topics of the test's own."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from narthex._analysis.fingerprints import source_id
from narthex._ir.assets import (
    AssetKind,
    CheckpointSpec,
    LogShape,
    LogSpec,
    PipelineInput,
    PipelineJobSpec,
    ResolvedAsset,
    ResolvedNeed,
    SourceJobSpec,
    TopicRole,
    TopicSpec,
    Trigger,
)
from narthex._ir.entities import Cdc, Connector, Preproc, Source, Where, WhereByCode
from narthex._ir.operators import Operator
from narthex._ir.schema import Field, Role, Schema
from narthex._ir.types import Between, DataType, Datetime, Float, Int, Optional, Str
from narthex.settings import Settings
from narthex_spark_apps.facts.column_types import spark_type
from narthex_spark_apps.jobs.stage_offsets import group_of
from narthex_spark_apps.jobs.stage_runner import StageJob, StageRunner
from narthex_spark_apps.jobs.start import input_broker
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.platform.kafka_io import JobRun
from narthex_spark_apps.sources.source_job import SourceJob, start_source
from narthex_spark_apps.supervision.runner import JobLoop
from narthex_spark_apps.supervision.runner_messages import (
    DesiredAssignments,
    Report,
    RunnerMessage,
    RunningJobs,
    WorkAssignment,
)

Work = Callable[[SourceJob, Settings, int], None]
"""Has a job drain so many records of its topic."""

ORDERS = Schema(
    (
        Field(name="id", type=Int(), role=Role.KEY),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        Field(name="who", type=Optional(Str())),
        Field(name="amount", type=Between(Float(), 0, 1000)),
    )
)


def log_of(schema: Schema) -> LogSpec:
    return LogSpec(
        shape=LogShape.KEYED if schema.keys else LogShape.ROWS,
        keys=schema.keys,
        values=schema.values,
        time_field=schema.timestamp,
    )


def topic_need(role: str, name: str, *, log: LogSpec | None = None) -> ResolvedNeed:
    spec = TopicSpec(role=TopicRole.DATASET, partitions=1, log=log)
    return ResolvedNeed(
        role=role, kind=AssetKind.KAFKA_TOPIC, asset_id=0, physical_name=name, spec=spec
    )


def checkpoint_need(directory: Path) -> ResolvedNeed:
    return ResolvedNeed(
        role="checkpoint",
        kind=AssetKind.CHECKPOINT,
        asset_id=0,
        physical_name=directory.name,
        spec=CheckpointSpec(job="00"),
    )


def source_job(  # noqa: PLR0913 (one parameter a part of the source)
    connector: Connector,
    *,
    needs: tuple[ResolvedNeed, ...],
    schema: Schema = ORDERS,
    preproc: tuple[tuple[str, Preproc], ...] = (),
    where: Where | WhereByCode | None = None,
    trigger: Trigger = Trigger.REAL_TIME,
    cdc: Cdc | None = None,
    disorder_us: int = 0,
    every_us: int | None = None,
) -> SourceJob:
    source = Source(
        connector=connector,
        disorder_us=disorder_us,
        every_us=every_us,
        cdc=cdc or (Cdc.UPSERT if schema.keys else Cdc.APPEND),
        preproc=preproc,
        where=where,
    )
    spec = SourceJobSpec(
        dataset="Orders",
        source_id=source_id(source),
        source=source,
        schema=schema,
        log=log_of(schema),
        trigger=trigger,
        reason="test",
    )
    return SourceJob(asset=_job(spec, needs), spec=spec)


def pipeline_job(
    operators: Operator,
    *,
    inputs: tuple[PipelineInput, ...],
    schema: Schema,
    needs: tuple[ResolvedNeed, ...],
    log: LogSpec | None = None,
    trigger: Trigger = Trigger.REAL_TIME,
) -> PipelineJob:
    spec = PipelineJobSpec(
        dataset="Out",
        pipeline="p",
        operators=operators,
        inputs=inputs,
        schema=schema,
        log=log or log_of(schema),
        trigger=trigger,
        reason="test",
    )
    return PipelineJob(asset=_job(spec, needs), spec=spec)


def _job(spec: SourceJobSpec | PipelineJobSpec, needs: tuple[ResolvedNeed, ...]) -> ResolvedAsset:
    return ResolvedAsset(
        asset_id=1,
        kind=AssetKind.STREAM_JOB,
        physical_name="nx_testtest_sj_x_i1",
        fingerprint=b"f" * 32,
        spec=spec,
        needs=needs,
    )


@attrs.define
class LoopUnderTest:
    """A loop with the stages of one job, which the test advances."""

    loop: JobLoop[StageJob]
    sent: list[RunnerMessage] = attrs.field(factory=list)

    def report(self) -> Report:
        """Let the job start, or start again; return its state."""
        self.sent.clear()
        self.loop.turn(None)
        self.loop.report()
        return next(message for message in reversed(self.sent) if isinstance(message, Report))

    def has_ended(self) -> bool:
        """Whether no run of the job is left."""
        self.sent.clear()
        self.loop.turn(None)
        self.loop.report()
        return self.sent[-1] == RunningJobs(turn=0, shards=())


@contextmanager
def live(
    job: SourceJob | PipelineJob,
    platform: Settings,
    *,
    epoch: int = 1,
    shard: int = 0,
    shards: int = 1,
) -> Iterator[LoopUnderTest]:
    """Run a job, or one of its shards, live, as the stage runner does."""
    with live_asset(job.asset, platform, epoch=epoch, shard=shard, shards=shards) as running:
        yield running


@contextmanager
def live_asset(
    asset: ResolvedAsset, platform: Settings, *, epoch: int = 1, shard: int = 0, shards: int = 1
) -> Iterator[LoopUnderTest]:
    """Run a job, or one of its shards, live by its asset."""
    assignment = WorkAssignment(asset=asset, epoch=epoch, generation=1, shard=shard, shards=shards)
    sent: list[RunnerMessage] = []
    running = LoopUnderTest(JobLoop(StageRunner(platform), send=sent.append), sent)
    running.loop.turn(DesiredAssignments(assignments=(assignment,)))
    try:
        yield running
    finally:
        running.loop.turn(DesiredAssignments(assignments=()))
        wait_until(running.has_ended, within_s=60.0)


def wait_until(happens: Callable[[], bool], *, within_s: float, so_far: object = "") -> None:
    """Poll until it is true; on timeout, the error contains `so_far`."""
    ends_at = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < ends_at, f"not within {within_s:g} s; {so_far}"
        time.sleep(0.02)


def wait_caught_up(running: LoopUnderTest, records: int) -> Report:
    """Wait until so many records of its topics are read."""
    ends_at = time.monotonic() + 60.0
    while time.monotonic() < ends_at:
        report = running.report()
        offsets = report.progress["offsets"]
        read = sum(o for ps in offsets.values() for o in ps.values())  # type: ignore[union-attr,misc]
        if report.phase == "caught_up" and read >= records:
            return report
        time.sleep(0.01)
    raise AssertionError(running.report())


def work_live(job: SourceJob, platform: Settings, records: int) -> None:
    """Work off so many records of a job's topic as the stage runner does."""
    with live(job, platform) as running:
        report = wait_caught_up(running, records)
    assert report.progress["error"] is None


def work_bounded(session: SparkSession, job: SourceJob, platform: Settings) -> None:
    """Work off all records of a job's topic as a backfill does."""
    path = platform.checkpoint_dir / "bounded"
    run = JobRun(name="bounded", trigger=Trigger.BOUNDED, checkpoint=str(path))
    reads = input_broker(job.asset, platform)
    start_source(session, job, settings=platform, run=run, reads=reads).awaitTermination()


def lose_positions(job: SourceJob, platform: Settings) -> None:
    """Delete the committed positions of a job, so that it reads all records again."""
    admin = AdminClient({"bootstrap.servers": platform.kafka})
    group = group_of(job.asset)
    admin.delete_consumer_groups([group], request_timeout=20.0)[group].result()


def without_checkpoints(platform: Settings) -> Settings:
    """Return an installation that has lost what its jobs remember."""
    return attrs.evolve(platform, checkpoint_dir=platform.checkpoint_dir.with_name("lost"))


def spark_schema(columns: dict[str, DataType]) -> StructType:
    """Return the Spark schema of named columns, all nullable."""
    return StructType([StructField(name, spark_type(of)) for name, of in columns.items()])
