"""Sinks into tables of databases: their rows after repeated and fenced writes."""

import contextlib
import datetime as dt
import json
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from narthex._connectors.snowflake import SnowflakeDatabase
from narthex._ir.connections import SecretRef, Table
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.optional_clients import load_client
from narthex_spark_apps.sinks.sink_stage import SinkFailedError
from tests.mounted_secrets import grant, mount
from tests.spark_apps import spark_jobs
from tests.spark_apps.conftest import Log
from tests.spark_apps.sinks.sink_world import (
    KEYLESS,
    STORY,
    event,
    instant,
    opened,
    postgres_of,
    query,
    records,
    row,
    run,
    send,
    sink_asset,
    spec_of,
)
from tests.spark_apps.sources.table_worlds import ACCOUNTS

pytestmark = pytest.mark.kafka


@attrs.frozen(kw_only=True)
class Place:
    """A table that does not exist yet, and a reader of some of its columns."""

    table: Table
    read: Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(
    params=[
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param(
            "snowflake",
            marks=pytest.mark.skipif(
                ACCOUNTS["snowflake"] not in os.environ,
                reason="notimpl: needs an account of snowflake, described by "
                + ACCOUNTS["snowflake"],
            ),
        ),
    ]
)
def place(request: pytest.FixtureRequest, platform: Settings) -> Iterator[Place]:
    """Yield each kind of database in turn."""
    if request.param == "snowflake":
        yield from snowflake_place(platform)
    else:
        dsn = request.getfixturevalue("postgres_dsn")
        yield Place(
            table=postgres_of(dsn, platform),
            read=lambda columns: query(dsn, f"SELECT {columns} FROM shop.users"),  # noqa: S608
        )


def snowflake_place(platform: Settings) -> Iterator[Place]:
    parts = json.loads(os.environ[ACCOUNTS["snowflake"]])
    login = {"dw/user": parts.pop("username"), "dw/word": parts.pop("password")}
    mount(platform.secrets_dir, login)
    grant(platform.policy_file, "*.snowflakecomputing.com", secrets=login, allow=[])
    database = SnowflakeDatabase(
        name="dw", username=SecretRef("dw/user"), password=SecretRef("dw/word"), **parts
    )
    name = f"narthex_sink_{secrets.token_hex(4)}"
    module = load_client(
        "narthex_spark_apps.sources.tables.snowflake", install="narthex[snowflake]"
    )
    connect = module.connect
    known = AuthorSecrets.of(platform)
    with contextlib.closing(connect(database, known.reveal, known.egress())) as connection:

        def execute(statement: str) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = connection.cursor().execute(statement).fetchall()
            return found

        yield Place(
            table=Table(database=database, table=name),
            read=lambda columns: execute(f"SELECT {columns} FROM {name}"),  # noqa: S608
        )
        execute(f"DROP TABLE {name}")


def plain(cell: object) -> object:
    """Return a cell in a form that every database can return."""
    if isinstance(cell, dt.datetime):
        return cell.astimezone(dt.UTC)
    return json.loads(cell) if isinstance(cell, str) and cell.startswith("[") else cell


def test_a_table_has_the_current_rows_exactly_once(
    platform: Settings, log: Log, place: Place
) -> None:
    topic = log.topic("users")
    spec = spec_of(place.table, how="incremental", renames=(("name", "who"),))
    send(log, topic, spec, [*STORY, *STORY])
    asset = sink_asset(spec, topic)

    run(asset, platform, 2 * len(STORY))
    owner = opened(asset, platform, 5)
    zombie = opened(asset, spark_jobs.without_checkpoints(platform), 4)
    for stage, fact in ((owner, row(1, 8, 9, name="n'e%w")), (zombie, row(1, 7, 8, name="old"))):
        stage.take(records(spec, [fact], begin=100))
    owner.tell()
    with pytest.raises(SinkFailedError, match="a newer run writes"):
        zombie.tell()
    owner.close()
    zombie.close()

    (found,) = place.read("uid, who, CAST(price AS VARCHAR), tags, at")
    assert [plain(cell) for cell in found] == [1, "n'e%w", "2.50", ["a", "b"], instant(8)]


def test_rows_without_a_key_have_a_column_that_names_them(
    platform: Settings, log: Log, place: Place
) -> None:
    topic = log.topic("events")
    spec = spec_of(place.table, schema=KEYLESS, how="incremental")
    facts = [event(1, 1), event(2, 1), event(1, 2, name="bob"), event(2, 2, alive=False)]
    send(log, topic, spec, facts)

    run(sink_asset(spec, topic), platform, len(facts))

    assert place.read("_narthex_row, name") == [(b"row1".hex(), "bob")]
