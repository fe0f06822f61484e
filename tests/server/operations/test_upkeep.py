"""Collecting, auditing, recovering and the drill, as Airflow's tasks ask for them."""

import importlib
import uuid
from typing import Any

import pytest

from narthex._ir.assets import AssetKind
from narthex_stores import Adapter
from tests.server.conftest import House
from tests.server.driving import deploy
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres


@pytest.fixture
def upkeep() -> Any:
    """Return the module of the tasks, which imports Airflow."""
    return importlib.import_module("narthex_plugins.upkeep")


def ask(house: House, path: str) -> dict[str, object]:
    answer = house.client.post(f"/api/v1/upkeep/{path}")
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def test_an_audit_is_sound_until_something_is_lost(
    house: House, adapters: dict[AssetKind, Adapter], upkeep: Any
) -> None:
    deploy(house.client, shop_definitions())
    sound = ask(house, "audit")
    index = adapters[AssetKind.INDEX]
    lost = next(one for one in index.list("nx_", timeout_s=1.0) if "_mark_" not in one.name)
    index.destroy(lost.name, external_id=lost.external_id, timeout_s=1.0)

    found = ask(house, "audit")

    assert sound["sound"] is True
    assert upkeep.judge(sound) > 10
    assert (found["sound"], found["complete"]) == (False, True)
    with pytest.raises(upkeep.NotSoundError, match=lost.name):
        upkeep.judge(found)


def test_collecting_leaves_alone_what_is_used(house: House) -> None:
    deploy(house.client, shop_definitions())

    assert ask(house, "collect") == {"retired": [], "due": []}
    assert ask(house, "audit")["sound"] is True


def test_recovering_shows_what_has_not_ended(house: House) -> None:
    commit_id = deploy(house.client, shop_definitions())

    (found,) = ask(house, "recover")["unended"]

    assert (found["commit_id"], found["state"]) == (commit_id, "COMMITTED")


def test_a_drill_leaves_a_commit_to_the_recovery_loop(house: House, upkeep: Any) -> None:
    commit_id = upkeep.drill_id("scheduled__2026-11-21")

    begun = ask(house, f"drill/{commit_id}")
    again = ask(house, f"drill/{commit_id}")
    house.services.recovery.look()

    assert begun == again == ask(house, f"drill/{commit_id}")
    assert (begun["state"], begun["owner"], begun["fence"]) == ("PLANNED", f"dead:{commit_id}", 1)
    assert upkeep.drill_id("scheduled__2026-11-21") == commit_id != upkeep.drill_id("another")
    assert uuid.UUID(commit_id).version == 5
    ledger = house.services.ledger
    assert ledger.bundles.get(ledger.commits.get(uuid.UUID(commit_id)).bundle_sha256) != b""


def test_a_store_with_anothers_mark_is_audited_only_when_a_person_adopts_it(
    house: House, adapters: dict[AssetKind, Adapter]
) -> None:
    deploy(house.client, shop_definitions())
    kind = AssetKind.INDEX
    one = adapters[kind].list("nx_", timeout_s=1.0)[0]
    spec = next(a for a in house.services.auditor.ledger.gc.inventory(kind).values()).spec
    adapters[kind].create("nx_tests000_mark_other", spec, asset_id=0, timeout_s=1.0)

    refused = ask(house, "audit")
    adopted = ask(house, "adopt")

    assert (refused["sound"], refused["complete"]) == (False, False)
    assert len(adopted["adopted"]) == 4
    assert ask(house, "audit")["sound"] is True
    assert one.name in {found.name for found in adapters[kind].list("nx_", timeout_s=1.0)}
