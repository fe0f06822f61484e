"""Routes and pages that list the newest commits which changed a dataset or featureset."""

from uuid import UUID

import attrs
import pytest

from narthex._ir.entities import Definitions
from narthex_ledger import Ledger
from narthex_server.deploy.executor import definitions_of
from narthex_server.security.route_rights import Right
from narthex_server.services import entity_changes
from narthex_server.services.entity_changes import LOOKED_AT, EntityChanges
from tests.server.conftest import House
from tests.server.driving import accept, serve
from tests.server.shop import shop_definitions

pytestmark = pytest.mark.postgres


def described(text: str) -> Definitions:
    """Return the shop with another description of `Spend`."""
    shop = shop_definitions()
    datasets = tuple(
        attrs.evolve(one, metadata=attrs.evolve(one.metadata, description=text))
        if one.name == "Spend"
        else one
        for one in shop.datasets
    )
    return attrs.evolve(shop, datasets=datasets)


@pytest.fixture
def shop(house: House) -> House:
    """Three commits of which the second changes `Spend`, and one that has not taken effect."""
    serve(house, shop_definitions(), **{"idempotency-key": "commit one"})
    serve(house, described("Totals."), **{"idempotency-key": "commit two"})
    serve(house, described("Totals."), **{"idempotency-key": "commit three"})
    accept(house.client, described("All."), **{"idempotency-key": "commit four"})
    return house


def test_the_commits_that_changed_an_entity_are_listed_newest_first(shop: House) -> None:
    spend = shop.client.get("/api/v1/datasets/Spend/commits").json()
    newest = shop.client.get("/api/v1/datasets/Spend/commits", params={"limit": 1}).json()
    orders = shop.client.get("/api/v1/datasets/Orders/commits").json()["commits"]
    buyer = shop.client.get("/api/v1/featuresets/Buyer/commits").json()["commits"]
    unknown = [
        shop.client.get(f"/api/v1/{one}/Nothing/commits") for one in ("datasets", "featuresets")
    ]

    assert [(one["seq"], one["changes"]) for one in spend["commits"]] == [
        (2, ["i dataset `Spend`: its metadata or its index"]),
        (1, ["+ dataset `Spend` v1"]),
    ]
    assert {(one["kind"], bool(one["committed_at"])) for one in spend["commits"]} == {
        ("deploy", True)
    }
    assert spend["looked_at"] == LOOKED_AT
    assert newest["commits"] == spend["commits"][:1]
    assert [one["changes"] for one in orders] == [["+ dataset `Orders` v1"]]
    assert [one["changes"] for one in buyer] == [["+ featureset `Buyer`"]]
    assert [one.status_code for one in unknown] == [404, 404]


def test_a_commit_is_compared_once(shop: House, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[UUID | None] = []

    def counted(ledger: Ledger, commit_id: UUID | None) -> Definitions | None:
        decoded.append(commit_id)
        return definitions_of(ledger, commit_id)

    monkeypatch.setattr(entity_changes, "definitions_of", counted)
    changes = EntityChanges(shop.ledger)
    branch = shop.ledger.branches.get(shop.services.tenant, "main").branch_id

    first = changes.of(branch, "dataset", "Spend")
    assert (len(first), len(decoded)) == (2, 3)
    again = changes.of(branch, "dataset", "Spend")

    assert again == first
    assert len(decoded) == 3


def test_a_token_of_some_tags_sees_no_lines(shop: House) -> None:
    token = "nx_narrow_0123456789012345678901234567"
    shop.ledger.tokens.put(token, name="narrow", scopes=tuple(Right), tags=("pii",))

    answer = shop.client.get(
        "/api/v1/datasets/Spend/commits", headers={"authorization": f"Bearer {token}"}
    )

    assert [one["changes"] for one in answer.json()["commits"]] == [[], []]
