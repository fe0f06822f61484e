"""Source jobs, live and bounded, from a topic or a file to a dataset's log and the quarantine."""

import json
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest
from pyspark.sql import SparkSession

from narthex._base import DAY_US, to_micros
from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.entities import (
    ColumnRef,
    Computed,
    Constant,
    Csv,
    Files,
    JsonLines,
    KafkaTopic,
    Parquet,
    WebhookEndpoint,
    Where,
)
from narthex._ir.expression_nodes import Call, Literal, Ref
from narthex._ir.facts import Fact, position
from narthex._ir.schema import Column, Field, Role, Schema
from narthex._ir.types import Datetime, Float, Int, Optional, Str
from narthex.settings import Settings
from narthex_spark_apps.jobs.stage_offsets import group_of
from narthex_spark_apps.sources.files.source import FileSource
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_stores import LogReader
from tests.spark_apps import spark_jobs

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

T0 = 1_357_000_000_000_000
WEBHOOK = WebhookEndpoint(webhook="shop", endpoint="orders")


def order(number: int, **other: object) -> dict[str, object]:
    return {"id": number, "at": T0 + number, "who": "ann", "amount": 2.5} | other


def facts(job: SourceJob, records: list[tuple[bytes, bytes]]) -> list[Fact]:
    return fact_codec(job.spec.log).decode_many([value for _, value in records])


def webhook_job(log) -> tuple[SourceJob, str]:  # noqa: ANN001
    ingest = log.topic("ingest")
    needs = (
        spark_jobs.topic_need("input", ingest),
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    return spark_jobs.source_job(WEBHOOK, needs=needs), ingest


def test_rows_of_a_call_become_facts(
    work: spark_jobs.Work,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    job, ingest = webhook_job(log)
    log.send(ingest, {"rows": [order(1), order(2, who=None, amount="7.25")]})

    work(job, platform, 1)

    found = facts(job, log.records(job.output, count=2))
    key = key_bytes(job.spec.log.keys, (2,))
    assert found[1] == Fact(
        row_id=keyed_row_id(key, T0 + 2),
        version=position("webhook:shop/orders", 0, 0, 1),
        event_time=T0 + 2,
        key=(2,),
        values=(None, 7.25),
    )


def test_a_live_job_resumes_and_repetitions_are_the_same_fact(
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    job, ingest = webhook_job(log)
    for number in range(3):
        with spark_jobs.live(job, platform) as running:
            log.send(ingest, {"rows": [order(number * 10), order(number * 10 + 1)]})
            log.records(job.output, count=2 * (number + 1), distinct=True)
            spark_jobs.wait_caught_up(running, number + 1)
    with LogReader(platform.kafka, group=group_of(job.asset)) as reader:
        read = reader.group_offsets.read([(ingest, 0)])
        reader.group_offsets.commit({(ingest, 0): 0}, note="")
    assert read[ingest, 0].offset == 3
    spark_jobs.work_live(job, platform, 3)

    written = facts(job, log.records(job.output, count=6, distinct=True))
    assert {fact.key for fact in written} == {(0,), (1,), (10,), (11,), (20,), (21,)}
    assert len(set(written)) == 6


def test_an_invalid_row_is_quarantined_with_reason_and_position(
    work: spark_jobs.Work,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    theirs = log.topic("theirs")
    connector = KafkaTopic(name="k", bootstrap_servers="", topic=theirs)
    needs = (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    job = spark_jobs.source_job(connector, needs=needs)
    for value in (
        json.dumps(order(1)).encode(),
        b"{not json",
        json.dumps(order(2, amount=5000)).encode(),
        json.dumps(order(3, at=None)).encode(),
        b"[1]",
        json.dumps(order(4)).encode(),
    ):
        log.send(theirs, value)

    work(job, platform, 6)

    assert [fact.key for fact in facts(job, log.records(job.output, count=2))] == [(1,), (4,)]
    refused = [json.loads(value) for _, value in log.records(job.quarantine, count=4)]
    assert [(one["offset"], one["field"]) for one in refused] == [
        (1, None),
        (2, "amount"),
        (3, "at"),
        (4, None),
    ]
    assert refused[0]["payload"] == "{not json"
    assert refused[1]["reason"].startswith("`amount`: found 5000.0; the column holds")
    assert refused[1]["source"] == f"kafka:/{theirs}"


def test_a_live_job_counts_its_rows(
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    job, ingest = webhook_job(log)
    log.send(ingest, {"rows": [order(1), order(2, amount=5000), order(3)]})

    with spark_jobs.live(job, platform) as running:
        report = spark_jobs.wait_caught_up(running, 1)

    counted = (report.progress["rows"], report.progress["quarantined"], report.progress["left_out"])
    assert counted == (3, 1, 0)
    assert report.progress["newest_event_time"] == T0 + 3


def test_a_source_with_an_expression_that_spark_cannot_render_is_read(
    work: spark_jobs.Work,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    needs = (
        spark_jobs.topic_need("input", log.topic("ingest")),
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    text = Call("num.to_string", (Ref("price"),))
    preproc = (("who", Computed(text, (Column("price", Float()),))),)
    job = spark_jobs.source_job(WEBHOOK, needs=needs, preproc=preproc)
    rows = [order(1, price=2.5), order(2, price="no"), order(3, price=1e16)]
    log.send(job.topic(), {"rows": rows})

    work(job, platform, 1)

    found = facts(job, log.records(job.output, count=2))
    assert [fact.values[0] for fact in found] == ["2.5", "1e+16"]
    assert found[1].version == position("webhook:shop/orders", 0, 0, 2)
    refused = [json.loads(value) for _, value in log.records(job.quarantine, count=1)]
    assert [(one["ordinal"], one["field"]) for one in refused] == [(1, "price")]


FLIGHTS = Schema(
    (
        Field(name="flight", type=Str(), role=Role.VALUE),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
        Field(name="delay", type=Optional(Int())),
        Field(name="known", type=Int()),
    )
)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_file_is_read_once_and_its_rows_are_numbered_in_order(
    spark: SparkSession,
    platform: Settings,
    log,  # noqa: ANN001
    kind: str,
) -> None:
    platform.files_root.mkdir()
    path = platform.files_root / f"flights.{kind}"
    rows = [
        {"carrier": "UA", "num": 1, "hour": T0, "delay": None},
        {"carrier": "AA", "num": 2, "hour": T0 + 1, "delay": 5},
        {"carrier": "AA", "num": None, "hour": T0 + 2, "delay": 6},
        {"carrier": "B6", "num": 4, "hour": T0 + 3, "delay": 7},
    ]
    formats = {"csv": Csv(null="NA"), "jsonl": JsonLines(), "parquet": Parquet()}
    _write(path, kind, rows)
    connector = Files(name="air", path=path.name, format=formats[kind])
    needs = (
        spark_jobs.topic_need("output", log.topic("flights")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    raw = (Column("carrier", Str()), Column("num", Optional(Int())))
    where = Where(Call("not", (Call("isnull", (Ref("num"),)),)), raw)
    named = Call("add", (Ref("carrier"), Literal("!", Str())))
    preproc = (
        ("flight", Computed(named, raw)),
        ("at", ColumnRef("hour")),
        ("known", Constant(9)),
    )
    job = spark_jobs.source_job(
        connector, needs=needs, schema=FLIGHTS, preproc=preproc, where=where
    )
    source = FileSource(
        spark, job, settings=platform, memory=platform.checkpoint_dir / "files.json"
    )

    counts = [source.read(file) for file in source.unread()]

    assert source.unread() == ()
    assert counts == [{"rows": 4, "quarantined": 0, "left_out": 1}]
    found = facts(job, log.records(job.output, count=3))
    assert [(fact.values, fact.event_time) for fact in found] == [
        (("UA!", None, 9), T0),
        (("AA!", 5, 9), T0 + 1),
        (("B6!", 7, 9), T0 + 3),
    ]
    place = f"files:air:flights.{kind}"
    assert [fact.row_id for fact in found] == [position(place, 0, 0, n) for n in (0, 1, 3)]


def test_files_with_dates_beyond_the_spread_are_not_read(
    spark: SparkSession,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    for day in ("2024-04-28", "2024-04-30", "2024-05-01"):
        below = platform.files_root / "days" / day
        below.mkdir(parents=True)
        (below / "a.csv").write_text("")
    connector = Files(name="air", path="days/%Y-%m-%d/*.csv", format=Csv(), spread_us=DAY_US)
    needs = (spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),)
    job = spark_jobs.source_job(connector, needs=needs, schema=FLIGHTS)
    since = attrs.evolve(job.spec.source, since_us=to_micros(datetime(2024, 5, 1, tzinfo=UTC)))
    job = attrs.evolve(job, spec=attrs.evolve(job.spec, source=since))

    source = FileSource(spark, job, settings=platform, memory=platform.checkpoint_dir / "f.json")

    assert [Path(file).parent.name for file in source.unread()] == ["2024-04-30", "2024-05-01"]


def _write(path: Path, kind: str, rows: list[dict[str, object]]) -> None:
    if kind == "parquet":
        import polars as pl  # noqa: PLC0415

        pl.DataFrame(rows).write_parquet(path)
    elif kind == "csv":
        lines = ["carrier,num,hour,delay"]
        lines += [",".join("NA" if v is None else str(v) for v in row.values()) for row in rows]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
