# ruff: noqa: ANN001, ANN201, ANN202, N805
"""Rows of erased keys are deleted where sinks have written them, by the sinks themselves."""

import contextlib
import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from narthex._formats import key_bytes, keyed_row_id
from narthex._formats.avro import fact_codec
from narthex._ir import Fact, ResolvedAsset, SinkJobSpec, Version
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Kafka, Webhook, sink, source
from narthex.datasets import dataset, field, pipeline
from narthex.expr import col
from narthex.lib import inputs
from narthex_ledger import Desired
from narthex_spark_apps.jobs.stage_offsets import StagePositions, group_of
from narthex_spark_apps.sinks.sink_job import open_sink
from narthex_stores import LogProducer, LogReader
from tests.server.conftest import House, house_at, settings_at
from tests.server.driving import accept, catch_up, create_all, report_caught_up, serve, step

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.slow]

__owner__ = "club@narthex.dev"
ERASED, KEPT = "hedwig-erased-7031", "konrad-kept-2290"
TOPIC = "newsletter-compacted"
TARGET = f"kafka:/{TOPIC}"
AT_US = 1_777_622_400_000_000
TURNS_S = 150.0
PAUSE_S = 0.2
IDLE_S = 1.0


@source(Webhook(name="club").endpoint("members"), disorder="1d", cdc="upsert")
@dataset(index=True)
class Members:
    person: str = field(key=True, erase_key=True)
    club: str
    since: datetime = field(timestamp=True)


@sink(Kafka("bus", "").topic(TOPIC), cdc="debezium")
@dataset(index=True)
class Readers:
    person: str = field(key=True)
    club: str
    since: datetime = field(timestamp=True)

    @pipeline
    @inputs(Members)
    def all(cls, members):
        return members.filter(col("club") != "")


def readers_of_another_version() -> Any:
    @sink(Kafka("bus", "").topic(TOPIC), cdc="debezium")
    @dataset(index=True, version=2)
    class Readers:
        person: str = field(key=True)
        club: str
        since: datetime = field(timestamp=True)

        @pipeline
        @inputs(Members)
        def all(cls, members):
            return members.filter(col("club") != "chess")

    return Readers


@pytest.fixture
def club(
    tmp_path_factory: pytest.TempPathFactory, ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[House]:
    home = tmp_path_factory.mktemp("club")
    settings = settings_at(home, dsn=ledger_dsn, kafka=kafka_bootstrap)
    rule = f'[[topics]]\nname = "{TOPIC}"\nbranches = ["main"]\nwrite = true\n'
    settings.policy_file.write_text(rule)
    compacted = NewTopic(TOPIC, num_partitions=1, config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([compacted])[TOPIC].result(30.0)
    with contextlib.ExitStack() as closing:
        closing.callback(lambda: admin.delete_topics([TOPIC])[TOPIC].result(30.0))
        house = closing.enter_context(house_at(settings))
        serve(house, definitions([Members, Readers], []))
        yield house


def sinks(house: House) -> list[ResolvedAsset]:
    """The sinks that run, each as its job."""
    return [
        job.asset
        for job in house.ledger.jobs.all()
        if isinstance(job.asset.spec, SinkJobSpec) and job.desired is Desired.RUNNING
    ]


def successor_of(house: House, old: ResolvedAsset) -> ResolvedAsset | None:
    """The sink that takes the place of another one, once a commit has created it."""
    jobs = [job.asset for job in house.ledger.jobs.all()]
    others = [one for one in jobs if isinstance(one.spec, SinkJobSpec) and one != old]
    return others[0] if others else None


def log_of(sink_asset: ResolvedAsset) -> str:
    return sink_asset.need("input:Readers").physical_name


def append(house: House, sink_asset: ResolvedAsset, *persons: str) -> None:
    """Append rows to the log of a sink, as the pipeline's job does."""
    spec = sink_asset.spec
    assert isinstance(spec, SinkJobSpec)
    with LogProducer(house.services.settings.kafka) as producer:
        for person in persons:
            key = key_bytes(spec.log.keys, [person])
            fact = Fact(
                row_id=keyed_row_id(key, AT_US),
                version=Version(b"1"),
                event_time=AT_US,
                key=(person,),
                values=("chess",),
            )
            encoded = fact_codec(spec.log).encode(fact)
            producer.append(log_of(sink_asset), value=encoded, key=key).result(30.0)


def run(house: House, sink_asset: ResolvedAsset, *, epoch: int) -> None:
    """Let a sink write all that its log has, as its stage does."""
    settings = house.services.settings
    with LogReader(settings.kafka, group=group_of(sink_asset)) as reader:
        written = StagePositions(reader.group_offsets, epoch=epoch)
        stage = open_sink(sink_asset, settings, written=written, epoch=epoch)
        assert stage is not None
        reader.assign(stage.resume(reader.first_offsets([log_of(sink_asset)])))
        while records := reader.poll(max_records=100, timeout_s=IDLE_S):
            stage.take(records)
        stage.tell()
        stage.close()


def newest(house: House) -> dict[str, Any]:
    """The newest record of each person in the topic: the row, or None after its deletion."""
    with LogReader(house.services.settings.kafka) as reader:
        reader.assign(reader.first_offsets([TOPIC]))
        found: dict[str, Any] = {}
        while records := reader.poll(max_records=100, timeout_s=IDLE_S):
            for record in records:
                person = json.loads(record.key or b"")["person"]
                found[person] = record.value and json.loads(record.value)["after"]
    return found


def fill(house: House, commit_id: UUID) -> None:
    """Be the bounded runs of a commit: what they would read is empty."""
    backfills = house.ledger.backfills
    for job in house.ledger.jobs.all():
        if job.needs_backfill and job.backfilled_at is None:
            epoch = backfills.claim(commit_id, job.asset.asset_id)
            assert epoch is not None
            backfills.finish(job.asset.asset_id, epoch, offsets={})


def erase(house: House, *leave_sinks: str) -> str:
    answer = house.client.post(
        "/api/v1/dataset/Members/erase",
        json={"erase_keys": [{"person": ERASED}], "leave_sinks": [*leave_sinks]},
        headers={"idempotency-key": "erase-0001"},
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["erasure_id"])


def turn(house: House, erasure_id: str) -> dict[str, Any]:
    house.services.eraser.look()
    house.services.recovery.look()
    report_caught_up(house)
    found = house.client.get(f"/api/v1/erasures/{erasure_id}").json()
    assert isinstance(found, dict)
    time.sleep(PAUSE_S)
    return found


def until(house: House, erasure_id: str, *, state: str, waits_for: str = "") -> dict[str, Any]:
    """Take turns until an erasure is in a state, and waits for something."""
    ends_at = time.monotonic() + TURNS_S
    found: dict[str, Any] = {}
    while time.monotonic() < ends_at:
        found = turn(house, erasure_id)
        if found["state"] == state and waits_for in found["waits_for"]:
            return found
    raise AssertionError(f"{found['state']}: {found['waits_for']}")


def entry(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = found["certificate"]["sinks"]
    assert (only["target"], only["dataset"]) == (TARGET, "Readers")
    assert isinstance(only, dict)
    return only


def test_a_sink_deletes_the_rows_that_the_new_log_lacks(club: House) -> None:
    (old,) = sinks(club)
    append(club, old, ERASED, KEPT)
    run(club, old, epoch=1)
    assert newest(club).keys() == {ERASED, KEPT}

    erasure_id = erase(club)
    while (new := successor_of(club, old)) is None:
        turn(club, erasure_id)
    append(club, new, KEPT)
    waiting = until(club, erasure_id, state="withdrawing", waits_for="deletions")
    assert f"`{TARGET}`, rows of `Readers`: 1" in waiting["waits_for"]
    assert sinks(club) == [old], "the new sink waits"
    run(club, old, epoch=2)
    assert newest(club)[ERASED] is None
    assert newest(club)[KEPT]["person"] == KEPT

    found = until(club, erasure_id, state="certified")
    assert entry(found)["is_erased"] is True
    (deletions,) = entry(found)["deletions"]
    assert (deletions["job"], deletions["rows"]) == (old.physical_name, 1)
    assert sum(deletions["written_until"].values()) == 3, "two rows and one that ends"
    assert ERASED not in json.dumps(found)
    assert sinks(club) == [new]


def test_a_row_that_was_deleted_too_much_is_written_again(club: House) -> None:
    """The new log has its rows late: until then, they look as if they had been erased."""
    (old,) = sinks(club)
    append(club, old, ERASED, KEPT)
    run(club, old, epoch=1)
    erasure_id = erase(club)
    until(club, erasure_id, state="withdrawing", waits_for="`Readers`: 2")
    run(club, old, epoch=2)
    assert newest(club) == {ERASED: None, KEPT: None}

    until(club, erasure_id, state="removing")
    (new,) = sinks(club)
    append(club, new, KEPT)
    run(club, new, epoch=1)

    assert newest(club)[ERASED] is None
    assert newest(club)[KEPT]["person"] == KEPT


def test_a_target_that_is_left_is_not_waited_for_and_not_erased(club: House) -> None:
    (old,) = sinks(club)
    append(club, old, ERASED, KEPT)
    run(club, old, epoch=1)

    found = until(club, erase(club, TARGET), state="certified")

    assert entry(found)["is_erased"] is False
    assert "without a value" in entry(found)["to_do"]
    assert newest(club)[ERASED]["person"] == ERASED


def test_a_target_with_rows_of_a_replaced_sink_must_be_named(club: House) -> None:
    commit_id = accept(club.client, definitions([Members, readers_of_another_version()], []))
    create_all(club.client, commit_id)
    for name in ("ready", "commit", "backfill"):
        step(club.client, commit_id, name)
    fill(club, UUID(commit_id))
    for name in ("backfilled", "promote"):
        catch_up(club)
        step(club.client, commit_id, name)

    answer = club.client.post(
        "/api/v1/dataset/Members/erase", json={"erase_keys": [{"person": ERASED}]}
    )

    assert answer.status_code == 400
    assert "a sink that was replaced or removed may have left rows there" in answer.text
