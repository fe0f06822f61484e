"""Lineage and details of entities, from the definitions of a branch."""

import pytest

from tests.server.conftest import House
from tests.server.driving import accept, create_all, step
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres


@pytest.fixture
def shop(house: House) -> House:
    commit_id = accept(house.client, shop_definitions())
    create_all(house.client, commit_id)
    for name in ("ready", "commit"):
        step(house.client, commit_id, name)
    return house


def test_lineage_goes_from_endpoints_to_features(shop: House) -> None:
    found = shop.client.get("/api/v1/lineage").json()

    edges = {(edge["from"], edge["to"]) for edge in found["edges"]}
    kinds = {node["name"]: node["kind"] for node in found["nodes"]}
    assert {
        ("Orders", "Spend"),
        ("Spend", "Buyer.spent"),
        ("Users", "Buyer.country"),
        ("Buyer.user", "Buyer.spent"),
        ("Buyer.orders_1h", "Buyer.is_busy"),
        ("Buyer.spent", "Buyer.rank"),
    } <= edges
    sources = [start for start, end in edges if end == "Orders"]
    assert [kinds[name] for name in sources] == ["source"]
    assert (kinds["Spend"], kinds["Buyer.rank"]) == ("dataset", "feature")
    assert len(edges) == len(found["edges"])


def test_xray_returns_the_requested_properties(shop: House) -> None:
    everything = shop.client.get("/api/v1/xray").json()
    some = shop.client.get(
        "/api/v1/xray", params={"datasets": "Spend", "properties": "version,keys"}
    ).json()
    unknown = shop.client.get("/api/v1/xray", params={"featuresets": "Nobody"})

    assert [one["name"] for one in everything["datasets"]] == ["Orders", "Users", "Spend"]
    assert everything["featuresets"][0]["features"]["spent"] == "float"
    assert some == {
        "datasets": [{"name": "Spend", "version": 1, "keys": ["user"]}],
        "featuresets": [],
    }
    assert unknown.status_code == 404
