"""The number of partitions of a log is its author's, else the deployed one, else the default."""

from collections.abc import Callable

import attrs
import pytest

from narthex._base.records import from_plain, to_plain
from narthex._compiler.blueprint import compile_blueprint
from narthex._compiler.log_reuse import reuse_logs
from narthex._compiler.partitions import decide_partitions
from narthex._formats.wire import CommitPayload, decode_commit, encode_commit
from narthex._ir.assets import AssetBlueprint, AssetKind, IndexSpec, TopicRole, TopicSpec
from narthex._ir.entities import Dataset, Definitions

Edited = Callable[[str, Callable[[Dataset], Dataset]], Definitions]


def by_path(definitions: Definitions) -> dict[str, AssetBlueprint]:
    return {path: asset for asset in compile_blueprint(definitions).assets for path in asset.paths}


def numbers(definitions: Definitions) -> dict[str, int | None]:
    return {one.name: one.partitions for one in definitions.datasets}


def divided(edited: Edited, number: int | None, name: str = "Orders") -> Definitions:
    return edited(name, lambda one: attrs.evolve(one, partitions=number))


def test_new_datasets_have_the_default_unless_the_author_decides(edited: Edited) -> None:
    decided = numbers(decide_partitions(None, divided(edited, 5), default=16))

    assert decided.pop("Orders") == 5
    assert set(decided.values()) == {16}


def test_deployed_datasets_have_the_number_that_they_had(edited: Edited) -> None:
    deployed = divided(edited, 7)

    decided = numbers(decide_partitions(deployed, divided(edited, None), default=16))

    assert decided.pop("Orders") == 7
    assert set(decided.values()) == {2}


def test_datasets_deployed_before_the_option_existed_have_the_same_assets(
    shop: Definitions,
) -> None:
    now = decide_partitions(shop, shop, default=16)

    assert [a.ref for a in compile_blueprint(now).assets] == [
        a.ref for a in compile_blueprint(shop).assets
    ]
    assert reuse_logs(shop, now) == reuse_logs(None, now)


def test_another_number_makes_a_log_and_all_that_is_computed_from_it_anew(
    edited: Edited, shop: Definitions
) -> None:
    before, after = by_path(shop), by_path(divided(edited, 4))

    changed = {path for path in before if before[path].ref != after[path].ref}
    topics = {path: asset.spec for path, asset in after.items()}
    assert {"dataset/Orders/log", "dataset/Orders/history", "dataset/Spend/log"} <= changed
    assert not any(path.startswith("dataset/Users/") for path in changed)
    log = topics["dataset/Orders/log"]
    assert isinstance(log, TopicSpec)
    assert log.partitions == 4


@pytest.mark.parametrize("number", [1, 3])
def test_a_log_is_not_reused_with_another_number_of_partitions(
    edited: Edited, shop: Definitions, number: int
) -> None:
    new = edited("Spend", lambda one: attrs.evolve(one, partitions=number, version=one.version + 1))

    reused = reuse_logs(reuse_logs(None, shop), new)

    assert reused == reuse_logs(None, new)
    assert by_path(reused) == by_path(new)


def test_corrections_and_an_index_are_divided_as_their_log(edited: Edited) -> None:
    assets = by_path(divided(edited, 6, "Users"))

    specs = {path: assets[f"dataset/Users/{path}"].spec for path in ("log", "touched", "index")}
    assert [getattr(specs[name], "partitions", None) for name in ("log", "touched")] == [6, 6]
    assert isinstance(specs["index"], IndexSpec)
    assert specs["index"].shards == 6


def test_an_ingest_topic_has_one_partition(edited: Edited) -> None:
    assets = by_path(divided(edited, 6, "Users"))

    found = {
        asset.spec.partitions
        for asset in assets.values()
        if isinstance(asset.spec, TopicSpec) and asset.spec.role is TopicRole.INGEST
    }
    assert found == {1}


def test_an_index_of_a_deployed_dataset_is_the_one_that_it_was(shop: Definitions) -> None:
    index = by_path(shop)["dataset/Users/index"]

    assert index.kind is AssetKind.INDEX
    assert index.spec == attrs.evolve(index.spec, shards=1)
    assert index.fingerprint.hex() == (
        "affe53cc553647acd8761b019cc143ea30a3d4e8e5151a6dcd44387069ed9e9d"
    )


def test_the_number_travels_with_a_commit(edited: Edited) -> None:
    definitions = divided(edited, 9)
    payload = CommitPayload(message="", definitions=definitions)

    assert decode_commit(encode_commit(payload)).definitions == definitions
    assert from_plain(to_plain(definitions)) == definitions
