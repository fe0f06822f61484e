"""Pipeline jobs, from dataset logs to a dataset log: expressions, user code's lane, joins."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import (
    AssetKind,
    IndexSpec,
    LogShape,
    LogSpec,
    PipelineInput,
    ResolvedNeed,
    Trigger,
)
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.facts import Fact, RowId, Version, position
from narthex._ir.operators import (
    Assign,
    Assignment,
    DatasetRef,
    Drop,
    Filter,
    Join,
    JoinHow,
    Latest,
    Operator,
    Rename,
)
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Int, Optional, Str
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import start_query
from narthex_spark_apps.pipelines import python_pipeline
from narthex_spark_apps.pipelines.spark_plan import PipelineJob
from narthex_stores import LmdbIndex, LmdbIndexStore
from tests.spark_apps import spark_jobs

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

T0 = 1_357_000_000_000_000
CLICKS = Schema(
    (
        Field(name="who", type=Str()),
        Field(name="n", type=Int()),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)
LOG = spark_jobs.log_of(CLICKS)


def click(offset: int, who: str, number: int, at: int) -> Fact:
    return Fact(
        row_id=RowId(position("webhook:a/b", 0, offset, 0)),
        version=Version(b"\x00"),
        event_time=T0 + at,
        key=(),
        values=(who, number),
    )


def clicks_input(*, correctable: bool = False) -> PipelineInput:
    return PipelineInput(dataset="Clicks", log=LOG, schema=CLICKS, correctable=correctable)


def send(log, topic: str, spec: LogSpec, facts: list[Fact]) -> None:  # noqa: ANN001
    codec = fact_codec(spec)
    for fact in facts:
        log.send(topic, codec.encode(fact), key=b"k")


def make_job(log, operators: Operator, schema: Schema, **other: object) -> PipelineJob:  # noqa: ANN001
    needs = (
        spark_jobs.topic_need("input:Clicks", log.topic("clicks")),
        spark_jobs.topic_need("output", log.topic("out")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    return spark_jobs.pipeline_job(
        operators, inputs=(clicks_input(),), schema=schema, needs=needs, **other
    )


def work_off(spark: SparkSession, job: PipelineJob, platform: Settings) -> None:
    start_query(spark, job.asset, settings=platform, bounded=True).awaitTermination()


def written(job: PipelineJob, log, count: int) -> list[Fact]:  # noqa: ANN001
    values = [value for _, value in log.records(job.output, count=count)]
    return fact_codec(job.spec.log).decode_many(values)


DOUBLED = Assignment("twice", Int(), Call("mul", (Ref("n"), Literal(2, Int()))))
BIG = Call("gt", (Ref("n"), Literal(1, Int())))


def test_expressions_keep_identities_and_leave_out_what_fails(
    spark: SparkSession,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    schema = Schema(
        (
            Field(name="name", type=Str()),
            Field(name="twice", type=Int()),
            Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        )
    )
    steps = Filter(DatasetRef("Clicks"), BIG)
    operators = Drop(Rename(Assign(steps, (DOUBLED,)), (("who", "name"),)), ("n",))
    job = make_job(log, operators, schema)
    facts = [click(0, "ann", 1, 0), click(1, "bob", 2, 1), click(2, "ann", 2**62, 2)]
    send(log, job.input_topic, LOG, [*facts, click(3, "cy", 5, 3)])

    work_off(spark, job, platform)

    # 2^62 twice exceeds 64 bits: a row without a required value is dropped.
    found = written(job, log, 2)
    assert [(fact.row_id, fact.values) for fact in found] == [
        (facts[1].row_id, ("bob", 4)),
        (click(3, "cy", 5, 3).row_id, ("cy", 10)),
    ]


def test_the_latest_row_of_a_group_is_keyed_by_the_group_and_ordered_by_the_source(
    spark: SparkSession,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    schema = Schema(
        (
            Field(name="who", type=Str(), role=Role.KEY),
            Field(name="n", type=Int()),
            Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        )
    )
    job = make_job(log, Latest(DatasetRef("Clicks"), ("who",)), schema)
    send(log, job.input_topic, LOG, [click(0, "ann", 1, 0), click(1, "ann", 2, 0)])

    work_off(spark, job, platform)

    first, second = written(job, log, 2)
    assert first.row_id == second.row_id == keyed_row_id(key_bytes(schema.keys, ("ann",)), T0)
    assert second.version > first.version


def test_an_expression_that_spark_cannot_render_is_computed(
    spark: SparkSession,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    schema = Schema(
        (
            Field(name="who", type=Str()),
            Field(name="text", type=Str()),
            Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        )
    )
    half = Call("div", (Ref("n"), Literal(2, Int())))
    text = Assignment("text", Str(), Call("num.to_string", (half,)))
    job = make_job(log, Drop(Assign(DatasetRef("Clicks"), (text,)), ("n",)), schema)
    send(log, job.input_topic, LOG, [click(0, "ann", 3, 0), click(1, "bob", 10**18, 0)])

    work_off(spark, job, platform)

    assert [fact.values for fact in written(job, log, 2)] == [("ann", "1.5"), ("bob", "5e+17")]


PEOPLE = LogSpec(
    shape=LogShape.KEYED,
    keys=(Column("who", Str()),),
    values=(Column("city", Str()),),
    time_field="since",
)
PEOPLE_SCHEMA = Schema(
    (
        Field(name="who", type=Str(), role=Role.KEY),
        Field(name="city", type=Str()),
        Field(name="since", type=Datetime(), role=Role.TIMESTAMP),
    )
)
JOINED = Schema((*CLICKS.fields, Field(name="city", type=Optional(Str()))))


def person(who: str, city: str, at: int, seen: int) -> Fact:
    return Fact(
        row_id=keyed_row_id(key_bytes(PEOPLE.keys, (who,)), T0 + at),
        version=Version(position("webhook:a/people", 0, seen, 0)),
        event_time=T0 + at,
        key=(who,),
        values=(city,),
    )


def index_need(role: str, name: str, spec: IndexSpec) -> ResolvedNeed:
    return ResolvedNeed(role=role, kind=AssetKind.INDEX, asset_id=0, physical_name=name, spec=spec)


def test_a_left_row_is_joined_as_of_its_instant_and_again_when_the_past_changes(
    platform: Settings,
    log,  # noqa: ANN001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right_spec, left_spec = IndexSpec(log=PEOPLE), IndexSpec(log=LOG, by=("who",))
    topics = {name: log.topic(name) for name in ("clicks", "joined", "touched", "people")}
    for name in (topics["people"], f"{topics['clicks']}_left"):
        (platform.index_dir / name).mkdir(parents=True)
    right = LmdbIndex(platform.index_dir / topics["people"], right_spec)
    left = LmdbIndex(platform.index_dir / f"{topics['clicks']}_left", left_spec)
    # LMDB opens an index once in a process, and here the writer shares the reader's process.
    for name, index in ((topics["people"], right), (f"{topics['clicks']}_left", left)):
        place = LmdbIndexStore(platform.index_dir), name
        monkeypatch.setitem(python_pipeline._OPEN, place, index)  # noqa: SLF001
    join = Join(
        DatasetRef("Clicks"),
        DatasetRef("People"),
        JoinHow.LEFT,
        (("who", "who"),),
        None,
        0,
        ("city",),
    )
    people = PipelineInput(dataset="People", log=PEOPLE, schema=PEOPLE_SCHEMA, correctable=False)
    job = spark_jobs.pipeline_job(
        join,
        inputs=(clicks_input(), people),
        schema=JOINED,
        trigger=Trigger.STAGE,
        needs=(
            spark_jobs.topic_need("input:Clicks", topics["clicks"]),
            spark_jobs.topic_need("output", topics["joined"]),
            spark_jobs.topic_need("touched:People", topics["touched"]),
            index_need("right:People", topics["people"], right_spec),
            index_need("left", f"{topics['clicks']}_left", left_spec),
            spark_jobs.checkpoint_need(Path(topics["joined"])),
        ),
    )
    right.apply([person("ann", "Oslo", 0, 0)], offsets={(topics["people"], 0): 1}, epoch=1)
    clicks = [click(0, "ann", 1, 5), click(1, "bob", 2, 5), click(2, "ann", 3, -5)]
    left.apply(clicks, offsets={(topics["clicks"], 0): 3}, epoch=1)
    with spark_jobs.live(job, platform):
        send(log, topics["clicks"], LOG, clicks)

        first = written(job, log, 3)
        assert [fact.values for fact in first] == [
            ("ann", 1, "Oslo"),
            ("bob", 2, None),
            ("ann", 3, None),
        ]

        right.apply([person("ann", "Rome", 3, 1)], offsets={(topics["people"], 0): 2}, epoch=1)
        span = {
            "key": "",
            "cells": ["ann"],
            "from": T0 + 3,
            "to": None,
            "offsets": {topics["people"]: {"0": 2}},
        }
        log.send(topics["touched"], json.dumps(span).encode())
        again = written(job, log, 4)[3]

    assert (again.row_id, again.values) == (clicks[0].row_id, ("ann", 1, "Rome"))
    assert again.version > first[0].version
