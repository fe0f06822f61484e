"""Topics of Pub/Sub, with an account's project: what is acknowledged when, and read again."""

import datetime as dt
import importlib
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from narthex._connectors.pubsub import PubSubTopic
from narthex._formats.avro.codec import fact_codec
from narthex._ir.connections import SecretRef
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import polling_source
from narthex_spark_apps.platform.optional_clients import ClientMissingError, load_client
from narthex_spark_apps.sources.polling_source import PollingSource
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_stores import LogProducer, StoreError
from tests.mounted_secrets import grant, mount
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

ACCOUNT: Final = "NARTHEX_TEST_PUBSUB"
"""A JSON object: `project_id`, and `service_account_key` as Google gave it."""

TOPIC = "narthex-test"
needs_account = pytest.mark.skipif(
    ACCOUNT not in os.environ,
    reason=f"notimpl: needs an account of Pub/Sub, described by {ACCOUNT}",
)


class RefusingProducer(LogProducer):
    """A producer whose broker takes nothing."""

    def flush(self, *, timeout_s: float = 30.0) -> None:  # noqa: ARG002 (as its base class)
        raise StoreError("nothing is taken")


@pytest.fixture
def topic(platform: Settings) -> Iterator[Any]:
    """Make an empty topic; return what publishes rows to it."""
    account = json.loads(os.environ[ACCOUNT])
    key = account["service_account_key"]
    mount(platform.secrets_dir, {"pubsub/key": json.dumps(key)})
    grant(platform.policy_file, "googleapis.com", secrets=["pubsub/key"], allow=[])
    google = importlib.import_module("google.cloud.pubsub_v1")
    client = google.PublisherClient.from_service_account_info(key)
    name = client.topic_path(account["project_id"], TOPIC)
    client.create_topic(request={"name": name, "message_retention_duration": dt.timedelta(hours=1)})

    def publish(data: bytes) -> None:
        client.publish(name, data).result(timeout=60)

    yield publish
    client.delete_topic(request={"topic": name})


def job_of(log: Log) -> SourceJob:
    connector = PubSubTopic(
        name="google",
        project_id=json.loads(os.environ[ACCOUNT])["project_id"],
        topic=TOPIC,
        service_account_key=SecretRef("pubsub/key"),
    )
    needs = (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    return spark_jobs.source_job(connector, needs=needs)


def opened(job: SourceJob, platform: Settings) -> PollingSource:
    found = polling_source(job.asset, platform)
    assert found is not None
    return found


def row(number: int) -> bytes:
    said = {"id": number, "at": "2024-05-01T00:00:00Z", "who": "ann", "amount": 2.5}
    return json.dumps(said).encode()


@needs_account
@pytest.mark.kafka
def test_a_message_is_acknowledged_once_its_facts_are_durable(
    topic: Any, platform: Settings, log: Log
) -> None:
    job = job_of(log)
    source = opened(job, platform)
    topic(row(1))  # before there is a subscription: the topic retains it
    topic(b"not json")

    with RefusingProducer(platform.kafka) as refusing, pytest.raises(StoreError):
        source.read(refusing)
    counts: list[dict[str, int]] = []
    with LogProducer(platform.kafka) as producer:
        while sum(one["rows"] for one in counts) < 2:  # once their time to be acknowledged is over
            counts.append(source.read(producer))
        nothing = source.read(producer)
        topic(row(2))
        later = source.read(producer)
    source.close()

    assert nothing["rows"] == 0
    assert later["rows"] == 1
    records = log.records(job.output, count=2, distinct=True)
    facts = fact_codec(job.spec.log).decode_many([value for _, value in dict.fromkeys(records)])
    assert [fact.key for fact in facts] == [(1,), (2,)]
    assert facts[0].version < facts[1].version


@pytest.mark.skipif(
    importlib.util.find_spec("google.cloud.pubsub_v1") is not None
    if importlib.util.find_spec("google.cloud") is not None
    else False,
    reason="the client is installed here",
)
def test_a_missing_client_is_reported_with_its_extra() -> None:
    with pytest.raises(ClientMissingError, match=r"install it with `narthex\[pubsub\]`"):
        load_client("narthex_spark_apps.sources.streams.pubsub", install="narthex[pubsub]")
