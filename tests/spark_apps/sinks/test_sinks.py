"""Sinks: changes from facts, and their writes to a topic, a server, Delta and Postgres."""

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from pyarrow import fs

from narthex._connectors.http import HttpPath
from narthex._ir.connections import Files, KafkaTopic, SecretRef, TableFormat
from narthex._ir.entities import Cdc
from narthex.settings import Settings
from narthex_spark_apps.sinks.sink_stage import SinkFailedError
from narthex_stores import IndexFenced
from tests.mounted_secrets import grant, mount
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log
from tests.spark_apps.sinks.sink_world import (
    STORY,
    T0,
    Written,
    door,
    instant,
    opened,
    records,
    row,
    run,
    send,
    sink_asset,
    spec_of,
)


def committed(bootstrap: str, topic: str, count: int) -> list[tuple[Any, Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[Any, Any]] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count} records came"
        value = message.value()
        found.append((json.loads(message.key()), None if value is None else json.loads(value)))
    consumer.close()
    return found


@pytest.mark.kafka
def test_a_topic_receives_envelopes_and_tombstones(platform: Settings, log: Log) -> None:
    told, topic = log.topic("told"), log.topic("users")
    spec = spec_of(KafkaTopic(name="bus", bootstrap_servers="", topic=told), cdc=Cdc.DEBEZIUM)
    send(log, topic, spec, STORY)

    run(sink_asset(spec, topic), platform, len(STORY))

    found = committed(platform.kafka, told, 5)
    assert [(key["uid"], value and value["op"]) for key, value in found] == [
        (1, "c"),
        (2, "c"),
        (1, "u"),
        (2, "d"),
        (2, None),
    ]
    updated = found[2][1]
    assert updated["before"]["name"] == "ann"
    assert updated["after"] == {
        "uid": 1,
        "name": "bob",
        "price": "2.50",
        "tags": ["a", "b"],
        "at": "2024-05-01T00:00:00.000004Z",
    }
    assert updated["ts_us"] == T0 + 4
    assert updated["source"]["version"] == (4).to_bytes(8, "big").hex()


@pytest.mark.kafka
def test_a_fenced_run_cannot_write_to_the_topic(platform: Settings, log: Log) -> None:
    told, topic = log.topic("told"), log.topic("users")
    spec = spec_of(KafkaTopic(name="bus", bootstrap_servers="", topic=told), cdc=Cdc.DEBEZIUM)
    asset = sink_asset(spec, topic)
    zombie, owner = (
        opened(asset, spark_jobs.without_checkpoints(platform) if other else platform, epoch)
        for epoch, other in ((1, False), (2, True))
    )
    zombie.take(records(spec, STORY[:1]))
    zombie.tell()
    owner.take(records(spec, STORY[:2]))
    owner.tell()
    zombie.take(records(spec, STORY[1:4], begin=1))

    with pytest.raises(SinkFailedError):
        zombie.tell()
    zombie.close()
    owner.close()

    assert [(key["uid"], value["op"]) for key, value in committed(platform.kafka, told, 3)] == [
        (1, "c"),
        (1, "c"),
        (2, "c"),
    ]


@pytest.mark.kafka
def test_a_fenced_run_that_begins_again_cannot_write_to_the_topic(
    platform: Settings, log: Log
) -> None:
    told, topic = log.topic("told"), log.topic("users")
    spec = spec_of(KafkaTopic(name="bus", bootstrap_servers="", topic=told), cdc=Cdc.DEBEZIUM)
    asset, written, place = sink_asset(spec, topic), Written(), {("log", 0): 0}
    owner = opened(asset, spark_jobs.without_checkpoints(platform), 2, written=written)
    zombie = opened(asset, platform, 1, written=written)
    zombie.resume(place)
    zombie.take(records(spec, STORY[:1]))
    owner.resume(place)
    owner.take(records(spec, STORY[:3]))
    owner.tell()

    with pytest.raises(IndexFenced):
        zombie.tell()
    zombie.close()
    owner.take(records(spec, STORY[3:4], begin=3))
    with pytest.raises(SinkFailedError):
        owner.tell()
    owner.tell()
    owner.close()

    assert [(key["uid"], value["op"]) for key, value in committed(platform.kafka, told, 3)] == [
        (1, "c"),
        (2, "c"),
        (1, "u"),
    ]


@pytest.mark.kafka
def test_a_server_gets_sequential_calls_and_retries_with_the_same_key(
    platform: Settings, log: Log
) -> None:
    mount(platform.secrets_dir, {"door": "open sesame"})
    topic = log.topic("users")
    with door() as opened:
        opened.refuses = 1
        grant(platform.policy_file, opened.url.removeprefix("http://"), secrets=["door"])
        spec = spec_of(
            HttpPath(
                name="h",
                host=opened.url,
                healthz="/ok",
                endpoint="rows",
                limit=3,
                headers=(("Authorization", SecretRef("door")),),
            ),
            cdc=Cdc.DEBEZIUM,
        )
        send(log, topic, spec, STORY)
        with spark_jobs.live_asset(sink_asset(spec, topic), platform) as running:
            spark_jobs.wait_caught_up(running, len(STORY))

    posts = [(headers, rows) for path, headers, rows in opened.calls if path == "/rows"]
    assert opened.calls[0][0] == "/ok"
    assert all(headers["Authorization"] == "open sesame" for headers, _ in posts)
    assert all(len(rows) <= 3 for _, rows in posts)
    (first, again, *_) = posts
    assert first == again
    by_key = {headers["Idempotency-Key"]: rows for headers, rows in posts}
    told = [
        (one["op"], (one["after"] or one["before"])["uid"])
        for rows in by_key.values()
        for one in rows
    ]
    assert told == [("c", 1), ("c", 2), ("u", 1), ("d", 2)]


@pytest.fixture(params=["below a directory", "in a bucket"])
def place(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, dict[str, str]]:
    """Return a path for a table, and the options of its store."""
    if request.param == "below a directory":
        return "lake/users", {}
    url: str = request.getfixturevalue("aws")
    told = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "writer",
        "AWS_SECRET_ACCESS_KEY": "of files",
        "AWS_REGION": "eu-west-1",
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    store = fs.S3FileSystem(
        access_key="writer",
        secret_key="of files",
        region="eu-west-1",
        scheme="http",
        endpoint_override=url.removeprefix("http://"),
        allow_bucket_creation=True,
    )
    store.create_dir("lake")
    return "s3://lake/users/**", told


@pytest.mark.kafka
def test_a_delta_table_has_the_current_rows_exactly_once(
    platform: Settings, log: Log, place: tuple[str, dict[str, str]]
) -> None:
    path, storage = place
    topic = log.topic("users")
    files = Files(name="lake", path=path, format=TableFormat(kind="delta"))
    spec = spec_of(files, how="incremental", every_us=1, renames=(("name", "who"),))
    asset = sink_asset(spec, topic)
    send(log, topic, spec, STORY)

    run(asset, platform, len(STORY))
    at = path.removesuffix("/**")
    whole = at if "://" in at else str(platform.files_root / at)
    table = DeltaTable(whole, storage_options=storage)
    first = table.to_pyarrow_table().to_pylist()
    owner = opened(asset, platform, 5)
    zombie = opened(asset, spark_jobs.without_checkpoints(platform), 4)
    owner.take(records(spec, [row(1, 8, 9, name="new")], begin=100))
    zombie.take(records(spec, [row(1, 7, 8, name="old")], begin=100))
    owner.tell()
    with pytest.raises(SinkFailedError, match="a newer run writes"):
        zombie.tell()
    owner.close()
    zombie.close()

    assert [
        (one["uid"], one["who"], str(one["price"]), one["tags"], one["at"]) for one in first
    ] == [(1, "bob", "2.50", ["a", "b"], instant(4))]
    table.update_incremental()
    assert [one["who"] for one in table.to_pyarrow_table().to_pylist()] == ["new"]
    assert (table.transaction_version(asset.physical_name) or 0) >> 40 == 5
