"""From a table of Postgres through a pipeline to a topic: a backfill, then the live jobs."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import attrs
import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from narthex._ir.assets import SinkJobSpec
from narthex._sdk.commit_definitions import definitions
from narthex.connectors import Kafka, Postgres, Secret, sink, source
from narthex.datasets import dataset, field, pipeline
from narthex.lib import inputs
from narthex.settings import environment_of
from narthex_spark_apps.jobs.backfill import Backfill
from tests.mounted_secrets import grant
from tests.server.conftest import house_at, settings_at
from tests.server.driving import accept, create_all, step
from tests.spark_apps import spark_jobs

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

__owner__ = "shop@narthex.dev"

T0 = datetime(2024, 5, 1, tzinfo=UTC)


def from_table_to_topic(dsn: str) -> Any:
    """Declare visits in a table, and the first visitor of each page, written to a topic."""
    address = urlsplit(dsn)
    user, word = Secret("crm/user"), Secret("crm/word")
    crm = Postgres("crm", str(address.hostname), address.path.strip("/"), user, word, address.port)

    @source(crm.table("visits", cursor="seen_at"), disorder="1h", cdc="append", every="1s")
    @dataset
    class Visits:
        page: str
        who: str
        seen_at: datetime

    @sink(Kafka("bus", "").topic("first_visits"), cdc="debezium")
    @dataset(index=True)
    class FirstVisits:
        page: str = field(key=True)
        who: str
        seen_at: datetime

        @pipeline
        @inputs(Visits)
        def first(cls, visits: Any) -> Any:  # noqa: N805
            return visits.groupby("page").first()

    return definitions([Visits, FirstVisits], [])


MAY_WRITE = '[[topics]]\nname = "*"\nbranches = ["*"]\nwrite = true\n'


def read_envelopes(bootstrap: str, count: int) -> list[tuple[str, str, str]]:
    """Wait for so many envelopes: page, what became of the row, who."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition("first_visits", 0, 0)])
    found: list[tuple[str, str, str]] = []
    while len(found) < count:
        message = consumer.poll(60)
        assert message is not None, f"{found} and no more came"
        if message.value() is None:  # behind each end, for topics that are compacted
            continue
        said = json.loads(message.value())
        row = said["after"] or said["before"]
        found.append((row["page"], said["op"], row["who"]))
    consumer.close()
    return found


def test_rows_of_a_table_reach_a_topic_by_a_backfill_and_live(
    tmp_path: Path,
    new_postgres_dsn: Callable[[], str],
    kafka_bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
) -> None:
    theirs = new_postgres_dsn()
    settings = attrs.evolve(
        settings_at(tmp_path, dsn=new_postgres_dsn(), kafka=kafka_bootstrap), install_id="tables00"
    )
    settings.policy_file.write_text(MAY_WRITE)
    for variable, value in environment_of(settings).items():
        monkeypatch.setenv(variable, value)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.create_topics([NewTopic("first_visits", 1, 1)])["first_visits"].result(30)
    with (
        psycopg.connect(
            theirs.replace("postgresql+psycopg2", "postgresql"), autocommit=True
        ) as crm,
        house_at(settings) as house,
    ):
        login = urlsplit(theirs)
        grant(
            settings.policy_file,
            f"{login.hostname}:{login.port}",
            secrets=["crm/user", "crm/word"],
        )
        for name, value in (("crm/user", login.username), ("crm/word", login.password)):
            assert house.client.post(f"/api/v1/secret/{name}", json={"value": value}).is_success
        crm.execute("CREATE TABLE visits (page text, who text, seen_at timestamptz)")
        put = "INSERT INTO visits VALUES (%s, %s, %s)"
        crm.execute(put, ("a", "ann", T0.replace(hour=2)))
        crm.execute(put, ("b", "bob", T0.replace(hour=1)))
        commit_id = accept(house.client, from_table_to_topic(theirs))
        create_all(house.client, commit_id)
        for name in ("ready", "commit", "backfill"):
            step(house.client, commit_id, name)

        run = Backfill(
            UUID(commit_id), ledger=house.ledger, settings=settings, session=lambda: spark
        )
        filled = run.run(progress=lambda _: None)
        step(house.client, commit_id, "backfilled")
        jobs = {type(job.asset.spec): job.asset for job in house.ledger.jobs.all()}
        with spark_jobs.live_asset(jobs[SinkJobSpec], settings):
            first = read_envelopes(kafka_bootstrap, 2)
            crm.execute(put, ("a", "eve", T0.replace(hour=1, minute=30)))
            others = [
                job.asset
                for job in house.ledger.jobs.all()
                if getattr(job.asset.spec, "trigger", None) is not None
                and not isinstance(job.asset.spec, SinkJobSpec)
            ]
            with (
                spark_jobs.live_asset(others[0], settings, epoch=9),
                spark_jobs.live_asset(others[1], settings, epoch=9),
            ):
                later = read_envelopes(kafka_bootstrap, 4)[2:]

    assert {one.job: one.rows for one in filled}["Visits"] == 2
    assert set(first) == {("a", "c", "ann"), ("b", "c", "bob")}
    # A row that came late, within disorder: another one is the first now.
    assert later == [("a", "d", "ann"), ("a", "c", "eve")]
