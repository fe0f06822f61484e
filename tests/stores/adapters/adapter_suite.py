"""The contract of every adapter, on any store."""

import pytest

from narthex._ir.assets import AssetSpec
from narthex_stores import (
    Absent,
    Adapter,
    ForeignAssetError,
    MalformedNameError,
    Match,
    Mismatch,
)

TIMEOUT_S = 10.0


class AdapterSuite:
    """Inherit, and give the fixtures: an adapter, two specs that differ, a prefix of its own."""

    @pytest.fixture
    def adapter(self) -> Adapter:
        raise NotImplementedError

    @pytest.fixture
    def spec(self) -> AssetSpec:
        raise NotImplementedError

    @pytest.fixture
    def other_spec(self) -> AssetSpec:
        raise NotImplementedError

    @pytest.fixture
    def prefix(self) -> str:
        return "nx_7k2m9q4a_"

    def test_a_new_name_is_absent(self, adapter: Adapter, spec: AssetSpec, prefix: str) -> None:
        assert adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S) == Absent()
        assert adapter.list(prefix, timeout_s=TIMEOUT_S) == ()

    def test_a_created_asset_matches_its_spec(
        self, adapter: Adapter, spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)

        assert isinstance(adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S), Match)

    def test_creating_twice_makes_one_thing(
        self, adapter: Adapter, spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)
        first = adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S)

        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)

        assert adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S) == first
        assert len(adapter.list(prefix, timeout_s=TIMEOUT_S)) == 1

    def test_a_thing_of_another_spec_is_a_mismatch_and_is_never_changed(
        self, adapter: Adapter, spec: AssetSpec, other_spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)

        adapter.create(f"{prefix}a_i1", other_spec, asset_id=8, timeout_s=TIMEOUT_S)

        assert isinstance(adapter.probe(f"{prefix}a_i1", other_spec, timeout_s=TIMEOUT_S), Mismatch)
        assert isinstance(adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S), Match)

    def test_destroying_twice_leaves_nothing(
        self, adapter: Adapter, spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)
        external_id = adapter.list(prefix, timeout_s=TIMEOUT_S)[0].external_id

        adapter.destroy(f"{prefix}a_i1", external_id=external_id, timeout_s=TIMEOUT_S)
        adapter.destroy(f"{prefix}a_i1", external_id=external_id, timeout_s=TIMEOUT_S)

        assert adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S) == Absent()
        assert adapter.list(prefix, timeout_s=TIMEOUT_S) == ()

    def test_a_thing_of_another_id_is_not_destroyed(
        self, adapter: Adapter, spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)

        with pytest.raises(ForeignAssetError):
            adapter.destroy(f"{prefix}a_i1", external_id="another", timeout_s=TIMEOUT_S)

        assert isinstance(adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S), Match)

    def test_a_thing_of_any_id_is_destroyed_when_none_is_given(
        self, adapter: Adapter, spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)

        adapter.destroy(f"{prefix}a_i1", external_id=None, timeout_s=TIMEOUT_S)

        assert adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S) == Absent()

    def test_a_thing_made_anew_has_another_external_id(
        self, adapter: Adapter, spec: AssetSpec, prefix: str
    ) -> None:
        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)
        first = adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S)
        adapter.destroy(f"{prefix}a_i1", external_id=None, timeout_s=TIMEOUT_S)

        adapter.create(f"{prefix}a_i1", spec, asset_id=7, timeout_s=TIMEOUT_S)

        assert adapter.probe(f"{prefix}a_i1", spec, timeout_s=TIMEOUT_S) != first

    def test_a_list_holds_what_the_prefix_names_and_nothing_else(
        self, adapter: Adapter, spec: AssetSpec, prefix: str
    ) -> None:
        for name in (f"{prefix}b_i1", f"{prefix}a_i1", f"x{prefix}c_i1"):
            adapter.create(name, spec, asset_id=7, timeout_s=TIMEOUT_S)

        listed = adapter.list(prefix, timeout_s=TIMEOUT_S)

        assert [thing.name for thing in listed] == [f"{prefix}a_i1", f"{prefix}b_i1"]
        assert {thing.asset_id for thing in listed} <= {7, None}

    def test_a_name_that_could_lead_elsewhere_is_refused(
        self, adapter: Adapter, spec: AssetSpec
    ) -> None:
        for name in ("../etc", "a/b", ".trash", "A", ""):
            with pytest.raises(MalformedNameError):
                adapter.create(name, spec, asset_id=7, timeout_s=TIMEOUT_S)
            with pytest.raises(MalformedNameError):
                adapter.destroy(name, external_id=None, timeout_s=TIMEOUT_S)
