"""One specification of reading tables by their cursor, for every kind of database."""

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from narthex._connectors import kind_of, source_kind
from narthex._ir.connections import Table
from narthex_spark_apps.platform.optional_clients import load_part
from narthex_spark_apps.sources.tables.cursors import Cursor, cursor_of
from narthex_spark_apps.sources.tables.reader import ReadsTable, TableAccess, TableError
from tests.spark_apps.sources.mariadb import MISSING, MariaDb, has_mariadb, mariadb_server
from tests.spark_apps.sources.table_worlds import (
    ACCOUNTS,
    World,
    account_world,
    mysql_world,
    postgres_world,
)

T0 = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """Run one MariaDB for the session."""
    if not has_mariadb():
        pytest.skip(MISSING)
    with mariadb_server(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture(
    params=[
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("redshift's code on postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mysql),
        *(
            pytest.param(
                kind,
                marks=pytest.mark.skipif(
                    variable not in os.environ,
                    reason=f"notimpl: needs an account of {kind}, described by {variable}",
                ),
            )
            for kind, variable in ACCOUNTS.items()
        ),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Yield each kind of database in turn."""
    match request.param:
        case "postgres":
            yield from postgres_world(request.getfixturevalue("postgres_dsn"))
        case "redshift's code on postgres":
            dsn = request.getfixturevalue("postgres_dsn")
            yield from postgres_world(dsn, as_redshift=True)
        case "mariadb":
            yield from mysql_world(request.getfixturevalue("mariadb"))
        case kind:
            yield from account_world(kind)


def reader_of(table: Table) -> ReadsTable:
    found: ReadsTable = load_part(source_kind(table).client, install=kind_of(table).install)
    return found


def read(access: TableAccess, start: Cursor | None = None) -> list[dict[str, Any]]:
    with reader_of(access.table)(access, start) as reading:
        return [dict(row) for batch in reading.batches for row in batch]


def ids(rows: Sequence[dict[str, Any]]) -> list[int]:
    return [int(row["id"]) for row in rows]


def in_utc(value: object) -> object:
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value


def test_rows_come_in_the_order_of_their_instants_from_one_on(world: World) -> None:
    access = world.make("instants", cursor="instant")
    at = [T0 + dt.timedelta(hours=3), T0, None, T0 + dt.timedelta(microseconds=world.tick_us)]
    for number, changed in enumerate(at):
        world.put(access, number, changed)

    rows = read(access)
    again = read(access, cursor_of(rows[1]["changed"]))

    assert ids(rows) == [1, 3, 0]
    assert [in_utc(row["changed"]) for row in rows] == [at[1], at[3], at[0]]
    assert ids(again) == [3, 0]
    assert rows[0]["who"] == "ann"
    assert float(rows[0]["amount"]) == 2.5


def test_rows_come_in_the_order_of_their_numbers_from_one_on(world: World) -> None:
    access = world.make("numbers", cursor="number")
    for number, changed in enumerate([7, -3, None, 2**62, 7]):
        world.put(access, number, changed)

    rows = read(access)

    assert [cursor_of(row["changed"]) for row in rows] == [-3, 7, 7, 2**62]
    assert {*ids(read(access, 7))} == {0, 3, 4}
    assert read(access, 2**62 + 1) == []


def test_rows_come_in_the_byte_order_of_their_texts_from_one_on(world: World) -> None:
    access = world.make("texts", cursor="text")
    for number, changed in enumerate(["b", "B", "a", "ä", "a ", "", "\U0001f600", "\uffee"]):
        world.put(access, number, changed)

    rows = read(access)

    texts = [str(row["changed"]) for row in rows]
    assert texts == sorted(texts, key=str.encode)
    assert len(texts) == 8
    assert [row["changed"] for row in read(access, "a ")] == [
        "a ",
        "b",
        "ä",
        "\uffee",
        "\U0001f600",
    ]


def test_rows_are_identified_by_the_keys_that_the_database_enforces(world: World) -> None:
    access = world.make("keyed", cursor="instant")

    with reader_of(access.table)(access, None) as reading:
        found = reading.key

    assert found == world.key


def test_a_reading_may_end_before_its_rows_do(world: World) -> None:
    access = world.make("many", cursor="number")
    for number in range(3):
        world.put(access, number, number)

    with reader_of(access.table)(access, None) as reading:
        first = next(iter(reading.batches))

    assert ids([dict(row) for row in first])[0] == 0


def test_a_missing_table_or_column_is_reported(world: World) -> None:
    access = world.make("told", cursor="number")

    if world.has_schema:
        with pytest.raises(TableError, match=r"nothing|NOTHING"):
            read(world.renamed(access, cursor="nothing"))
        with pytest.raises(TableError):
            read(world.renamed(access, table="no_such_table"))
    with pytest.raises(TableError) as refused:
        read(world.with_word(access, "not-the-password"))
    assert "not-the-password" not in str(refused.value)
