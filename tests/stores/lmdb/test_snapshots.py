"""A snapshot contains the state at one instant, on any snapshot store."""

import datetime as dt
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest
from pyarrow import fs

from narthex_stores import (
    BrokenSnapshotError,
    EnvironmentMissingError,
    NoSuchSnapshotError,
    SnapshotStore,
)

NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=dt.UTC)
MakeStore = Callable[[Path], SnapshotStore]

# Each transaction writes one number under a hundred keys.
WRITER = """
import itertools, lmdb, sys
environment = lmdb.open(sys.argv[1], map_size=1 << 28, max_dbs=1)
table = environment.open_db(b"numbers")
for number in itertools.count():
    with environment.begin(write=True, db=table) as transaction:
        for key in range(100):
            transaction.put(b"%d" % key, b"%d" % number)
    print(number, flush=True)
"""


@pytest.fixture(scope="module")
def bucket(aws: str) -> fs.FileSystem:
    """A bucket `safe` of a server that speaks S3."""
    store = fs.S3FileSystem(
        access_key="keeper",
        secret_key="of copies",
        region="eu-west-1",
        scheme="http",
        endpoint_override=aws.removeprefix("http://"),
        allow_bucket_creation=True,
    )
    store.create_dir("safe")
    return store


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    if request.param == "directory":
        return SnapshotStore(fs.LocalFileSystem(), str(tmp_path / "kept"))
    return SnapshotStore(request.getfixturevalue("bucket"), f"safe/{tmp_path.name}")


def put(path: Path, **values: str) -> None:
    path.mkdir(exist_ok=True)
    with lmdb.open(str(path), map_size=1 << 24) as environment, environment.begin(write=True) as t:
        for key, value in values.items():
            t.put(key.encode(), value.encode())


def content(path: Path, table: bytes | None = None) -> dict[bytes, bytes]:
    with lmdb.open(str(path), readonly=True, max_dbs=1) as environment:
        opened = environment.open_db(table, create=False) if table else None
        with environment.begin(db=opened) as transaction:
            return dict(transaction.cursor())


def take(store: SnapshotStore, path: Path, *, minutes: int = 0, **said: str) -> str:
    at = NOON + dt.timedelta(minutes=minutes)
    return store.take("nx_a", path, at=at, describe=lambda _: said).snapshot_id


def test_a_restored_snapshot_equals_the_original(store: SnapshotStore, tmp_path: Path) -> None:
    put(tmp_path / "a", one="1", two="2")
    (tmp_path / "a" / "OWNER.json").write_text("mine")
    store.take(
        "nx_a", tmp_path / "a", at=NOON, describe=lambda _: {"seen": 2}, beside=("OWNER.json",)
    )
    put(tmp_path / "a", two="other", three="3")

    view = store.find("nx_a")
    store.restore(view, tmp_path / "b")

    assert content(tmp_path / "b") == {b"one": b"1", b"two": b"2"}
    assert (tmp_path / "b" / "OWNER.json").read_text() == "mine"
    assert (view.taken_at, view.said) == (NOON, {"seen": 2})
    assert sorted(path.name for path in tmp_path.glob("*b*")) == ["b"]


def test_the_latest_snapshots_are_retained_and_found_by_instant(
    store: SnapshotStore, tmp_path: Path
) -> None:
    ids = []
    for minutes in range(4):
        put(tmp_path / "a", minute=str(minutes))
        ids.append(take(store, tmp_path / "a", minutes=minutes))

    assert store.prune("nx_a", keep=2) == 2

    assert [view.snapshot_id for view in store.list()] == [ids[3], ids[2]]
    store.restore(store.find("nx_a", ids[2]), tmp_path / "b")
    assert content(tmp_path / "b") == {b"minute": b"2"}
    with pytest.raises(NoSuchSnapshotError, match=f"no snapshot `{ids[0]}` of `nx_a`"):
        store.find("nx_a", ids[0])


def test_a_partial_snapshot_does_not_exist(store: SnapshotStore, tmp_path: Path) -> None:
    put(tmp_path / "a", one="1")
    snapshot_id = take(store, tmp_path / "a")
    store.system.delete_file(f"{store.directory}/nx_a/{snapshot_id}/snapshot.json")

    assert store.list() == ()
    with pytest.raises(NoSuchSnapshotError):
        store.find("nx_a")


def test_a_damaged_snapshot_is_refused_and_nothing_stays(
    store: SnapshotStore, tmp_path: Path
) -> None:
    put(tmp_path / "a", one="1")
    place = f"{store.directory}/nx_a/{take(store, tmp_path / 'a')}/data.mdb"
    with store.system.open_output_stream(place) as data:
        data.write(b"other bytes")

    with pytest.raises(BrokenSnapshotError, match="is damaged"):
        store.restore(store.find("nx_a"), tmp_path / "b")

    assert list(tmp_path.glob("*b*")) == []


def test_a_restore_refuses_an_existing_target(store: SnapshotStore, tmp_path: Path) -> None:
    put(tmp_path / "a", one="1")
    take(store, tmp_path / "a")
    put(tmp_path / "b", other="1")

    with pytest.raises(Exception, match="b"):
        store.restore(store.find("nx_a"), tmp_path / "b")

    assert content(tmp_path / "b") == {b"other": b"1"}


def test_an_equal_state_is_recognised(store: SnapshotStore, tmp_path: Path) -> None:
    put(tmp_path / "a", one="1")
    take(store, tmp_path / "a")
    again = store.find("nx_a")
    put(tmp_path / "a", one="2")
    take(store, tmp_path / "a", minutes=1)

    assert store.find("nx_a").state != again.state
    take(store, tmp_path / "a", minutes=2)
    assert len({view.state for view in store.list()}) == 2


def test_a_copy_is_of_one_instant_while_another_process_writes(tmp_path: Path) -> None:
    store = SnapshotStore(fs.LocalFileSystem(), str(tmp_path / "kept"))
    (tmp_path / "a").mkdir()
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path / "a")],
        stdout=subprocess.PIPE,
    )
    try:
        assert writer.stdout is not None
        for minutes in range(5):
            while int(writer.stdout.readline()) < minutes * 20:
                pass
            take(store, tmp_path / "a", minutes=minutes)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()

    for view in store.list():
        store.restore(view, tmp_path / view.snapshot_id)
        found = content(tmp_path / view.snapshot_id, b"numbers")
        assert len(found) == 100
        assert len(set(found.values())) == 1


def test_an_absent_environment_has_no_snapshot(tmp_path: Path) -> None:
    store = SnapshotStore(fs.LocalFileSystem(), str(tmp_path / "kept"))

    with pytest.raises(EnvironmentMissingError):
        take(store, tmp_path / "nowhere")
    assert store.list() == ()
