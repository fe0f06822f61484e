"""Author code that fails on some rows of a running job: those rows are set apart, others flow."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from narthex._base.origin import Origin
from narthex._base.records import Json
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import PipelineInput, Trigger
from narthex._ir.code import UserCode
from narthex._ir.facts import Cell, Fact, RowId, Version, position
from narthex._ir.operators import AssignCode, DatasetRef, Operator, Transform
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Int, Str
from narthex.errors import ArgumentsUnfit
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import start_query
from narthex_spark_apps.pipelines.join_stage import JoinStage
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_spark_apps.row_inspection.quarantine_replay import quarantined_rows, refuse_computed
from narthex_stores import Record
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

pytestmark = [pytest.mark.kafka]

T0 = 1_357_000_000_000_000
CLICKS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
LOG = spark_jobs.log_of(CLICKS)
SHARES = Schema((*CLICKS.fields, Field(name="share", type=Int())))


def code(text: str) -> UserCode:
    source = f"step = ({text})\n"
    here = Origin(file="features.py", line=7)
    return UserCode(entry="step", source=source, python="3.11", origin=here)


ASSIGNED = AssignCode(
    DatasetRef("Clicks"),
    Column("share", Int()),
    code("lambda df: df['n'].map(lambda n: 100 // n).astype('Int64')"),
)
TRANSFORMED = Transform(
    DatasetRef("Clicks"),
    (Column("who", Str()), Column("n", Int()), Column("share", Int())),
    code("lambda df: df.assign(share=df['n'].map(lambda n: 100 // n).astype('Int64'))"),
)
DIES = AssignCode(
    DatasetRef("Clicks"),
    Column("share", Int()),
    code("lambda df: df['n'] if df['n'].all() else __import__('os')._exit(9)"),
)


def click(offset: int, number: int) -> Fact:
    return Fact(
        row_id=RowId(position("webhook:a/b", 0, offset, 0)),
        version=Version(b"\x00"),
        event_time=T0 + offset,
        key=(),
        values=("ann", number),
    )


def job_of(log: Log, operators: Operator, trigger: Trigger = Trigger.STAGE) -> PipelineJob:
    return spark_jobs.pipeline_job(
        operators,
        inputs=(PipelineInput(dataset="Clicks", log=LOG, schema=CLICKS),),
        schema=SHARES,
        needs=(
            spark_jobs.topic_need("input:Clicks", log.topic("clicks")),
            spark_jobs.topic_need("output", log.topic("out")),
            spark_jobs.topic_need("quarantine", log.topic("quarantine")),
            spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
        ),
        trigger=trigger,
    )


def records_of(job: PipelineJob, *numbers: int) -> list[Record]:
    codec = fact_codec(LOG)
    return [
        Record(
            topic=job.input_topic,
            partition=0,
            offset=offset,
            key=b"k",
            value=codec.encode(click(offset, number)),
            timestamp_ms=0,
            headers=(),
        )
        for offset, number in enumerate(numbers)
    ]


def send(log: Log, job: PipelineJob, *numbers: int) -> None:
    for record in records_of(job, *numbers):
        log.send(job.input_topic, record.value or b"")


def written(log: Log, job: PipelineJob, count: int) -> list[tuple[Cell, ...]]:
    values = [value for _, value in log.records(job.output, count=count)]
    return [fact.values for fact in fact_codec(job.spec.log).decode_many(values)]


def set_apart(log: Log, job: PipelineJob, count: int) -> list[dict[str, Json]]:
    assert job.quarantine is not None
    found = log.records(job.quarantine, count=count)
    return [json.loads(value) for _, value in found]


@pytest.mark.parametrize(
    ("operators", "trigger", "step"),
    [
        (ASSIGNED, Trigger.STAGE, "`assign` of `share` in `Out.p`"),
        (TRANSFORMED, Trigger.STATEFUL, "`transform` of `Out.p`"),
    ],
)
def test_a_row_on_which_code_raises_blocks_no_other_row(
    operators: Operator, trigger: Trigger, step: str, log: Log, platform: Settings
) -> None:
    job = job_of(log, operators, trigger)
    (platform.checkpoint_dir / job.asset.need("checkpoint").physical_name).mkdir(parents=True)
    send(log, job, 1, 0, 4)

    with spark_jobs.live(job, platform) as running:
        report = spark_jobs.wait_caught_up(running, 3)

    assert report.progress["error"] is None
    assert report.progress["quarantined"] == 1
    assert written(log, job, 2) == [("ann", 1, 100), ("ann", 4, 25)]
    (apart,) = set_apart(log, job, 1)
    assert apart["pipeline"] == "Out.p"
    assert apart["step"] == step
    assert str(apart["reason"]).startswith(f"{step} failed: ZeroDivisionError: integer division")
    assert (apart["file"], apart["line"]) == ("features.py", 7)
    assert json.loads(str(apart["payload"])) == {
        "who": "ann",
        "n": 0,
        "at": "2013-01-01T00:26:40.000001Z",
    }


def test_a_row_on_which_code_ends_its_process_blocks_no_other_row(
    log: Log, platform: Settings
) -> None:
    job = job_of(log, DIES)
    send(log, job, 1, 0, 4)

    with spark_jobs.live(job, platform) as running:
        report = spark_jobs.wait_caught_up(running, 3)

    assert report.progress["error"] is None
    assert written(log, job, 2) == [("ann", 1, 1), ("ann", 4, 4)]
    assert "the worker was lost" in str(set_apart(log, job, 1)[0]["reason"])


def test_a_repeated_batch_adds_no_row_to_the_quarantine(log: Log, platform: Settings) -> None:
    job = job_of(log, ASSIGNED)
    for _ in range(2):
        stage = JoinStage(job, settings=platform)
        stage.take(records_of(job, 1, 0, 4))
        stage.close()

    assert len(set_apart(log, job, 2)) == 2
    (row,) = quarantined_rows(platform, str(job.quarantine))
    assert "ZeroDivisionError" in row.reason
    with pytest.raises(
        ArgumentsUnfit, match=r"1 of the rows failed in the pipeline `Out\.p`"
    ) as why:
        refuse_computed([row])
    assert why.value.origin == Origin(file="features.py", line=7)
    assert "raise the version of the dataset" in why.value.hint


@pytest.mark.spark
@pytest.mark.parametrize(
    ("operators", "trigger"),
    [(ASSIGNED, Trigger.STAGE), (TRANSFORMED, Trigger.STATEFUL)],
)
def test_a_backfill_sets_the_same_rows_apart(
    operators: Operator, trigger: Trigger, spark: SparkSession, log: Log, platform: Settings
) -> None:
    job = job_of(log, operators, trigger)
    (platform.checkpoint_dir / job.asset.need("checkpoint").physical_name).mkdir(parents=True)
    send(log, job, 1, 0, 4)

    start_query(spark, job.asset, settings=platform, bounded=True).awaitTermination()

    assert written(log, job, 2) == [("ann", 1, 100), ("ann", 4, 25)]
    (backfilled,) = set_apart(log, job, 1)
    with spark_jobs.live(job, platform, epoch=2) as running:
        spark_jobs.wait_caught_up(running, 3)
    assert json.loads(str(backfilled["payload"]))["n"] == 0
    assert len(quarantined_rows(platform, str(job.quarantine))) == 1
