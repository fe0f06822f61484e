"""Tables of Postgres, polled by their cursor: live and as a backfill, against a real server."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from narthex._formats.avro.codec import fact_codec
from narthex._ir.assets import ResolvedNeed
from narthex._ir.connections import SecretRef, SqlDatabase, Table
from narthex._ir.facts import Fact, parse_position
from narthex._ir.schema import Field, Role, Schema
from narthex._ir.types import Datetime, Optional, Str
from narthex.settings import Settings
from narthex_spark_apps.jobs.start import polling_source
from narthex_spark_apps.sources.source_job import SourceJob
from narthex_spark_apps.sources.tables.cursors import (
    NoCursorError,
    TablePosition,
    cursor_of,
    place_of,
)
from narthex_spark_apps.sources.tables.reader import TableError
from narthex_stores import LogProducer
from tests.mounted_secrets import grant, mount
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log

T0 = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
T0_US = 1_714_521_600_000_000
HOUR_US = 3_600_000_000
Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def database(postgres_dsn: str) -> Iterator[Connection]:
    """Yield a connection to an empty database."""
    with psycopg.connect(
        postgres_dsn.replace("postgresql+psycopg2", "postgresql"), autocommit=True
    ) as connection:
        yield connection


def table_job(
    log: Log,
    dsn: str,
    platform: Settings,
    *,
    cursor: str = "changed",
    schema: Schema = spark_jobs.ORDERS,
    word: str | None = None,
) -> SourceJob:
    address = urlsplit(dsn)
    known = word if word is not None else str(address.password)
    mount(platform.secrets_dir, {"crm/user": str(address.username), "crm/word": known})
    at = f"{address.hostname}:{address.port}"
    grant(platform.policy_file, at, secrets=["crm/user", "crm/word"])
    server = SqlDatabase(
        kind="postgres",
        name="crm",
        host=str(address.hostname),
        port=int(address.port or 0),
        db_name=address.path.strip("/"),
        username=SecretRef("crm/user"),
        password=SecretRef("crm/word"),
    )
    needs: tuple[ResolvedNeed, ...] = (
        spark_jobs.topic_need("output", log.topic("orders")),
        spark_jobs.topic_need("quarantine", log.topic("refused")),
        spark_jobs.checkpoint_need(Path(log.topic("checkpoint"))),
    )
    connector = Table(database=server, table="shop.orders", cursor=cursor)
    return spark_jobs.source_job(
        connector, needs=needs, schema=schema, disorder_us=HOUR_US, every_us=10_000
    )


def orders(database: Connection, *, cursor: str) -> None:
    database.execute("CREATE SCHEMA shop")
    database.execute(
        f"CREATE TABLE shop.orders (id bigint, at timestamptz, who text, amount numeric, {cursor})"
    )


def put(database: Connection, number: int, changed: object, **other: object) -> None:
    row = {"id": number, "at": T0, "who": "ann", "amount": "2.50", "changed": changed} | other
    database.execute(
        "INSERT INTO shop.orders (id, at, who, amount, changed)"
        " VALUES (%(id)s, %(at)s, %(who)s, %(amount)s, %(changed)s)",
        row,
    )


def read(job: SourceJob, platform: Settings) -> dict[str, int]:
    found = polling_source(job.asset, platform)
    assert found is not None
    with LogProducer(platform.kafka) as producer:
        counts = found.read(producer)
    found.close()
    return counts


def facts(job: SourceJob, records: list[tuple[bytes, bytes]]) -> list[Fact]:
    return fact_codec(job.spec.log).decode_many([value for _, value in records])


@pytest.mark.postgres
@pytest.mark.kafka
def test_a_table_is_read_by_its_cursor_and_what_changes_is_read_again(
    database: Connection,
    postgres_dsn: str,
    platform: Settings,
    log: Log,
) -> None:
    orders(database, cursor="changed timestamptz, PRIMARY KEY (id)")
    job = table_job(log, postgres_dsn, platform)
    put(database, 1, T0)
    put(database, 2, T0 + dt.timedelta(hours=3))
    put(database, 3, T0 + dt.timedelta(hours=1), amount="5000")
    put(database, 4, None)

    first = read(job, platform)
    put(database, 5, T0 + dt.timedelta(hours=2, minutes=30))  # within disorder of what was read
    put(database, 6, T0 + dt.timedelta(minutes=5))  # long before it
    database.execute(
        "UPDATE shop.orders SET who = 'bob', changed = %s WHERE id = 1",
        (T0 + dt.timedelta(hours=4),),
    )
    second = read(job, platform)

    assert first == {"rows": 3, "quarantined": 1, "left_out": 0}
    assert second == {"rows": 3, "quarantined": 0, "left_out": 0}
    found = facts(job, log.records(job.output, count=5))
    assert [(fact.key, fact.values) for fact in found] == [
        ((1,), ("ann", 2.5)),
        ((2,), ("ann", 2.5)),
        ((5,), ("ann", 2.5)),
        ((2,), ("ann", 2.5)),
        ((1,), ("bob", 2.5)),
    ]
    assert found[1] == found[3]
    assert found[0].row_id == found[4].row_id
    assert found[0].version < found[4].version
    (refused,) = [json.loads(value) for _, value in log.records(job.quarantine, count=1)]
    assert json.loads(refused["payload"])["amount"] == "5000"


@pytest.mark.postgres
@pytest.mark.kafka
def test_a_live_job_continues_after_a_backfill_and_finds_new_rows(
    database: Connection,
    postgres_dsn: str,
    platform: Settings,
    log: Log,
) -> None:
    orders(database, cursor="changed bigserial PRIMARY KEY")
    job = table_job(log, postgres_dsn, platform)
    for number in range(3):
        put(database, number, number)
    read(job, platform)

    with spark_jobs.live(job, platform) as running:
        put(database, 7, 7)
        log.records(job.output, count=4, distinct=True)
        put(database, 8, 8)
        found = facts(job, log.records(job.output, count=5, distinct=True))
        report = running.report()

    assert {fact.key for fact in found} == {(0,), (1,), (2,), (7,), (8,)}
    assert len([fact for fact in found if fact.key == (0,)]) == 1
    assert report.progress["error"] is None
    assert report.phase == "caught_up"


@pytest.mark.postgres
@pytest.mark.kafka
def test_known_rows_are_not_appended_again_but_changed_rows_are(
    database: Connection, postgres_dsn: str, platform: Settings, log: Log
) -> None:
    orders(database, cursor="changed timestamptz, PRIMARY KEY (id)")
    job = table_job(log, postgres_dsn, platform)
    source = polling_source(job.asset, platform)
    assert source is not None
    put(database, 1, T0)
    put(database, 2, T0)

    with LogProducer(platform.kafka) as producer:
        first = source.read(producer)["rows"]
        again = source.read(producer)["rows"]
        database.execute("UPDATE shop.orders SET who = 'bob' WHERE id = 2")
        changed = source.read(producer)["rows"]

    assert (first, again, changed) == (2, 0, 1)
    found = facts(job, log.records(job.output, count=3))
    assert [fact.values[0] for fact in found] == ["ann", "ann", "bob"]


KEYLESS = Schema(
    (
        Field(name="who", type=Optional(Str())),
        Field(name="at", type=Datetime(), role=Role.TIMESTAMP),
    )
)


@pytest.mark.postgres
@pytest.mark.kafka
def test_appended_rows_are_identified_by_key_or_by_all_columns(
    database: Connection,
    postgres_dsn: str,
    platform: Settings,
    log: Log,
) -> None:
    orders(database, cursor="changed text")
    job = table_job(log, postgres_dsn, platform, schema=KEYLESS)
    for number, changed in enumerate(["b", "B", "a", "ä", "b"]):
        put(database, number, changed, who=f"{number}")

    read(job, platform)
    read(job, platform)

    found = facts(job, log.records(job.output, count=6))
    ids = {fact.row_id for fact in found}
    assert len(ids) == 5
    by_bytes = sorted(found[:5], key=lambda fact: fact.row_id)
    assert [fact.values[0] for fact in by_bytes][:2] == ["1", "2"]
    assert by_bytes[-1].values == ("3",)
    assert parse_position(by_bytes[0].row_id).source_id == job.spec.source_id


@pytest.mark.postgres
@pytest.mark.kafka
def test_a_table_error_contains_no_secret(
    database: Connection,
    postgres_dsn: str,
    platform: Settings,
    log: Log,
) -> None:
    orders(database, cursor="changed int")

    with pytest.raises(TableError, match="has no column `nothing`"):
        read(table_job(log, postgres_dsn, platform, cursor="nothing"), platform)
    database.execute("DROP TABLE shop.orders")
    with pytest.raises(TableError, match=r'relation "shop.orders" does not exist'):
        read(table_job(log, postgres_dsn, platform), platform)


def test_places_sort_as_cursors_do() -> None:
    cursors: list[list[Any]] = [
        [-5, 0, 7, 2**62],
        [T0, T0 + dt.timedelta(microseconds=1), T0 + dt.timedelta(days=400)],
        [dt.date(1960, 1, 1), dt.date(2024, 1, 1)],
        ["", "a", "aaaaaaaab", "aaaaaaaac", "b", "ä"],
    ]

    for ascending in cursors:
        places = [place_of(cursor, [1]) for cursor in ascending]
        assert places == sorted(places)
        assert len(set(places)) == len(places)


@pytest.mark.parametrize("value", [None, True, 2.5, 2**63, b"x"])
def test_an_unordered_column_cannot_be_a_cursor(value: object) -> None:
    with pytest.raises(NoCursorError):
        cursor_of(value)


def test_a_number_cursor_is_read_again_from_its_value_disorder_ago() -> None:
    reach = TablePosition()
    for at, high in [(0, 10), (50, 20), (120, 30)]:
        reach = reach.after(high, now_us=at, disorder_us=100)

    assert TablePosition().start(now_us=0, disorder_us=100) is None
    assert reach.start(now_us=120, disorder_us=100) == 10
    assert reach.start(now_us=160, disorder_us=100) == 20
    assert TablePosition.parse(json.loads(json.dumps(reach.plain()))) == reach


def test_an_instant_is_read_again_from_before_it() -> None:
    reach = TablePosition().after(T0, now_us=5, disorder_us=HOUR_US)

    assert reach.start(now_us=6, disorder_us=HOUR_US) == T0 - dt.timedelta(hours=1)
    assert TablePosition.parse(json.loads(json.dumps(reach.plain()))) == reach
