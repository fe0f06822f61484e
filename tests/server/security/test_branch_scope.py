"""A token limited to some branches sees no other branch, on any route."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from uuid import UUID

import attrs
import pytest

from narthex._sdk.commit_definitions import definitions
from narthex_server.security.route_rights import Right
from tests.cases import every
from tests.server.calling import TestClient
from tests.server.conftest import House, house_at, in_memory, settings_at
from tests.server.declared import DECLARED
from tests.server.driving import serve
from tests.server.security.test_doors import PLACES
from tests.server.shop import Users, payload, shop_definitions

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

HIDDEN = "hush/9"
THEIRS = "dev/ada"
TOLD = ("hush", "Orders", "Spend", "Buyer", "rumour")
"""The other branch, what only it has, and what was found there."""


@attrs.frozen(kw_only=True)
class Two:
    """Two branches that share a dataset, and a token for all that may be done on one of them."""

    house: House
    ada: TestClient
    hidden: str
    mine: str


@pytest.fixture(scope="module")
def two(
    tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str, kafka_bootstrap: str
) -> Iterator[Two]:
    settings = settings_at(
        tmp_path_factory.mktemp("two"), dsn=module_ledger_dsn, kafka=kafka_bootstrap
    )
    with house_at(settings, adapters=in_memory()) as house:
        made = {}
        for branch, of in ((HIDDEN, shop_definitions()), (THEIRS, definitions([Users], []))):
            headers = {"x-narthex-branch": branch}
            house.client.post("/api/v1/init", json={}, headers=headers)
            made[branch] = serve(house, of, **headers)
            audit = {"dataset": f"rumour of {branch}", "from_us": None, "to_us": 0}
            house.client.post(
                "/api/v1/audits", json=audit | {"success": True, "result": {}}, headers=headers
            )
        house.ledger.tokens.put(
            "nx_tests_ada", name="ada", scopes=tuple(Right), branches=("dev/*",)
        )
        ada = TestClient(house.client.app, headers={"authorization": "Bearer nx_tests_ada"})
        yield Two(house=house, ada=ada, hidden=made[HIDDEN], mine=made[THEIRS])


def asked(client: TestClient, two: Two, key: tuple[str, str], **more: Any) -> Any:
    method, path = key
    # Stores in memory keep no history to inspect.
    name = "Nobody" if path.endswith(("/inspect", "/rows")) else "Users"
    for place, value in (PLACES | {"{commit_id}": two.mine, "{name}": name}).items():
        path = path.replace(place, value)
    path = path if path.startswith("/console") else f"/api/v1{path}"
    headers = {"x-narthex-branch": THEIRS}
    return client.request(method, path, headers=headers, follow_redirects=False, **more)


@every("key", DECLARED.pages)
def test_answers_name_no_other_branch(two: Two, key: tuple[str, str]) -> None:
    answer = asked(two.ada, two, key)
    own = f"rumour of {THEIRS}"
    mine = answer.text.replace(own, "").replace(quote(own), "")

    assert not [word for word in TOLD if word in mine]
    assert (answer.status_code == 403) is (key in DECLARED.whole)


@every("path", lambda: sorted(path for method, path in DECLARED.of_each if method == "GET"))
def test_filtered_routes_need_no_branch(two: Two, path: str) -> None:
    answer = two.ada.get(f"/api/v1{path}")

    assert answer.status_code == 200
    assert not [word for word in TOLD if word in answer.text]
    assert two.ada.get("/api/v1/datasets").status_code == 403


@every("key", lambda: sorted(DECLARED.whole))
def test_a_token_limited_to_branches_cannot_use_installation_routes(
    two: Two, key: tuple[str, str]
) -> None:
    content = {} if key[0] == "GET" else {"content": b"{"}

    assert asked(two.ada, two, key, **content).status_code == 403
    assert asked(two.house.client, two, key, **content).status_code != 403


def test_a_token_for_all_branches_sees_both(two: Two) -> None:
    listed = {
        path: json.dumps(asked(two.house.client, two, ("GET", path)).json())
        for path in ("/assets", "/jobs", "/audits", "/branch/list")
    }

    assert {path for path, text in listed.items() if "hush" in text} == set(listed) - {"/jobs"}
    assert "Spend" in listed["/jobs"]


def test_own_branches_are_shown_in_full(two: Two) -> None:
    whole = asked(two.house.client, two, ("GET", "/assets")).json()["assets"]
    seen = asked(two.ada, two, ("GET", "/assets")).json()["assets"]
    jobs = asked(two.ada, two, ("GET", "/jobs")).json()["jobs"]
    audits = asked(two.ada, two, ("GET", "/audits")).json()["audits"]

    mine = {one["asset_id"] for one in whole if THEIRS in {h["branch"] for h in one["held_by"]}}
    assert {one["asset_id"] for one in seen} == mine != {one["asset_id"] for one in whole}
    assert {holder["branch"] for one in seen for holder in one["held_by"]} == {THEIRS}
    assert {job["asset_id"] for job in jobs} < mine
    assert [job["label"] for job in jobs if job["trigger"]] == ["Users ← webhook:shop/users"]
    assert [(one["branch"], one["dataset"]) for one in audits] == [(THEIRS, f"rumour of {THEIRS}")]


def test_a_plan_lists_only_sharing_branches_that_the_token_may_name(two: Two) -> None:
    content = payload(definitions([Users], []))
    told = {
        who: asked(client, two, ("POST", "/commit"), content=content, params={"preview": True})
        for who, client in (("ada", two.ada), ("operator", two.house.client))
    }
    shared = {
        who: {name for asset in one.json()["plan"]["share"] for name in asset["shared_with"]}
        for who, one in told.items()
    }

    assert shared == {"ada": {THEIRS}, "operator": {HIDDEN, THEIRS}}
    assert "hush" not in told["ada"].text
    hashes = {one.json()["report"]["plan_sha256"] for one in told.values()}
    assert len(hashes) == 1


def test_a_branch_that_is_not_theirs_is_not_cloned_whether_it_exists_or_not(two: Two) -> None:
    answers = [
        two.ada.post(
            "/api/v1/init", json={"clone_from": name}, headers={"x-narthex-branch": "dev/new"}
        )
        for name in (HIDDEN, "nowhere")
    ]

    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].text == answers[1].text
    cloned = two.ada.post(
        "/api/v1/init", json={"clone_from": THEIRS}, headers={"x-narthex-branch": "dev/new"}
    )
    assert cloned.status_code == 200


def test_a_commit_of_another_branch_is_not_reached_under_the_name_of_an_own_one(two: Two) -> None:
    answers = {
        commit: two.ada.get(f"/api/v1/commits/{commit}", headers={"x-narthex-branch": THEIRS})
        for commit in (two.mine, two.hidden, str(UUID(int=9)))
    }

    assert [answer.status_code for answer in answers.values()] == [200, 403, 403]
    assert answers[two.hidden].text == answers[str(UUID(int=9))].text


def test_rows_go_to_no_endpoint_that_only_another_branch_has(two: Two) -> None:
    call = {"webhook": "shop", "endpoint": "orders", "data": []}

    assert asked(two.ada, two, ("POST", "/log"), json=call).status_code == 404
    assert asked(two.house.client, two, ("POST", "/log"), json=call).status_code == 200


def test_an_offline_query_of_another_branch_is_as_one_that_is_not_there(two: Two) -> None:
    body = {
        "inputs": ["Buyer.user"],
        "outputs": ["Buyer.spent"],
        "timestamp_column": "at",
        "data": {"Buyer.user": ["ada"], "at": ["2026-01-01T00:00:00Z"]},
    }
    queued = two.house.client.post(
        "/api/v1/query_offline", json=body, headers={"x-narthex-branch": HIDDEN}
    )
    assert queued.status_code == 200, queued.text
    request_id = queued.json()["request_id"]
    nobody = "00000000-0000-8000-8000-000000000002"
    keys = [key for key in DECLARED.rights if key[1].startswith("/query_offline/")]

    for key in keys:
        hidden, missing = (
            asked(two.ada, two, key, params={"request_id": one}) for one in (request_id, nobody)
        )
        assert (hidden.status_code, missing.status_code) == (404, 404)
        assert hidden.text.replace(request_id, nobody) == missing.text
    assert len(keys) == 4
