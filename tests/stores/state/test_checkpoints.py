import json
from pathlib import Path

import pytest
from typing_extensions import override

from narthex._ir.assets import AssetSpec, CheckpointSpec
from narthex_stores import (
    Adapter,
    ForeignAssetError,
    Mismatch,
    checkpoint_adapter,
    find_owner,
)
from tests.stores.adapters.adapter_suite import TIMEOUT_S, AdapterSuite

JOB = CheckpointSpec(job="a")


class TestCheckpointAdapter(AdapterSuite):
    @pytest.fixture
    @override
    def adapter(self, tmp_path: Path) -> Adapter:
        return checkpoint_adapter(tmp_path / "checkpoints")

    @pytest.fixture
    @override
    def spec(self) -> AssetSpec:
        return JOB

    @pytest.fixture
    @override
    def other_spec(self) -> AssetSpec:
        return CheckpointSpec(job="b")


def test_the_mark_identifies_the_owner_of_a_directory(tmp_path: Path) -> None:
    checkpoint_adapter(tmp_path).create("nx_a", JOB, asset_id=7, timeout_s=TIMEOUT_S)

    owner = find_owner(tmp_path / "nx_a")

    assert owner is not None
    assert (owner.asset_id, owner.name) == (7, "nx_a")


def test_a_directory_that_is_not_ours_is_neither_listed_nor_destroyed(tmp_path: Path) -> None:
    adapter = checkpoint_adapter(tmp_path)
    (tmp_path / "nx_a").mkdir()

    assert adapter.list("nx_", timeout_s=TIMEOUT_S) == ()
    assert isinstance(adapter.probe("nx_a", JOB, timeout_s=TIMEOUT_S), Mismatch)
    with pytest.raises(ForeignAssetError):
        adapter.destroy("nx_a", external_id=None, timeout_s=TIMEOUT_S)
    assert (tmp_path / "nx_a").is_dir()


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    adapter = checkpoint_adapter(tmp_path)
    adapter.create("nx_a", JOB, asset_id=7, timeout_s=TIMEOUT_S)
    (tmp_path / "nx_b").symlink_to(tmp_path / "nx_a")

    with pytest.raises(ForeignAssetError):
        adapter.destroy("nx_b", external_id=None, timeout_s=TIMEOUT_S)

    assert find_owner(tmp_path / "nx_a") is not None


def test_a_create_that_crashed_on_its_way_leaves_nothing_that_is_seen(tmp_path: Path) -> None:
    adapter = checkpoint_adapter(tmp_path)
    (tmp_path / ".making" / "nx_a.0123").mkdir(parents=True)

    adapter.create("nx_a", JOB, asset_id=7, timeout_s=TIMEOUT_S)

    assert len(adapter.list("nx_", timeout_s=TIMEOUT_S)) == 1


def test_a_destroy_that_crashed_after_its_rename_is_finished_by_the_next(tmp_path: Path) -> None:
    adapter = checkpoint_adapter(tmp_path)
    left = tmp_path / ".trash" / "nx_a.0123"
    left.mkdir(parents=True)
    (left / "offsets").write_text("x")

    adapter.destroy("nx_a", external_id="0123", timeout_s=TIMEOUT_S)

    assert not left.exists()


def test_a_mark_of_another_kind_is_a_mismatch(tmp_path: Path) -> None:
    adapter = checkpoint_adapter(tmp_path)
    adapter.create("nx_a", JOB, asset_id=7, timeout_s=TIMEOUT_S)
    mark = tmp_path / "nx_a" / "OWNER.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"kind": "index"}))

    assert isinstance(adapter.probe("nx_a", JOB, timeout_s=TIMEOUT_S), Mismatch)
