"""Rows in quarantine, admitted again; late rows, listed from the log; on a real broker."""

import json
from pathlib import Path

import pytest

from narthex._base.records import Json
from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import ResolvedNeed
from narthex._ir.connections import KafkaTopic
from narthex._ir.facts import Fact, position
from narthex.errors import ArgumentsUnfit
from narthex.settings import Settings
from narthex_spark_apps.row_inspection.late_rows import late_rows
from narthex_spark_apps.row_inspection.quarantine_replay import Replay, quarantined_rows
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.topics.scan import scan
from narthex_stores import LogProducer
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

pytestmark = pytest.mark.kafka

T0 = 1_357_000_000_000_000
MINUTE_US = 60_000_000


def order(number: int, **other: object) -> dict[str, object]:
    return {"id": number, "at": T0 + number, "who": "ann", "amount": 2.5} | other


def topic_job(log: Log) -> SourceJob:
    needs: tuple[ResolvedNeed, ...] = (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    theirs = KafkaTopic(name="k", bootstrap_servers="", topic=log.topic("theirs", partitions=2))
    return spark_jobs.source_job(theirs, needs=needs, disorder_us=MINUTE_US)


def facts(job: SourceJob, log: Log, count: int) -> list[Fact]:
    records = log.records(job.output, count=count)
    return fact_codec(job.spec.log).decode_many([value for _, value in records])


def replay(
    job: SourceJob, platform: Settings, repaired: dict[str, dict[str, Json]] | None = None
) -> list[tuple[str, str]]:
    rows = quarantined_rows(platform, job.quarantine)
    with LogProducer(platform.kafka) as producer:
        replaying = Replay(jobs=(job.asset,), settings=platform, producer=producer)
        return [(one.outcome, one.reason) for one in replaying.run(rows, repaired)]


def test_a_refused_row_is_listed_once_with_its_position(platform: Settings, log: Log) -> None:
    job = topic_job(log)
    log.send(job.topic(), order(1, amount=5000), key=b"a")
    log.send(job.topic(), b"{not json", key=b"a")

    spark_jobs.work_live(job, platform, 2)
    spark_jobs.lose_positions(job, platform)
    spark_jobs.work_live(job, platform, 2)

    first, second = quarantined_rows(platform, job.quarantine)
    assert len(log.records(job.quarantine, count=4)) == 4
    assert first.reason.startswith("`amount`: found 5000")
    assert json.loads(first.payload)["id"] == 1
    assert (first.place().offset, second.place().offset) == (0, 1)
    assert first.place().partition == second.place().partition
    assert second.payload == "{not json"
    assert first.name != second.name


def test_a_repaired_row_is_the_fact_that_it_would_have_been_and_leaves_the_list(
    platform: Settings, log: Log
) -> None:
    job = topic_job(log)
    log.send(job.topic(), order(1), key=b"a")
    log.send(job.topic(), order(2, amount=5000), key=b"a")
    log.send(job.topic(), b"gibberish", key=b"a")
    spark_jobs.work_live(job, platform, 3)
    wrong, gibberish = quarantined_rows(platform, job.quarantine)
    right: dict[str, Json] = {"id": 2, "at": T0 + 2, "who": "bob", "amount": 50}

    unrepaired = replay(job, platform)
    repaired = replay(job, platform, {wrong.name: right})

    assert [outcome for outcome, _ in unrepaired] == ["rejected", "rejected"]
    assert [outcome for outcome, _ in repaired] == ["accepted", "rejected"]
    admitted = facts(job, log, 2)[1]
    assert (admitted.key, admitted.values) == ((2,), ("bob", 50.0))
    at = position(job.spec.source_id, gibberish.place().partition, 1, 0)
    assert admitted.version == at
    assert quarantined_rows(platform, job.quarantine) == (gibberish,)
    assert replay(job, platform)[0][0] == "rejected"


def test_a_row_that_is_replayed_twice_is_one_fact(platform: Settings, log: Log) -> None:
    job = topic_job(log)
    log.send(job.topic(), order(2, amount=5000), key=b"a")
    spark_jobs.work_live(job, platform, 1)
    (row,) = quarantined_rows(platform, job.quarantine)
    right: dict[str, Json] = {"id": 2, "at": T0 + 2, "who": None, "amount": 1}

    with LogProducer(platform.kafka) as producer:
        replaying = Replay(jobs=(job.asset,), settings=platform, producer=producer)
        for _ in range(2):
            replaying.run([row], {row.name: right})

    first, second = facts(job, log, 2)
    assert first == second
    assert quarantined_rows(platform, job.quarantine) == ()


def test_rows_of_a_source_that_the_dataset_has_no_more_are_not_replayed(
    platform: Settings, log: Log
) -> None:
    job = topic_job(log)
    log.send(job.topic(), b"gibberish", key=b"a")
    spark_jobs.work_live(job, platform, 1)
    rows = quarantined_rows(platform, job.quarantine)

    with LogProducer(platform.kafka) as producer:
        other = Replay(jobs=(topic_job(log).asset,), settings=platform, producer=producer)
        with pytest.raises(ArgumentsUnfit, match="rows in quarantine came from the source"):
            other.run(rows)


def test_late_rows_are_all_listed_with_what_they_changed(platform: Settings, log: Log) -> None:
    job = topic_job(log)
    for number, minutes in [(1, 0), (1, 10), (1, 9), (1, 3), (2, 10), (2, 1), (1, 11)]:
        row = order(number, at=T0 + minutes * MINUTE_US)
        log.send(job.topic(), row, key=str(number).encode())
    spark_jobs.work_live(job, platform, 7)
    spark_jobs.lose_positions(job, platform)
    spark_jobs.work_live(job, platform, 7)

    known = {job.spec.source_id: MINUTE_US}
    found = late_rows(scan(platform.kafka, job.output), job.spec.log, known)

    assert len(log.records(job.output, count=14)) == 14
    by_key = sorted(found, key=lambda entry: entry.row.key)
    assert [(entry.row.key, entry.row.event_time - T0) for entry in by_key] == [
        ((1,), 3 * MINUTE_US),
        ((2,), 1 * MINUTE_US),
    ]
    first, second = by_key
    assert first.row.late_us == 6 * MINUTE_US
    assert first.until == T0 + 9 * MINUTE_US
    assert second.until == T0 + 10 * MINUTE_US
    assert first.row.offset == 3
    stored = fact_codec(job.spec.log).decode_many(
        [r.value or b"" for r in scan(platform.kafka, job.output) if r.offset == first.log_offset]
    )
    assert first.row_id in {fact.row_id for fact in stored}
    assert late_rows(scan(platform.kafka, job.output), job.spec.log, {}) == ()
