"""The adapter of indexes fulfils the contract of every adapter."""

from pathlib import Path

import pytest
from typing_extensions import override

from narthex._ir.assets import AssetSpec, CheckpointSpec, IndexSpec
from narthex_stores import Adapter, LmdbIndex, PermanentError
from narthex_stores.indexes import index_adapter
from tests.stores.adapters.adapter_suite import TIMEOUT_S, AdapterSuite
from tests.stores.indexes.index_suite import KEYED, contributions_spec

KEYED_INDEX = IndexSpec(log=KEYED)


class TestIndexAdapter(AdapterSuite):
    @pytest.fixture
    @override
    def adapter(self, tmp_path: Path) -> Adapter:
        return index_adapter(tmp_path / "indexes")

    @pytest.fixture
    @override
    def spec(self) -> AssetSpec:
        return KEYED_INDEX

    @pytest.fixture
    @override
    def other_spec(self) -> AssetSpec:
        return contributions_spec((4,))


def test_a_new_index_can_be_read_before_it_was_written(tmp_path: Path) -> None:
    index_adapter(tmp_path).create("nx_a", KEYED_INDEX, asset_id=7, timeout_s=TIMEOUT_S)

    index = LmdbIndex(tmp_path / "nx_a", KEYED_INDEX, readonly=True)
    with index.read() as reader:
        assert reader.lookup([("a",)], [0]) == [None]
        assert reader.offsets == {}
    index.close()


def test_only_the_spec_of_an_index_makes_one(tmp_path: Path) -> None:
    with pytest.raises(PermanentError):
        index_adapter(tmp_path).create(
            "nx_a", CheckpointSpec(job="a"), asset_id=7, timeout_s=TIMEOUT_S
        )
    assert not (tmp_path / "nx_a").exists()
