"""A name or a key that is taken where a token cannot see it is free to that token."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs
import pytest

from narthex._sdk.commit_definitions import definitions
from narthex_server.security.route_rights import Right
from tests.server.calling import TestClient
from tests.server.conftest import NOBODY, House, house_at, in_memory, settings_at
from tests.server.declared import DECLARED
from tests.server.driving import serve
from tests.server.shop import Users, payload, shop_definitions

pytestmark = pytest.mark.postgres

HIDDEN, THEIRS = "hush/9", "dev/ada"
TAKEN, FREE, UNTOUCHED = "a-key-of-hush", "a-key-of-none", "a-key-of-hush-alone"

KEYED: Final[dict[tuple[str, str], Callable[[str], dict[str, Any]]]] = {
    ("POST", "/init"): lambda key: {"json": {}, "branch": f"dev/{key}"},
    ("POST", "/commit"): lambda _key: {"content": payload(definitions([Users], []))},
    ("POST", "/rollback"): lambda key: {"json": {"to": 1}, "branch": f"dev/rolled-{key}"},
    ("POST", "/delete"): lambda key: {"branch": f"dev/doomed-{key}"},
    ("POST", "/undelete"): lambda key: {"branch": f"dev/gone-{key}"},
}
"""The routes that create a commit under a key that the caller chooses."""

TESTED_ELSEWHERE: Final = {
    ("POST", "/training_sets"),
    ("POST", "/training_sets/{name}"),
    ("DELETE", "/training_sets/{name}"),
    ("POST", "/drift/windows"),
    ("DELETE", "/drift/windows/{name}"),
}
"""Routes of things that belong to a branch, and are hidden by tags: tests/server/data has them."""

FREE_OF_NAMES: Final = {
    ("POST", "/log"): "its keys are those of an endpoint, whose rows the token may write",
    ("POST", "/query_offline"): "the server chooses its id",
    ("POST", "/diff"): "it stores nothing",
    ("POST", "/alerts/silences"): "the server chooses its id",
    ("POST", "/alerts/findings"): "a right of the platform's own processes",
    ("POST", "/audits"): "a right of the platform's own processes",
    ("POST", "/drift"): "a right of the platform's own processes",
    ("POST", "/runs/{run_id}/commit"): "a right of Airflow's processes",
}
"""Routes that create without a name that the caller chooses, or cannot be called by an author."""

CHANGE_ONE: Final = re.compile(
    r"/query.*|/dataset/\{name\}/lookup|/datasets/\{name\}/quarantine/.*|/branch/protect"
    r"|(/console)?/commits/\{commit_id\}/.*|/alerts/silences/\{silence_id\}"
)
"""Routes that read, or change what exists: GET routes of the same things hide them."""


@attrs.frozen(kw_only=True)
class Two:
    house: House
    ada: TestClient


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, module_ledger_dsn: str) -> Iterator[Two]:
    settings = settings_at(tmp_path_factory.mktemp("two"), dsn=module_ledger_dsn, kafka=NOBODY)
    with house_at(settings, adapters=in_memory()) as house:
        for branch in (HIDDEN, THEIRS, f"dev/rolled-{TAKEN}", f"dev/rolled-{FREE}"):
            headers = {"x-narthex-branch": branch}
            house.client.post("/api/v1/init", json={}, headers=headers)
            serve(house, definitions([Users], []), **headers)
            serve(house, shop_definitions(), **headers)
        taken = house.client.post(
            "/api/v1/commit",
            content=payload(definitions([Users], [])),
            headers={"x-narthex-branch": HIDDEN, "idempotency-key": TAKEN},
        )
        assert taken.status_code == 202, taken.text
        hidden = {"x-narthex-branch": "hush/10", "idempotency-key": UNTOUCHED}
        house.client.post("/api/v1/init", json={}, headers=hidden)
        for key in (TAKEN, FREE):
            for verb in ("init", "delete"):
                headers = {"x-narthex-branch": f"dev/gone-{key}"}
                house.client.post(f"/api/v1/{verb}", json={}, headers=headers)
            headers = {"x-narthex-branch": f"dev/doomed-{key}"}
            house.client.post("/api/v1/init", json={}, headers=headers)
        house.ledger.tokens.put("nx_ada", name="ada", scopes=tuple(Right), branches=("dev/*",))
        ada = TestClient(house.client.app, headers={"authorization": "Bearer nx_ada"})
        yield Two(house=house, ada=ada)


def asked(client: TestClient, route: tuple[str, str], key: str) -> Any:
    """Call a route with a key; return its answer without ids and instants."""
    call = KEYED[route](key)
    branch = call.pop("branch", THEIRS)
    headers = {"x-narthex-branch": branch, "idempotency-key": key}
    answer = client.request(route[0], f"/api/v1{route[1]}", headers=headers, **call)
    text = re.sub(
        r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[^\"]*|\"\w*seq\": ?\d+", "", answer.text
    )
    return answer.status_code, text.replace(key, "KEY")


@pytest.mark.parametrize("route", KEYED)
def test_a_key_that_another_branch_has_used_is_free(two: Two, route: tuple[str, str]) -> None:
    with_taken, with_free = (asked(two.ada, route, key) for key in (TAKEN, FREE))

    assert with_taken == with_free
    assert with_taken[0] in {200, 202}, with_taken
    assert "was used for another request" not in with_taken[1]


def test_a_key_finds_the_commit_of_the_same_token_again(two: Two) -> None:
    call = {
        "content": payload(shop_definitions()),
        "headers": {"x-narthex-branch": THEIRS, "idempotency-key": "a-key-of-ada"},
    }
    first, again = (two.ada.post("/api/v1/commit", **call).json() for _ in range(2))
    other = two.ada.post("/api/v1/commit", **call | {"content": payload(definitions([Users], []))})
    listed = two.ada.get(
        "/api/v1/commits", params={"key": "a-key-of-ada"}, headers=call["headers"]
    ).json()

    assert first["commit_id"] == again["commit_id"] == listed["commits"][0]["commit_id"]
    assert other.status_code == 409


def test_no_key_lists_a_commit_of_a_hidden_branch(two: Two) -> None:
    headers = {"x-narthex-branch": THEIRS}
    found = [
        two.ada.get("/api/v1/commits", params={"key": key}, headers=headers).json()
        for key in (UNTOUCHED, "no-key-of-anybody")
    ]

    assert found == [{"commits": []}, {"commits": []}]
    assert two.house.client.get("/api/v1/commits", params={"key": UNTOUCHED}).json()["commits"]


def test_a_branch_to_clone_is_refused_alike_whether_it_exists(two: Two) -> None:
    headers = {"x-narthex-branch": "dev/clone"}
    answers = [
        two.ada.post("/api/v1/init", json={"clone_from": source}, headers=headers)
        for source in (HIDDEN, "hush/none")
    ]

    assert {one.status_code for one in answers} == {403}
    assert answers[0].text == answers[1].text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/tokens", {"name": "{name}", "scopes": ["reader"]}),
        ("POST", "/secret/{name}", {"value": "a"}),
        ("PUT", "/connections/{name}", {"kind": "postgres"}),
        ("POST", "/dataset/{name}/erase", {}),
        ("POST", "/alerts/test", {"receiver": "{name}"}),
    ],
)
def test_things_of_the_whole_installation_are_refused_before_they_are_looked_up(
    two: Two, method: str, path: str, body: dict[str, Any]
) -> None:
    two.house.client.post("/api/v1/secret/taken", json={"value": "a"})
    answers = []
    for name in ("taken", "Users", "free"):
        filled = {k: v.format(name=name) if isinstance(v, str) else v for k, v in body.items()}
        place = path.format(name=name)
        answers.append(two.ada.request(method, f"/api/v1{place}", json=filled))

    assert {(one.status_code, one.text.replace("free", "")) for one in answers} == {
        (403, answers[0].text)
    }


def test_every_route_that_changes_something_is_in_a_list_of_this_file() -> None:
    changing = {key for key in DECLARED.rights if key[0] != "GET"} - DECLARED.whole
    listed = {*KEYED, *TESTED_ELSEWHERE, *FREE_OF_NAMES}

    assert {key for key in changing - listed if not CHANGE_ONE.fullmatch(key[1])} == set()
    assert listed <= changing
