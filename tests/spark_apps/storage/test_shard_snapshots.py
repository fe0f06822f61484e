"""Each shard of a divided index has snapshots, and what is lost comes back from them."""

import datetime as dt
import shutil
from pathlib import Path

import attrs
import pytest
import typer

from narthex._formats import key_encoder
from narthex._ir import AssetKind, IndexSpec, ResolvedNeed, partition_of
from narthex.settings import Settings, environment_of
from narthex_server.deploy.store_ownership import OwnedStoreAdapter
from narthex_spark_apps.cli.snapshot_runs import take
from narthex_spark_apps.storage.snapshots import (
    STATE,
    ensure_index,
    names_here,
    place_of,
    restore_snapshot,
    snapshot_name,
    snapshots_of,
    take_snapshot,
)
from narthex_stores import OWNER_FILE, BrokenSnapshotError, LmdbIndexStore, Match, index_store
from tests.stores.indexes.index_suite import KEYED, row

NAME = "nx_ab12cd34_ix_meaning_i1"
SPEC = IndexSpec(log=KEYED, shards=3)
NEED = ResolvedNeed(role="index", kind=AssetKind.INDEX, asset_id=7, physical_name=NAME, spec=SPEC)
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TIMEOUT_S = 10.0


def shard_of(user: str) -> int:
    return partition_of(key_encoder(KEYED.keys)((user,)), SPEC.shards)


USERS = {shard_of(user): user for user in "abcdefghij"}
"""A key of each shard."""


@pytest.fixture
def home(tmp_path: Path, settings_of: Settings) -> Settings:
    return attrs.evolve(
        settings_of,
        index_dir=tmp_path / "index",
        index_store="",
        checkpoint_dir=tmp_path / "checkpoints",
        snapshot_dir=str(tmp_path / "snapshots"),
    )


@pytest.fixture
def copied(home: Settings) -> Settings:
    """An installation with an index of three shards, each with a row and a snapshot."""
    store = index_store(home)
    store.adapter().create(NAME, SPEC, asset_id=7, timeout_s=TIMEOUT_S)
    for shard, user in USERS.items():
        index = store.open(NAME, SPEC, shard=shard)
        index.apply([row(user, 5, b"v")], offsets={("t", shard): 3 + shard}, epoch=1)
        index.close()
    for name in names_here(home):
        assert take_snapshot(snapshots_of(home), name, place_of(home, name), at=AT, keep=1)
    return home


def identity_of(home: Settings) -> tuple[object, ...]:
    """Return what an audit compares with the ledger."""
    adapter = index_store(home).adapter()
    (listed,) = adapter.list(NAME, timeout_s=TIMEOUT_S)
    probed = adapter.probe(NAME, SPEC, timeout_s=TIMEOUT_S)
    assert isinstance(probed, Match)
    return listed, probed


def test_a_divided_index_whose_directory_is_lost_comes_back_whole(copied: Settings) -> None:
    before = identity_of(copied)
    shutil.rmtree(copied.index_dir)

    for shard in (2, 0, 1):
        ensure_index(copied, NEED, shard)

    assert identity_of(copied) == before
    index = LmdbIndexStore(copied.index_dir).open(NAME, SPEC, readonly=True)
    with index.read() as snapshot:
        assert snapshot.offsets == {("t", 0): 3, ("t", 1): 4, ("t", 2): 5}
        assert None not in snapshot.lookup([(user,) for user in USERS.values()], [9, 9, 9])
    index.close()


def test_a_shard_that_is_restored_by_hand_is_a_shard_of_the_same_index(copied: Settings) -> None:
    before = identity_of(copied)
    shutil.rmtree(copied.index_dir)
    store, name = snapshots_of(copied), snapshot_name(NAME, 1)

    restore_snapshot(store, store.find(name), place_of(copied, name))

    assert identity_of(copied) == before
    index = index_store(copied).open(NAME, SPEC, shard=1)
    assert index.offsets() == {("t", 1): 4}
    index.close()


def test_the_mark_of_the_ledger_has_no_snapshots(copied: Settings) -> None:
    names = names_here(copied)
    assert names == tuple(snapshot_name(NAME, shard) for shard in range(3))
    owned = OwnedStoreAdapter(
        inner=index_store(copied).adapter(), install_id="ab12cd34", identity=lambda: "5f0c"
    )

    owned.check()

    assert {path.name for path in copied.index_dir.glob("[a-z]*")} == {
        NAME,
        "nx_ab12cd34_mark_5f0c",
    }
    assert names_here(copied) == names


def test_snapshots_of_all_go_on_without_a_store_that_is_gone(
    copied: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment_of(copied).items():
        monkeypatch.setenv(name, value)
    gone = "nx_ab12cd34_cp_gone_i1"
    place_of(copied, snapshot_name(NAME, 1)).rename(copied.index_dir / ".gone")
    (copied.checkpoint_dir / gone / STATE).mkdir(parents=True)

    take(None, changed=False, keep=None, as_json=False)

    printed = capsys.readouterr()
    taken = [line.split()[0] for line in printed.out.splitlines()]
    assert taken == [snapshot_name(NAME, 0), snapshot_name(NAME, 2)]
    assert f"{snapshot_name(NAME, 1)} was destroyed meanwhile" in printed.err
    assert f"{gone} was destroyed meanwhile" in printed.err
    with pytest.raises(typer.Exit) as ended:
        take([gone], changed=False, keep=None, as_json=False)
    assert ended.value.exit_code == 1
    assert "no LMDB environment exists at" in capsys.readouterr().err


def test_a_snapshot_without_a_readable_mark_is_damaged(copied: Settings) -> None:
    store, name = snapshots_of(copied), snapshot_name(NAME, 1)
    view = attrs.evolve(store.find(name), files={OWNER_FILE: "{}"})
    shutil.rmtree(copied.index_dir)

    with pytest.raises(BrokenSnapshotError, match="damaged"):
        restore_snapshot(store, view, place_of(copied, name))
