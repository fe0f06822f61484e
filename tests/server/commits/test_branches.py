"""Branches through the API: cloned without a call to any store, isolated, shared, brought back."""

from typing import Any
from uuid import UUID

import attrs
import pytest

from narthex._ir.assets import AssetKind
from narthex._ir.entities import Definitions, WebhookEndpoint
from narthex_stores import InMemoryAdapter
from tests.cases import every
from tests.server.conftest import House
from tests.server.driving import accept, catch_up, create_all, serve, shown, step
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres

Adapters = dict[AssetKind, InMemoryAdapter]


def on(branch: str, **headers: str) -> dict[str, str]:
    return {"x-narthex-branch": branch, **headers}


def call(house: House, path: str, branch: str, body: Any = None, **headers: str) -> Any:
    return house.client.post(f"/api/v1/{path}", json=body or {}, headers=on(branch, **headers))


def clone(house: House, name: str, source: str = "main", **headers: str) -> Any:
    return call(house, "init", name, {"clone_from": source}, **headers)


def calls_of(adapters: Adapters) -> int:
    return sum(len(adapter.calls) for adapter in adapters.values())


def wide(count: int) -> Definitions:
    """Many datasets, each with an endpoint of its own."""
    shop = shop_definitions()
    users = next(one for one in shop.datasets if one.name == "Users")
    datasets = tuple(
        attrs.evolve(
            users,
            name=f"Users{number}",
            sources=tuple(
                attrs.evolve(
                    source, connector=WebhookEndpoint(webhook="shop", endpoint=f"users{number}")
                )
                for source in users.sources
            ),
        )
        for number in range(count)
    )
    return Definitions(datasets=datasets, featuresets=())


def without_featuresets() -> Definitions:
    return attrs.evolve(shop_definitions(), featuresets=())


@pytest.mark.slow
def test_a_clone_of_two_hundred_assets_calls_no_store_and_creates_nothing(
    house: House, adapters: Adapters
) -> None:
    commit_id = serve(house, wide(25))
    assets = shown(house.client, commit_id)["assets"]
    before = calls_of(adapters)

    answer = clone(house, "copy")

    assert len(assets) >= 200
    assert before >= len(assets) / 2
    assert answer.status_code == 200, answer.text
    assert calls_of(adapters) == before
    assert {a["refs"] for a in shown(house.client, answer.json()["head"])["assets"]} == {4}


def test_a_clone_answers_what_its_source_answers_and_then_goes_its_own_way(house: House) -> None:
    serve(house, shop_definitions())
    clone(house, "copy")

    serve(house, without_featuresets(), **on("copy"))

    features = {
        branch: house.client.get("/api/v1/featuresets", headers=on(branch)).json()["featuresets"]
        for branch in ("main", "copy")
    }
    assert [one["name"] for one in features["main"]] == ["Buyer"]
    assert features["copy"] == []


def test_a_commit_on_a_clone_shares_every_asset_and_waits_for_nothing(house: House) -> None:
    serve(house, shop_definitions())
    clone(house, "copy")

    commit_id = accept(house.client, shop_definitions(), **on("copy"))

    assert step(house.client, commit_id, "plan") == {"assets": []}
    plan = shown(house.client, commit_id)["plan"]
    assert {tuple(asset["shared_with"]) for asset in plan["share"]} == {("main", "copy")}


def test_an_endpoint_has_one_topic_whichever_branches_have_it(house: House) -> None:
    serve(house, shop_definitions())
    call(house, "init", "dev")
    serve(house, without_featuresets(), **on("dev"))

    topics = {
        house.services.snapshots.head(branch).topic("webhook/shop/orders/ingest")
        for branch in ("main", "dev")
    }

    assert len(topics) == 1


def test_the_same_call_with_its_key_makes_one_branch(house: House) -> None:
    serve(house, shop_definitions())
    key = {"idempotency-key": "a-key-of-this-test"}

    first, again = clone(house, "copy", **key), clone(house, "copy", **key)
    other = clone(house, "else", **key)
    taken = clone(house, "copy")

    assert (first.status_code, again.json()) == (200, first.json())
    assert other.status_code == 409
    assert taken.status_code == 409
    assert "branch `copy` already exists" in taken.json()["err_msg"]


def test_a_deleted_branch_is_listed_and_can_be_restored(house: House) -> None:
    serve(house, shop_definitions())
    clone(house, "copy")

    gone = call(house, "delete", "copy")
    refused = house.client.get("/api/v1/featuresets", headers=on("copy"))
    listed = house.client.get("/api/v1/branch/list").json()
    back = call(house, "undelete", "copy")
    answered = house.client.get("/api/v1/featuresets", headers=on("copy"))

    assert gone.json()["state"] == "deleted"
    assert refused.status_code == 404
    assert [one["name"] for one in listed["branches"]] == ["main"]
    (deleted,) = listed["deleted"]
    assert deleted["name"] == "copy"
    assert deleted["undelete_until"]
    assert back.status_code == 200, back.text
    assert answered.json()["featuresets"][0]["name"] == "Buyer"


@every(
    ("path", "branch", "body", "status"),
    [
        ("delete", "main", {}, 409),
        ("delete", "nowhere", {}, 404),
        ("undelete", "nowhere", {}, 404),
        ("init", "dev", {"clone_from": "nowhere"}, 404),
        ("init", "two words", {}, 400),
        ("init", "x" * 201, {}, 400),
        ("init", "dev", {"clone": "main"}, 400),
    ],
)
def test_a_branch_that_cannot_be_is_refused_with_the_reason(
    house: House, path: str, branch: str, body: Any, status: int
) -> None:
    answer = call(house, path, branch, body)

    assert answer.status_code == status, answer.text
    assert answer.json()["err_msg"]
    assert [one.name for one in house.ledger.branches.all(house.services.tenant)] == ["main"]


def test_a_deletion_during_a_commit_names_the_commit(house: House) -> None:
    call(house, "init", "dev")
    commit_id = accept(house.client, shop_definitions(), **on("dev"))
    create_all(house.client, commit_id)

    answer = call(house, "delete", "dev")

    assert answer.status_code == 409
    assert answer.json()["detail"] == {"commit_id": commit_id}


def test_commits_are_listed_by_branch(house: House) -> None:
    main = serve(house, shop_definitions())
    copy = clone(house, "copy").json()["head"]

    listed = {
        branch: [
            (one["commit_id"], one["kind"])
            for one in house.client.get("/api/v1/commits", headers=on(branch)).json()["commits"]
        ]
        for branch in ("main", "copy")
    }

    assert listed == {"main": [(main, "deploy")], "copy": [(copy, "clone")]}


def test_a_clone_with_a_promotion_due_is_driven_to_its_readers(house: House) -> None:
    serve(house, shop_definitions())
    commit_id = accept(house.client, without_featuresets())
    create_all(house.client, commit_id)
    for name in ("ready", "commit"):
        step(house.client, commit_id, name)

    copy = clone(house, "copy").json()
    catch_up(house)
    house.services.recovery.look_after(UUID(copy["head"]))

    assert (copy["head_seq"], copy["serving_seq"]) == (2, 1)
    (found,) = [b for b in house.ledger.branches.all(house.services.tenant) if b.name == "copy"]
    assert found.serving_seq == 2
    assert shown(house.client, copy["head"])["state"] == "FINALIZED"
