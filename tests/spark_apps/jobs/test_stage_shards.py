"""The shards of one live stage: each reads, commits and fences its own partitions alone."""

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from narthex._base.origin import Origin
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import PipelineInput, Trigger
from narthex._ir.code import UserCode
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.operators import AssignCode, DatasetRef
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Int
from narthex.settings import Settings
from narthex_spark_apps.jobs.stage_offsets import group_of
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_stores import EndOffsetReader, LogReader
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

pytestmark = [pytest.mark.kafka]

SHARDS = 3
ROWS = 30
WITHIN_S = 60.0
CLICKS = Schema(
    (
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
LOG = spark_jobs.log_of(CLICKS)
TWICE = UserCode(
    entry="step",
    source="step = (lambda df: df['n'] * 2)\n",
    python="3.11",
    origin=Origin(file="features.py", line=7),
)


def job_of(log: Log) -> PipelineJob:
    return spark_jobs.pipeline_job(
        AssignCode(DatasetRef("Clicks"), Column("twice", Int()), TWICE),
        inputs=(PipelineInput(dataset="Clicks", log=LOG, schema=CLICKS),),
        schema=Schema((*CLICKS.fields, Field(name="twice", type=Int()))),
        needs=(
            spark_jobs.topic_need("input:Clicks", log.topic("clicks", partitions=SHARDS)),
            spark_jobs.topic_need("output", log.topic("out")),
            spark_jobs.topic_need("quarantine", log.topic("quarantine")),
            spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
        ),
        trigger=Trigger.STAGE,
    )


def send(log: Log, job: PipelineJob, numbers: range) -> None:
    codec = fact_codec(LOG)
    for number in numbers:
        click = Fact(
            row_id=RowId(position("webhook:a/b", 0, number, 0)),
            version=Version(b"\x00"),
            event_time=1_357_000_000_000_000 + number,
            key=(),
            values=(number,),
        )
        log.send(job.input_topic, codec.encode(click), key=f"{number}".encode())


def run_all(log: Log, job: PipelineJob, platform: Settings, epochs: tuple[int, ...]) -> None:
    """Run all shards at once, each under its epoch, until each has read its partition."""
    ends = EndOffsetReader(log.bootstrap).ends([job.input_topic])[job.input_topic]
    assert all(ends[shard] > 0 for shard in range(SHARDS))
    with ExitStack() as stack:
        shards = [
            stack.enter_context(
                spark_jobs.live(job, platform, epoch=epoch, shard=shard, shards=SHARDS)
            )
            for shard, epoch in enumerate(epochs)
        ]
        for shard, running in enumerate(shards):
            report = spark_jobs.wait_caught_up(running, ends[shard])
            assert report.progress["offsets"] == {job.input_topic: {str(shard): ends[shard]}}


def committed(job: PipelineJob, platform: Settings) -> dict[int, tuple[int, int]]:
    """Return the committed offset of each partition, and the epoch that committed it."""
    with LogReader(platform.kafka, group=group_of(job.asset)) as reader:
        places = [(job.input_topic, partition) for partition in range(SHARDS)]
        stored = reader.group_offsets.read(places)
    return {
        partition: (offset.offset, json.loads(offset.note)["epoch"])
        for (_, partition), offset in stored.items()
    }


def written(log: Log, job: PipelineJob, count: int) -> Counter[object]:
    values = [value for _, value in log.records(job.output, count=count)]
    return Counter(fact.values for fact in fact_codec(job.spec.log).decode_many(values))


def test_each_shard_continues_from_its_own_partition_under_its_own_epoch(
    log: Log, platform: Settings
) -> None:
    job = job_of(log)
    send(log, job, range(ROWS))
    run_all(log, job, platform, epochs=(7, 1, 3))
    first = committed(job, platform)
    send(log, job, range(ROWS, 2 * ROWS))
    run_all(log, job, platform, epochs=(7, 4, 3))
    second = committed(job, platform)

    assert {partition: epoch for partition, (_, epoch) in first.items()} == {0: 7, 1: 1, 2: 3}
    assert {partition: epoch for partition, (_, epoch) in second.items()} == {0: 7, 1: 4, 2: 3}
    assert sum(offset for offset, _ in first.values()) == ROWS
    assert sum(offset for offset, _ in second.values()) == 2 * ROWS
    assert written(log, job, 2 * ROWS) == Counter((n, 2 * n) for n in range(2 * ROWS))


def test_an_earlier_owner_of_a_shard_is_refused_and_changes_no_offset(
    log: Log, platform: Settings
) -> None:
    job = job_of(log)
    send(log, job, range(ROWS))
    run_all(log, job, platform, epochs=(2, 5, 2))
    before = committed(job, platform)

    with spark_jobs.live(job, platform, epoch=4, shard=1, shards=SHARDS) as older:
        spark_jobs.wait_until(
            lambda: "epoch 4 must stop" in str(older.report().progress.get("error")),
            within_s=WITHIN_S,
        )
    with spark_jobs.live(job, platform, epoch=4, shard=2, shards=SHARDS) as newer:
        spark_jobs.wait_caught_up(newer, before[2][0])

    assert committed(job, platform) == {**before, 2: (before[2][0], 4)}
