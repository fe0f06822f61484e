"""An index that is lost comes back equal: its latest snapshot, and the rest of its log."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from narthex._ir.assets import AssetKind
from narthex.settings import Settings, environment_of
from narthex_spark_apps.storage.snapshots import place_of, snapshot_name
from tests.supervision.plant import Installation, wait_for
from tests.supervision.zombies import driver, jobs_of, take_over

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

DIGEST = """
import hashlib, json, lmdb, pathlib, sys
found = {}
for directory in map(pathlib.Path, sys.argv[1:]):
    with lmdb.open(str(directory), readonly=True, max_dbs=8) as environment:
        for table in (b"facts", b"tiles", b"rows"):
            opened = environment.open_db(table, create=False)
            with environment.begin(db=opened) as transaction:
                pairs = list(transaction.cursor())
            digest = hashlib.sha256(repr(pairs).encode()).hexdigest()
            name = f"{directory.parent.name} {directory.name} {table.decode()}"
            found[name] = [len(pairs), digest]
print(json.dumps(found))
"""


def narthex(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "narthex.cli", "snapshots", *arguments],
        env={**os.environ, **environment_of(settings)},
        capture_output=True,
        text=True,
        check=False,
    )


def indexes(plant: Installation) -> list[str]:
    """Name all indexes, and each shard of those that are divided."""
    return sorted(
        snapshot_name(
            job.asset.need("index").physical_name,
            shard.shard if len(job.shards) > 1 else None,
        )
        for job in jobs_of(plant, AssetKind.INDEX_FEED)
        for shard in job.shards
    )


def contents(settings: Settings, names: Sequence[str]) -> dict[str, object]:
    """Digest all that indexes hold, in a process of its own: this one may have them open."""
    done = subprocess.run(
        [sys.executable, "-c", DIGEST, *(str(place_of(settings, name)) for name in names)],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, object] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def kept_by(plant: Installation, tmp_path: Path) -> Settings:
    """Return the installation a place for snapshots."""
    return attrs.evolve(plant.settings, snapshot_dir=str(tmp_path / "kept"))


def offsets_of(lines: str) -> Mapping[str, Mapping[str, int]]:
    return {view["name"]: view["said"]["offsets"] for view in map(json.loads, lines.splitlines())}


def order(plant: Installation, numbers: Sequence[int]) -> None:
    for number in numbers:
        plant.order(number)


def test_an_index_that_is_lost_while_it_is_written_comes_back_equal(
    plant: Installation, tmp_path: Path
) -> None:
    settings = kept_by(plant, tmp_path)
    names = indexes(plant)
    plant.supervise("one", settings=settings)
    order(plant, range(30))
    plant.wait_exact()
    taken = narthex(settings, "take", "--json")
    assert taken.returncode == 0, taken.stderr
    assert sorted(offsets_of(taken.stdout)) == names
    order(plant, range(30, 60))
    plant.wait_exact()
    before = contents(settings, names)
    assert len(before) == 3 * len(names)

    for name in names:
        shutil.rmtree(place_of(settings, name))
    wait_for(
        lambda: all(place_of(settings, name).is_dir() for name in names),
        what="the indexes exist again",
        so_far=plant.jobs,
    )
    plant.wait_exact()

    def is_equal() -> bool:
        return contents(settings, names) == before

    wait_for(is_equal, what="all of each index is as before", so_far=plant.jobs)
    assert plant.supervisors["one"].log("driver").count("index_restored") == len(names)
    order(plant, range(60, 90))
    plant.wait_exact()


def test_a_new_owner_on_another_machine_restores_what_it_does_not_have(
    plant: Installation, tmp_path: Path
) -> None:
    settings = kept_by(plant, tmp_path)
    there = attrs.evolve(settings, index_dir=tmp_path / "there")
    names = indexes(plant)
    epochs = take_over(plant)
    feeds = jobs_of(plant, AssetKind.INDEX_FEED)
    stages = jobs_of(plant, AssetKind.STREAM_JOB)
    with driver(plant, stages, epochs=epochs, at=tmp_path):
        with driver(plant, feeds, epochs=epochs, at=tmp_path):
            order(plant, range(30))
            plant.wait_exact()
            assert narthex(settings, "take").returncode == 0
            order(plant, range(30, 60))
            plant.wait_exact()
        before = contents(settings, names)
        assert len(before) == 3 * len(names)

        with driver(
            plant, feeds, epochs=take_over(plant), at=tmp_path, settings=there
        ) as elsewhere:
            for job in feeds:
                elsewhere.wait_for(lambda r: r.phase == "caught_up", job, "it has read the rest")
        after = contents(there, names)

    assert list(after.values()) == list(before.values())
    assert elsewhere.story.read_text().count("index_restored") == len(names)


def test_snapshots_are_taken_every_few_minutes_of_what_has_changed(
    plant: Installation, tmp_path: Path
) -> None:
    settings = attrs.evolve(kept_by(plant, tmp_path), snapshot_every_s=1.0, snapshots_kept=2)
    plant.supervise("one", settings=settings)
    order(plant, range(10))
    plant.wait_exact()

    def found() -> Mapping[str, int]:
        listed = narthex(settings, "list", "--json").stdout.splitlines()
        names = [json.loads(line)["name"] for line in listed]
        return {name: names.count(name) for name in names}

    wait_for(lambda: sorted(found()) == indexes(plant), what="one of each", so_far=found)
    order(plant, range(10, 20))
    wait_for(lambda: max(found().values()) == 2, what="a second one", so_far=found)
    order(plant, range(20, 30))
    plant.wait_exact()
    assert set(found().values()) <= {1, 2}


def test_snapshots_can_be_listed_taken_and_restored(plant: Installation, tmp_path: Path) -> None:
    settings = kept_by(plant, tmp_path)
    name = next(name for name in indexes(plant) if place_of(settings, name).name == name)
    nowhere = narthex(attrs.evolve(settings, snapshot_dir=""), "list")
    assert (nowhere.returncode, "`snapshot_dir`" in nowhere.stderr) == (1, True)
    assert "has no snapshot of" in narthex(settings, "restore", name).stderr
    assert narthex(settings, "take", name).returncode == 0
    before = contents(settings, [name])
    assert len(before) == 3

    refused = narthex(settings, "restore", name)
    assert (refused.returncode, "`--replace`" in refused.stderr) == (1, True)
    restored = narthex(settings, "restore", name, "--replace", "--json")

    assert restored.returncode == 0, restored.stderr
    assert json.loads(restored.stdout)["name"] == name
    assert contents(settings, [name]) == before
    assert len(list(settings.index_dir.glob(f".replaced-{name}-*"))) == 1
    assert narthex(settings, "take", "nx_nobody").returncode == 1
