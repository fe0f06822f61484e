"""A job is divided by the partitions of its log where no part needs the state of another one."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._compiler.blueprint import compile_blueprint
from narthex._ir.assets import AssetBlueprint, IndexSpec, ResolvedAsset, ResolvedNeed, Trigger
from narthex._ir.code import UserCode
from narthex._ir.entities import Dataset, Definitions
from narthex._ir.operators import DatasetRef, Filter
from narthex._ir.shards import murmur2, partition_of, shards_of_index, shards_of_job

CODE = UserCode(entry="f", source="f = len", python="3.11")


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_kafkas_own_tests(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(key=st.binary(max_size=40), partitions=st.integers(1, 1024), times=st.integers(1, 4))
def test_a_multiple_of_the_partitions_divides_each_shard_further(
    key: bytes, partitions: int, times: int
) -> None:
    more = partition_of(key, partitions * times)

    assert more % partitions == partition_of(key, partitions)


def _resolved(definitions: Definitions) -> dict[str, ResolvedAsset]:
    assets = compile_blueprint(definitions).assets
    by_ref = {asset.ref: asset for asset in assets}

    def resolved(asset: AssetBlueprint) -> ResolvedAsset:
        needs = tuple(
            ResolvedNeed(
                role=need.role,
                kind=need.asset.kind,
                asset_id=0,
                physical_name="",
                spec=by_ref[need.asset].spec,
            )
            for need in asset.needs
        )
        return ResolvedAsset(
            asset_id=0,
            kind=asset.kind,
            physical_name="",
            fingerprint=asset.fingerprint,
            spec=asset.spec,
            needs=needs,
        )

    return {path: resolved(asset) for asset in assets for path in asset.paths}


def _divided(definitions: Definitions, partitions: int) -> Definitions:
    datasets = tuple(attrs.evolve(one, partitions=partitions) for one in definitions.datasets)
    return attrs.evolve(definitions, datasets=datasets)


def test_an_index_has_a_shard_for_each_partition_of_its_log(shop: Definitions) -> None:
    assets = _resolved(_divided(shop, 3))

    shards = {path: shards_of_job(asset) for path, asset in assets.items()}
    assert shards["dataset/Users/index_feed"] == 3
    assert shards["dataset/Users/history_feed"] == 1


@pytest.mark.parametrize(("partitions", "shards"), [(1, 1), (2, 1), (3, 3), (1024, 1024)])
def test_the_work_on_a_log_of_few_partitions_is_not_divided(
    shop: Definitions, partitions: int, shards: int
) -> None:
    assets = _resolved(_divided(shop, partitions))

    assert shards_of_job(assets["dataset/Users/index_feed"]) == shards


def test_an_index_that_one_shard_cannot_answer_is_not_divided(shop: Definitions) -> None:
    assets = _resolved(_divided(shop, 3))

    by_other_columns = assets["job/Enriched/pipeline/join_users/left_feed"]
    assert shards_of_job(by_other_columns) == 1
    assert shards_of_job(assets["job/Enriched/pipeline/join_users"]) == 1


def test_an_index_whose_rows_move_between_groups_is_not_divided(shop: Definitions) -> None:
    assets = _resolved(_divided(shop, 3))
    spec = assets["dataset/Spend/index"].spec
    assert isinstance(spec, IndexSpec)
    assert spec.correctable
    assert shards_of_job(assets["dataset/Spend/index_feed"]) == 1

    assert shards_of_index(attrs.evolve(spec, correctable=False), 3) == 3
    keyed = assets["dataset/Users/index"].spec
    assert isinstance(keyed, IndexSpec)
    assert shards_of_index(attrs.evolve(keyed, correctable=True), 3) == 3


def test_a_stage_of_code_has_a_shard_for_each_partition(
    edited: Callable[[str, Callable[[Dataset], Dataset]], Definitions],
) -> None:
    def change(one: Dataset) -> Dataset:
        (pipeline,) = one.pipelines
        changed = attrs.evolve(pipeline, terminal=Filter(DatasetRef("Orders"), CODE))
        (orders,) = (d for d in edited("Orders", lambda d: d).datasets if d.name == "Orders")
        return attrs.evolve(one, pipelines=(changed,), schema=orders.schema)

    job = _resolved(_divided(edited("Enriched", change), 3))["job/Enriched/pipeline/join_users"]
    spec: Any = job.spec

    assert spec.trigger is Trigger.STAGE
    assert shards_of_job(job) == 3
