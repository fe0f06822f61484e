"""Streams of Kinesis against moto's server: shards, starts, and what is read again.

Its split moves records into the new shards, which AWS's does not: that is not run here.
"""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from narthex._connectors.kinesis import KinesisStream
from narthex._formats.avro.codec import fact_codec
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import polling_source
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.streams.kinesis import StreamError
from narthex_stores import LogProducer
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

REGION = "eu-west-1"
ROLE = "arn:aws:iam::123456789012:role/reader"
HOUR_US = 3_600_000_000
Put = Callable[..., None]


@pytest.fixture
def kinesis(aws: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the platform and the test be someone to that server; return the test's client."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    return boto3.client("kinesis", region_name=REGION)


class Stream:
    """One stream of a test, and its writer."""

    def __init__(self, kinesis: Any, name: str, *, shards: int) -> None:
        self.name = name
        self.kinesis = kinesis
        kinesis.create_stream(StreamName=name, ShardCount=shards)
        self.arn = str(kinesis.describe_stream(StreamName=name)["StreamDescription"]["StreamARN"])

    def put(self, number: int, *, data: bytes | None = None) -> str:
        row = {"id": number, "at": "2024-05-01T00:00:00Z", "who": "ann", "amount": 2.5}
        said = self.kinesis.put_record(
            StreamName=self.name,
            Data=json.dumps(row).encode() if data is None else data,
            PartitionKey=str(number),
        )
        return str(said["ShardId"])


@pytest.fixture
def stream(kinesis: Any, request: pytest.FixtureRequest) -> Stream:
    """Make a stream of two shards."""
    return Stream(kinesis, request.node.name.replace("[", "_").replace("]", ""), shards=2)


def job_of(log: Log, stream: Stream, start: str | int = "trim_horizon", **parts: Any) -> SourceJob:
    connector = KinesisStream(
        name="aws", role_arn=ROLE, stream_arn=stream.arn, start=start, **parts
    )
    needs = (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    return spark_jobs.source_job(connector, needs=needs, disorder_us=HOUR_US)


def read(job: SourceJob, platform: Settings) -> dict[str, int]:
    found = polling_source(job.asset, platform)
    assert found is not None
    with LogProducer(platform.kafka) as producer:
        counts = found.read(producer)
    found.close()
    return counts


def keys(job: SourceJob, log: Log, count: int) -> list[int]:
    records = log.records(job.output, count=count)
    facts = fact_codec(job.spec.log).decode_many([value for _, value in records])
    return [int(str(fact.key[0])) for fact in facts]


def test_each_record_is_read_once_and_again_only_as_the_same_fact(
    stream: Stream, platform: Settings, log: Log
) -> None:
    job = job_of(log, stream)
    for number in range(6):
        stream.put(number)
    stream.put(6, data=b"not json")

    first = read(job, platform)
    nothing = read(job, platform)
    stream.put(7)
    later = read(job, platform)
    again = read(job, spark_jobs.without_checkpoints(platform))

    assert first == {"rows": 7, "quarantined": 1, "left_out": 0}
    assert nothing == {"rows": 0, "quarantined": 0, "left_out": 0}
    assert later["rows"] == 1
    assert again["rows"] == 8
    records = log.records(job.output, count=14)
    assert len(records) == 14
    assert sorted(records[:7]) == sorted(records[7:])
    assert len(set(records)) == 7


def test_latest_is_what_comes_after_the_first_reading(
    stream: Stream, platform: Settings, log: Log
) -> None:
    job = job_of(log, stream, "latest")
    stream.put(1)

    first = read(job, platform)
    stream.put(2)
    second = read(job, platform)

    assert first["rows"] == 0
    assert second["rows"] == 1
    assert keys(job, log, 1) == [2]


def test_an_instant_begins_with_the_record_that_came_then(
    stream: Stream, platform: Settings, log: Log
) -> None:
    stream.put(1)
    hour = dt.timedelta(hours=1)
    now = dt.datetime.now(dt.UTC)

    past = job_of(log, stream, int((now - hour).timestamp() * 1e6))
    future = job_of(log, stream, int((now + hour).timestamp() * 1e6))

    assert read(past, platform)["rows"] == 1
    assert read(future, platform)["rows"] == 0


def test_a_live_job_continues_after_a_backfill(
    stream: Stream, platform: Settings, log: Log
) -> None:
    job = job_of(log, stream)
    stream.put(1)
    read(job, platform)

    with spark_jobs.live(job, platform) as running:
        stream.put(2)
        found = keys(job, log, 2)
        report = running.report()

    assert found == [1, 2]
    assert report.progress["error"] is None


def test_a_missing_stream_is_reported(stream: Stream, platform: Settings, log: Log) -> None:
    stream.arn += "-no-more"

    with pytest.raises(StreamError, match="ResourceNotFoundException"):
        read(job_of(log, stream), platform)
