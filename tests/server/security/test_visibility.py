"""Tags follow the rows; for a token of some tags nothing else is there."""

import json
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from narthex._base import from_plain
from narthex._ir.entities import Definitions, Expectation, Featureset, LookupExtractor
from narthex_server.definitions.inherited_tags import changed_entities, tags_of
from narthex_server.security.route_rights import Right
from tests.cases import every
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.declared import DECLARED
from tests.server.driving import serve
from tests.server.security.test_doors import PLACES
from tests.server.shop import payload, shop_definitions

HIDDEN = ("Users", "users", "country", "pii")
"""Tagged definitions, and definitions derived from them."""


def said(definitions: Definitions, name: str, *tags: str) -> Definitions:
    """Return definitions in which a dataset or a feature has these tags."""

    def tagged(one: Any, title: str) -> Any:
        if title != name:
            return one
        return attrs.evolve(one, metadata=attrs.evolve(one.metadata, tags=tags))

    return attrs.evolve(
        definitions,
        datasets=tuple(tagged(one, one.name) for one in definitions.datasets),
        featuresets=tuple(
            attrs.evolve(
                one, features=tuple(tagged(f, f"{one.name}.{f.name}") for f in one.features)
            )
            for one in definitions.featuresets
        ),
    )


def tagged_shop() -> Definitions:
    """Return the shop with a tag, and with expectations of a hidden and of a visible feature."""
    shop = said(shop_definitions(), "Users", "pii")
    expected = tuple(
        Expectation(kind="expect_column_values_to_not_be_null", arguments=(("column", name),))
        for name in ("spent", "country")
    )
    return attrs.evolve(
        shop,
        featuresets=tuple(
            attrs.evolve(one, expectations=expected) if one.name == "Buyer" else one
            for one in shop.featuresets
        ),
    )


def without(definitions: Definitions, dataset: str, feature: str) -> Definitions:
    """Return definitions without a dataset, and without the feature that looks it up."""
    return attrs.evolve(
        definitions,
        datasets=tuple(one for one in definitions.datasets if one.name != dataset),
        featuresets=tuple(
            attrs.evolve(
                one,
                features=tuple(f for f in one.features if f.name != feature),
                expectations=tuple(
                    e for e in one.expectations if dict(e.arguments)["column"] != feature
                ),
                extractors=tuple(
                    e
                    for e in one.extractors
                    if not (isinstance(e, LookupExtractor) and e.feature == feature)
                ),
            )
            for one in definitions.featuresets
        ),
    )


def test_derived_datasets_inherit_tags() -> None:
    have = tags_of(said(shop_definitions(), "Orders", "money")).have

    assert {name for (_, name), tags in have.items() if tags} == {
        "Orders",
        "Spend",
        "Buyer.orders_1h",
        "Buyer.spent",
        "Buyer.is_busy",
        "Buyer.rank",
    }


def test_a_cancelled_tag_does_not_propagate_but_is_recorded() -> None:
    tags = tags_of(said(said(shop_definitions(), "Orders", "money"), "Buyer.spent", "~money"))

    assert {name for (_, name), found in tags.have.items() if found} == {
        "Orders",
        "Spend",
        "Buyer.orders_1h",
        "Buyer.is_busy",
    }
    assert tags.reach["feature", "Buyer.spent"] == {"money"}
    assert tags.reach["feature", "Buyer.rank"] == frozenset()
    assert tags.cancels == {(("feature", "Buyer.spent"), "money")}


def test_a_commit_changes_only_entities_that_differ() -> None:
    before = shop_definitions()
    moved = attrs.evolve(
        before,
        datasets=tuple(
            attrs.evolve(d, origin=attrs.evolve(d.origin, line=d.origin.line + 1))
            for d in before.datasets
        ),
    )

    assert changed_entities(before, moved) == frozenset()
    assert changed_entities(before, said(before, "Users", "pii")) == {("dataset", "Users")}
    assert changed_entities(before, attrs.evolve(before, datasets=before.datasets[1:])) == {
        ("dataset", "Orders")
    }
    assert changed_entities(None, attrs.evolve(before, featuresets=())) == {
        ("dataset", name) for name in ("Orders", "Users", "Spend")
    }


@attrs.frozen(kw_only=True)
class Shop:
    """A branch with what is tagged, and a token that has all rights on what is not."""

    house: House
    ada: TestClient
    commit_id: str


def client_with(house: House, name: str, scopes: tuple[str, ...], *tags: str) -> TestClient:
    token = f"nx_tests_{name}"
    house.ledger.tokens.put(token, name=name, scopes=scopes, tags=tags)
    return TestClient(house.client.app, headers={"authorization": f"Bearer {token}"})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str) -> Iterator[Shop]:
    settings = settings_at(tmp_path_factory.mktemp("shop"), dsn=module_ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        commit_id = serve(house, tagged_shop())
        for dataset in ("Users", "Spend"):
            audit = {"dataset": dataset, "from_us": None, "to_us": 0, "success": True}
            house.client.post("/api/v1/audits", json=audit | {"result": {}})
        ada = client_with(house, "ada", tuple(Right), "team-*")
        yield Shop(house=house, ada=ada, commit_id=commit_id)


def ask(client: TestClient, shop: Shop, key: tuple[str, str], **more: Any) -> Any:
    method, path = key
    for place, value in (PLACES | {"{commit_id}": shop.commit_id, "{name}": "Nobody"}).items():
        path = path.replace(place, value)
    path = path if path.startswith("/console") else f"/api/v1{path}"
    return client.request(method, path, follow_redirects=False, **more)


@pytest.mark.slow
@pytest.mark.postgres
@every("key", DECLARED.pages)
def test_answers_name_no_entity_with_other_tags(shop: Shop, key: tuple[str, str]) -> None:
    answer = ask(shop.ada, shop, key)

    assert not [word for word in HIDDEN if word in answer.text]
    assert (answer.status_code == 403) is (key in DECLARED.whole)


@pytest.mark.postgres
def test_untagged_entities_are_public_and_tagged_ones_need_their_tags(shop: Shop) -> None:
    friend = client_with(shop.house, "eve", ("author",), "pii")
    told = {
        (who, path): ask(client, shop, ("GET", path)).text
        for who, client in (("ada", shop.ada), ("eve", friend))
        for path in ("/datasets", "/featuresets", "/lineage", "/assets", "/jobs", "/audits")
    }

    hidden = ("country" if path == "/featuresets" else "Users" for _, path in told)
    assert {key for key, name in zip(told, hidden, strict=True) if name in told[key]} == {
        key for key in told if key[0] == "eve"
    }
    shown = ("Buyer" if path == "/featuresets" else "Spend" for _, path in told)
    assert {key for key, name in zip(told, shown, strict=True) if name in told[key]} == set(told)


@pytest.mark.postgres
def test_expectations_and_audits_of_hidden_features_are_hidden(shop: Shop) -> None:
    friend = client_with(shop.house, "max", ("author",), "pii")
    audit = {"dataset": "Buyer", "from_us": 0, "to_us": 1, "success": False}
    shop.house.client.post("/api/v1/audits", json=audit | {"result": {"by": "logged"}})

    def seen(client: TestClient) -> Any:
        answer = client.get("/api/v1/featuresets/Buyer").json()
        found = from_plain(answer["definition"])
        assert isinstance(found, Featureset)
        audited = [one["dataset"] for one in client.get("/api/v1/audits").json()["audits"]]
        return {
            "features": "country" in found.columns,
            "expectations": [dict(one.arguments)["column"] for one in found.expectations],
            "audited": "Buyer" in audited,
            "named": [word for word in HIDDEN if word in json.dumps(answer)],
        }

    assert seen(shop.ada) == {
        "features": False,
        "expectations": ["spent"],
        "audited": False,
        "named": [],
    }
    whole = seen(friend)
    assert (whole["features"], whole["expectations"], whole["audited"]) == (
        True,
        ["spent", "country"],
        True,
    )
    assert shop.ada.get("/api/v1/featuresets/Nobody").status_code == 404


@pytest.mark.postgres
def test_a_hidden_dataset_is_as_one_that_is_not_there(shop: Shop) -> None:
    rows = {"webhook": "shop", "data": []}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "datasets/{}", {}),
        ("GET", "dataset/{}/inspect", {}),
        ("POST", "dataset/{}/lookup", {"json": {"keys": []}}),
    ]
    for method, path, more in calls:
        hidden, missing = (
            shop.ada.request(method, f"/api/v1/{path.format(name)}", **more)
            for name in ("Users", "Nobody")
        )
        assert (hidden.status_code, missing.status_code) == (404, 404)
        assert hidden.text.replace("Users", "Nobody") == missing.text
    hidden, missing = (
        shop.ada.post("/api/v1/log", json=rows | {"endpoint": name}) for name in ("users", "nobody")
    )
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.text.replace("users", "nobody") == missing.text
    assert shop.ada.post("/api/v1/log", json=rows | {"endpoint": "orders"}).status_code == 200


@pytest.mark.postgres
@pytest.mark.parametrize("path", ["query", "query_offline"])
def test_a_hidden_feature_is_as_one_that_is_not_there(shop: Shop, path: str) -> None:
    def asked(client: TestClient, *outputs: str) -> Any:
        body = {
            "inputs": ["Buyer.orders_1h"],
            "outputs": outputs,
            "timestamp_column": "at",
            "data": {"Buyer.orders_1h": [3], "at": ["2026-01-01T00:00:00Z"]},
        }
        return client.post(f"/api/v1/{path}", json=body)

    hidden, missing = asked(shop.ada, "Buyer.country"), asked(shop.ada, "Buyer.countri")
    whole, shown = asked(shop.ada, "Buyer"), asked(shop.ada, "Buyer.is_busy")

    assert hidden.status_code == missing.status_code == whole.status_code == 400
    assert hidden.text.replace("country", "countri") == missing.text
    assert shown.status_code == 200, shown.text
    if path == "query":
        assert shown.json() == {"Buyer.is_busy": [True]}


@pytest.mark.postgres
def test_answers_of_a_hidden_feature_are_not_there_either(shop: Shop) -> None:
    body = {
        "inputs": ["Buyer.user"],
        "outputs": ["Buyer.country"],
        "timestamp_column": "at",
        "data": {"Buyer.user": ["ada"], "at": ["2026-01-01T00:00:00Z"]},
    }
    queued = shop.house.client.post("/api/v1/query_offline", json=body)
    assert queued.status_code == 200, queued.text
    params = {"request_id": queued.json()["request_id"]}
    keys = [key for key in DECLARED.rights if key[1].startswith("/query_offline/")]

    answers = {key: ask(shop.ada, shop, key, params=params).status_code for key in keys}

    assert answers == dict.fromkeys(keys, 404)
    assert ask(shop.house.client, shop, keys[0], params=params).status_code == 200


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("wanted", "let_in"),
    [
        (tagged_shop(), True),
        (said(tagged_shop(), "Spend", "team-x"), True),
        (said(tagged_shop(), "Spend", "money"), False),
        (shop_definitions(), False),
        (said(tagged_shop(), "Users", "pii", "team-x"), False),
        (without(tagged_shop(), "Users", "country"), False),
        (said(tagged_shop(), "Buyer.country", "team-x"), False),
    ],
)
def test_a_commit_touches_only_what_its_author_sees_before_and_after(
    shop: Shop, wanted: Definitions, let_in: bool
) -> None:
    answers = {
        who: client.post("/api/v1/commit", content=payload(wanted), params={"preview": True})
        for who, client in (("ada", shop.ada), ("keeper", shop.house.client))
    }

    assert answers["keeper"].status_code == 200, answers["keeper"].text
    assert answers["ada"].status_code == (200 if let_in else 403), answers["ada"].text
    assert "Users" not in answers["ada"].text


@pytest.mark.postgres
def test_to_cancel_a_tag_takes_a_right_of_its_own_and_is_logged(shop: Shop) -> None:
    content = payload(said(tagged_shop(), "Buyer.country", "~pii"))
    author = client_with(shop.house, "bob", ("author",), "*")
    cleared = client_with(shop.house, "carol", ("author", "cancel:tags"), "*")
    blind = client_with(shop.house, "dan", ("author", "cancel:tags"), "team-*")

    answers = [
        one.post("/api/v1/commit", content=content, params={"preview": True})
        for one in (author, blind, cleared)
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 200]
    entries = shop.house.client.get("/api/v1/control-log", params={"limit": 1000}).json()["entries"]
    logged = [one["entry"] for one in entries if "cancelled_tags" in one["entry"]]
    assert [(one["who"], one["status"], one["cancelled_tags"]) for one in logged] == [
        ("carol", 200, ["Buyer.country ~pii"]),
        ("bob", 403, ["Buyer.country ~pii"]),  # refused calls are written later
        ("dan", 403, ["Buyer.country ~pii"]),
    ]
