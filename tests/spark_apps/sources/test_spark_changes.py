"""Envelopes of Debezium and code of authors at a source: live and bounded give the same facts."""

import json
from pathlib import Path

import pytest

from narthex._formats.avro.codec import fact_codec
from narthex._formats.keys import key_bytes, keyed_row_id
from narthex._ir.assets import ResolvedNeed
from narthex._ir.code import UserCode
from narthex._ir.entities import (
    Cdc,
    ComputedByCode,
    Connector,
    KafkaTopic,
    WebhookEndpoint,
    WhereByCode,
)
from narthex._ir.facts import Fact, position
from narthex._ir.schema import Column
from narthex._ir.types import Int, Optional, Str
from narthex.settings import Settings
from narthex_spark_apps.sources.source_job import SourceJob
from tests.spark_apps import spark_jobs

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

T0 = 1_357_000_000_000_000
WEBHOOK = WebhookEndpoint(webhook="shop", endpoint="orders")


def order(number: int, **other: object) -> dict[str, object]:
    return {"id": number, "at": T0 + number, "who": "ann", "amount": 2.5} | other


def needs(log) -> tuple[ResolvedNeed, ...]:  # noqa: ANN001
    return (
        spark_jobs.topic_need("input", log.topic("ingest")),
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )


def facts(job: SourceJob, records: list[tuple[bytes, bytes]]) -> list[Fact]:
    return fact_codec(job.spec.log).decode_many([value for _, value in records])


def envelopes() -> list[dict[str, object]]:
    later = T0 // 1000 + 5
    return [
        {"op": "c", "before": None, "after": order(1), "ts_ms": T0 // 1000},
        {"payload": {"op": "u", "before": order(1), "after": order(7), "ts_ms": later}},
        {"op": "d", "before": order(7), "after": None, "ts_ms": later},
        {"op": "x", "before": None, "after": order(9), "ts_ms": later},
    ]


def compared(fact: Fact) -> tuple[object, ...]:
    return fact.key, fact.event_time, fact.alive


CHANGES = [
    ((1,), T0 + 1, True),
    ((1,), T0 + 7, False),
    ((7,), T0 + 7, True),
    ((7,), T0 + 5000, False),
]
"""The facts of the first three envelopes: an update that changes the key is two facts."""


def check_changes(job: SourceJob, log, *, ordinals: bool) -> None:  # noqa: ANN001
    found = facts(job, log.records(job.output, count=4))
    assert [compared(fact) for fact in found] == CHANGES
    moved = position(job.spec.source_id, 0, *((0, 1) if ordinals else (1, 0)))
    assert [fact.version for fact in found[1:3]] == [moved, moved]
    assert found[1].row_id == keyed_row_id(key_bytes(job.spec.log.keys, (1,)), T0 + 7)
    (refused,) = [json.loads(value) for _, value in log.records(job.quarantine, count=1)]
    assert refused["reason"] == "`op`: found op `x`; an envelope has c, r, u or d"


def test_envelopes_become_writes_and_deletes_and_tombstones_are_ignored(
    work: spark_jobs.Work,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    connector = KafkaTopic(name="k", bootstrap_servers="", topic=log.topic("theirs"))
    job = spark_jobs.source_job(connector, needs=needs(log), cdc=Cdc.DEBEZIUM)
    for envelope in envelopes():
        log.send(job.topic(), envelope)
    log.end_of(job.topic(), b"k")

    work(job, platform, 5)

    check_changes(job, log, ordinals=False)


def test_envelopes_that_are_pushed_become_the_same(
    work: spark_jobs.Work,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    job = spark_jobs.source_job(WEBHOOK, needs=needs(log), cdc=Cdc.DEBEZIUM)
    log.send(job.topic(), {"rows": envelopes()})

    work(job, platform, 1)

    check_changes(job, log, ordinals=True)


def code(body: str) -> UserCode:
    source = f"def called(df):\n    return {body}\n"
    return UserCode(entry="called", source=source, python="3.11")


def code_job(connector: Connector, log) -> SourceJob:  # noqa: ANN001
    name = code("df['first'].map(str.upper) + '!'")
    wanted = code("12 // df['id'] < 12")
    return spark_jobs.source_job(
        connector,
        needs=needs(log),
        preproc=(("who", ComputedByCode(name, offered=(Column("first", Optional(Str())),))),),
        where=WhereByCode(wanted, required=(Column("id", Int()),)),
    )


def test_author_code_refuses_only_the_rows_for_which_it_fails(
    work: spark_jobs.Work,
    platform: Settings,
    log,  # noqa: ANN001
) -> None:
    job = code_job(WEBHOOK, log)
    numbers = (1, 2, 3)
    log.send(job.topic(), {"rows": [order(n, first=f"a{n}") for n in numbers]})
    log.send(job.topic(), {"rows": [order(4, first=5), order(6, first="b")]})

    work(job, platform, 2)

    found = facts(job, log.records(job.output, count=3))
    assert [(fact.key, fact.values[0]) for fact in found] == [
        ((2,), "A2!"),
        ((3,), "A3!"),
        ((6,), "B!"),
    ]
    (refused,) = [json.loads(value) for _, value in log.records(job.quarantine, count=1)]
    assert (refused["offset"], refused["ordinal"], refused["field"]) == (1, 0, "who")
