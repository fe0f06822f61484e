"""Directories of offline queries are deleted a week after the queries' end, and no others."""

import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from narthex_server.deploy.offline_files import delete_expired
from tests.ledger.world import ORDERS, World, blueprint

pytestmark = pytest.mark.postgres

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


@pytest.fixture
def world(ledger_dsn: str) -> Iterator[World]:
    made = World.open(ledger_dsn)
    yield made
    made.close()


def directory_of(root: Path, name: str, *, age: dt.timedelta) -> Path:
    made = root / name
    made.mkdir(parents=True)
    (made / "spine.parquet").write_bytes(b"rows")
    written = (NOW - age).timestamp()
    os.utime(made, (written, written))
    return made


def test_directories_of_queries_that_ended_a_week_ago_are_deleted(
    world: World, tmp_path: Path
) -> None:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    ended, open_ = UUID(int=1), UUID(int=2)
    for request_id in (ended, open_):
        world.ledger.offline_queries.submit(
            request_id, manifest_id=commit_id, request={}, actor="ada"
        )
    world.ledger.offline_queries.cancel(ended)
    old = dt.timedelta(days=8)
    expired = directory_of(tmp_path, str(ended), age=old)
    kept = directory_of(tmp_path, str(open_), age=old)
    soon, later = (world.at(dt.timedelta(days=days)) for days in (6, 8))

    assert delete_expired(tmp_path, soon, now=NOW) == 0
    assert delete_expired(tmp_path, later, now=NOW) == 1

    assert not expired.exists()
    assert kept.exists()


def test_a_directory_without_a_query_is_deleted_once_no_query_can_be_queued_for_it(
    world: World, tmp_path: Path
) -> None:
    fresh = directory_of(tmp_path, str(UUID(int=1)), age=dt.timedelta(hours=23))
    left_behind = directory_of(tmp_path, str(UUID(int=2)), age=dt.timedelta(hours=25))
    other = directory_of(tmp_path, "notes", age=dt.timedelta(days=9))

    assert delete_expired(tmp_path, world.ledger, now=NOW) == 1

    assert (fresh.exists(), left_behind.exists(), other.exists()) == (True, False, True)


def test_an_installation_without_offline_queries_has_nothing_to_delete(
    world: World, tmp_path: Path
) -> None:
    assert delete_expired(tmp_path / "offline", world.ledger, now=NOW) == 0
