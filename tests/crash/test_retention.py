"""Snapshots, answers, and commits that break their gates are deleted in time, others are not."""

import datetime as dt
from pathlib import Path

import attrs
import lmdb
import pytest
from pyarrow import fs

from narthex_ledger import PromotionState
from narthex_stores import SnapshotStore
from tests.crash.matrix import singles
from tests.crash.points import FaultKind
from tests.crash.scenarios import (
    CHECKED,
    EXPIRE,
    FOREIGN,
    LATELY_LEFT,
    NEW,
    NOTHING,
    OLD,
    ONE,
    SPOILT,
    UNENDED,
    ask_offline,
    copy_indexes,
    delete_outputs,
    delete_snapshots,
    deploy,
    settle,
    write_unasked,
)
from tests.crash.world import World, later

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

WEEK = later(days=8)


def test_only_snapshots_of_destroyed_indexes_are_deleted(world: World) -> None:
    life = world.life()
    deploy(1, ONE)(world, life)
    copy_indexes(world, life)
    before = set(world.copies.names)

    delete_snapshots(world, life)
    deploy(2, NOTHING)(world, life)
    world.wait(later(days=1))
    settle(world, life)
    delete_snapshots(world, life)
    assert world.copies.names == before

    world.wait(WEEK)
    settle(world, life)
    delete_snapshots(world, life)
    assert world.copies.names == {FOREIGN}


def test_snapshots_in_a_directory_are_deleted_also_when_they_come_late(
    world: World, tmp_path: Path
) -> None:
    store = SnapshotStore(fs.LocalFileSystem(), str(tmp_path / "snapshots"))
    life = world.life()
    collector = attrs.evolve(life.collector, snapshots=store)
    assert collector.delete_snapshots() == ()
    deploy(1, ONE)(world, life)
    (index,) = (str(row["physical_name"]) for row in world.rows(_INDEXES))
    environment = tmp_path / "environment"
    with lmdb.open(str(environment)) as opened, opened.begin(write=True) as transaction:
        transaction.put(b"key", b"value")

    def take(*names: str) -> None:
        for name in names:
            store.take(name, environment, at=dt.datetime.now(dt.UTC), describe=lambda _: {})

    take(index, f"{index}_s3", FOREIGN)
    assert collector.delete_snapshots() == ()
    deploy(2, NOTHING)(world, life)
    world.wait(WEEK)
    settle(world, life)

    assert collector.delete_snapshots() == (index, f"{index}_s3")
    take(index)
    assert collector.delete_snapshots() == (index,)
    assert collector.delete_snapshots() == ()
    assert [one.name for one in store.list()] == [FOREIGN]


_INDEXES = "SELECT physical_name FROM asset WHERE kind = 'index'"


def test_a_commit_that_breaks_its_gate_is_reverted_with_its_assets(world: World) -> None:
    life = world.life()
    deploy(1, CHECKED)(world, life)
    there = set(world.there())
    deploy(2, SPOILT)(world, life)
    world.wait(WEEK)
    settle(world, life)

    assert set(world.there()) == there
    broken = life.ledger.commits.get(world.commit_id(2))
    assert broken.promotion is PromotionState.SUPERSEDED
    outcomes = life.ledger.audits.gates(world.commit_id(2))
    assert [(one.dataset, one.is_critical) for one in outcomes] == [("bad", True)]


def test_answers_are_deleted_a_week_after_their_queries_end(world: World) -> None:
    life = world.life()
    deploy(1, ONE)(world, life)
    ask_offline(OLD, ends=True)(world, life)
    ask_offline(UNENDED, ends=False)(world, life)
    world.wait(later(days=5))
    ask_offline(NEW, ends=True)(world, life)
    delete_outputs(world, life)
    assert world.outputs.names() == {OLD, UNENDED, NEW}

    world.wait(later(days=4))
    write_unasked(LATELY_LEFT)(world, life)
    delete_outputs(world, life)
    assert world.outputs.names() == {UNENDED, NEW, LATELY_LEFT}

    world.wait(WEEK)
    delete_outputs(world, life)
    assert world.outputs.names() == {UNENDED}


def test_answers_are_deleted_after_each_fault_of_a_deletion(opened: World) -> None:
    outcomes = [go() for go in singles(opened, [EXPIRE])]

    assert len(outcomes) > len(FaultKind)
    assert [one for one in outcomes if one.broken or not one.hit] == []
