"""Every route is closed by default; only routes without user data are open."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from narthex_server.app import API
from narthex_server.security.auth import narrowed
from narthex_server.security.principals import Principal
from narthex_server.security.route_rights import Right, open_to_all, require_requirements, requires
from narthex_server.web import error_responses
from tests.server.calling import TestClient
from tests.server.conftest import DAGS_TOKEN, House
from tests.server.declared import DECLARED

OPEN = {
    "/healthz",
    "/console/console.css",
    "/console/sign-in",
    "/console/sign-out",
    "/console/sso",
    "/console/sso/callback",
    "/api/v1/sso/token",
}
PAGES = "/console"
"""Routes below are answered in HTML, including refusals."""
PLACES = {
    "{commit_id}": "00000000-0000-8000-8000-000000000000",
    "{asset_id}": "1",
    "{drill_id}": "00000000-0000-8000-8000-000000000001",
    "{step}": "rollback",
    "{name}": "Orders",
    "{name:path}": "Orders",
    "{token_id}": "0123456789abcdef",
}


def _calls(house: House) -> Iterator[tuple[str, str]]:
    for route in house.client.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, APIRoute), f"{route} has no door"
        path = route.path
        for place, value in PLACES.items():
            path = path.replace(place, value)
        for method in route.methods:
            yield method, path


def _templates(house: House) -> Iterator[tuple[str, str]]:
    for route in house.client.app.routes:  # type: ignore[attr-defined]
        for method in route.methods:
            yield method, route.path


@pytest.mark.postgres
def test_every_route_but_the_open_ones_refuses_a_call_without_the_token(house: House) -> None:
    calls = list(_calls(house))

    stranger = TestClient(house.client.app)
    open_to_all = set()
    for authorization in ("", "Bearer nx_wrong", "Basic a-token-of-tests"):
        for method, path in calls:
            answer = stranger.request(
                method, path, headers={"authorization": authorization}, follow_redirects=False
            )
            if answer.status_code != 401:
                open_to_all.add(path)
            elif path.startswith(PAGES):
                is_wrong = bool(authorization) or method != "GET"
                assert ("a valid token is required" in answer.text) is is_wrong
                assert "<input" in answer.text
            else:
                assert answer.json() == {"err_msg": "a valid token is required"}

    assert len(calls) >= 40
    assert open_to_all == OPEN
    assert {path.removeprefix(API) for path in OPEN} == DECLARED.open_paths


@pytest.mark.postgres
def test_the_application_serves_exactly_the_routes_that_declare_a_right(house: House) -> None:
    served = {
        (method, path.removeprefix("/api/v1"))
        for method, path in _templates(house)
        if path not in OPEN
    }

    assert served == set(DECLARED.rights) | DECLARED.any_token
    assert {("GET", "/openapi.json")} == DECLARED.any_token


@pytest.mark.postgres
def test_every_route_refuses_a_token_that_lacks_its_right(house: House) -> None:
    """A route lets in a token with its right alone, and none with all the other rights."""
    for right in Right:
        others = tuple(one.value for one in Right if one is not right)
        house.ledger.tokens.put(f"nx_tests_{right.value}", name=right.value, scopes=(right.value,))
        house.ledger.tokens.put(f"nx_tests_not_{right.value}", name=f"not {right}", scopes=others)
    stranger = TestClient(house.client.app)

    def is_let_in(method: str, path: str, token: str) -> bool:
        answer = stranger.request(
            method,
            path,
            headers={"authorization": f"Bearer nx_tests_{token}"},
            content=b"{",
            follow_redirects=False,
        )
        return answer.status_code != 403

    let_in: dict[tuple[str, str], tuple[bool, bool]] = {}
    for (method, template), (_, path) in zip(_templates(house), _calls(house), strict=True):
        key = (method, template.removeprefix(API))
        if key in DECLARED.any_token:
            assert all(is_let_in(method, path, right.value) for right in Right)
        elif template not in OPEN:
            own = DECLARED.rights[key].value
            let_in[key] = (is_let_in(method, path, own), is_let_in(method, path, f"not_{own}"))

    assert let_in == dict.fromkeys(DECLARED.rights, (True, False))


def test_a_scope_that_a_call_names_only_takes_rights_away() -> None:
    rights = frozenset({Right.READ_DATA, Right.READ_DEFINITIONS})
    holder = Principal(name="ci", token_id="t", rights=rights, branches=("*",))

    assert narrowed(holder, None).rights == rights
    assert narrowed(holder, "read:data").rights == {Right.READ_DATA}
    assert narrowed(holder, "write:data").rights == frozenset()
    assert narrowed(holder, "").rights == frozenset()


def test_a_route_without_a_right_keeps_the_server_from_starting() -> None:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/api/v1/new")
    def new() -> None:
        """A route without a declared right."""

    with pytest.raises(RuntimeError, match="GET /api/v1/new declares no right"):
        require_requirements(app)


def test_a_route_has_the_right_of_its_decorator_or_of_its_router() -> None:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    router = APIRouter(dependencies=[requires(Right.STEP)])

    @router.get("/of-router")
    def of_router() -> None:
        """A route of a router with a right."""

    @app.get("/of-all", dependencies=[open_to_all()])
    def of_all() -> None:
        """A route that is open."""

    app.include_router(router)

    require_requirements(app)


@pytest.mark.parametrize("kind", ["mount", "websocket", "plain", "documents"])
def test_a_route_that_cannot_declare_a_right_keeps_the_server_from_starting(kind: str) -> None:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    if kind == "mount":
        app.mount("/below", FastAPI())
    elif kind == "websocket":
        app.add_api_websocket_route("/socket", _answer)
    elif kind == "plain":
        app.add_route("/plain", _answer)
    else:
        app = FastAPI()

    with pytest.raises(TypeError, match="not a route type that supports authorization"):
        require_requirements(app)


async def _answer(_: Any) -> Any:
    """Answer nothing."""


def test_a_call_that_bypassed_the_checks_is_refused_by_its_route() -> None:
    app = FastAPI()

    @app.get("/checked", dependencies=[requires(Right.STEP)])
    def checked() -> None:
        """A route behind no middleware."""

    error_responses.install(app)

    answer = TestClient(app).get("/checked")

    assert (answer.status_code, answer.json()) == (401, {"err_msg": "a valid token is required"})


@pytest.mark.postgres
def test_errors_of_the_framework_have_the_form_of_all_errors(house: House) -> None:
    unknown = house.client.get("/api/v1/nothing")
    wrong_verb = house.client.put("/api/v1/query")
    not_json = house.client.post(
        "/api/v1/query", content=b"[" * 3, headers={"content-type": "application/json"}
    )
    not_utf8 = house.client.post("/api/v1/log", content=b"\xff", headers={"content-type": "x/json"})

    assert (unknown.status_code, unknown.json()["err_msg"]) == (404, "Not Found")
    assert (wrong_verb.status_code, wrong_verb.json()["err_msg"]) == (405, "Method Not Allowed")
    assert wrong_verb.headers["allow"] == "POST"
    assert not_json.status_code == not_utf8.status_code == 400
    assert "err_msg" in not_json.json()
    assert "err_msg" in not_utf8.json()


@pytest.mark.postgres
def test_the_token_is_in_no_answer_and_no_page(house: House) -> None:
    token = house.services.settings.token

    said = [
        house.client.get("/console").text,
        house.client.get("/console/sign-in").text,
        house.client.get("/api/v1/metrics").text,
        house.client.get("/api/v1/jobs").text,
        house.client.get("/healthz").text,
        repr(house.services.settings),
    ]

    assert not [text for text in said if token in text]


@pytest.mark.postgres
def test_an_empty_branch_is_reported(house: House) -> None:
    answers = [
        house.client.get("/api/v1/datasets"),
        house.client.post("/api/v1/query", json={"inputs": [], "outputs": [], "data": {}}),
        house.client.get("/api/v1/datasets", headers={"x-narthex-branch": "dev"}),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert answers[0].json()["err_msg"] == "branch `main` serves no commit yet"
    assert "dev" in answers[2].json()["err_msg"]


@pytest.mark.postgres
def test_airflow_may_advance_commits_and_take_back_and_do_nothing_else(house: House) -> None:
    airflow = TestClient(house.client.app, headers={"authorization": f"Bearer {DAGS_TOKEN}"})
    let_in = {
        (method, template.removeprefix("/api/v1"))
        for (method, template), (_, path) in zip(_templates(house), _calls(house), strict=True)
        if template not in OPEN and airflow.request(method, path, content=b"{").status_code != 403
    }

    changing = {(method, path) for method, path in let_in if method != "GET"}
    assert changing == {
        ("POST", "/runs/{run_id}/commit"),
        ("POST", "/commits/{commit_id}/steps/plan"),
        ("POST", "/commits/{commit_id}/steps/create/{asset_id}"),
        ("POST", "/commits/{commit_id}/steps/quality/{dataset}"),
        ("POST", "/commits/{commit_id}/steps/{step}"),
        ("POST", "/alerts/findings"),
        ("POST", "/audits"),
        ("POST", "/column_summaries"),
        # It changes nothing, and has counts only for a token that may not read data.
        ("POST", "/diff"),
        ("POST", "/drift"),
        ("POST", "/feature_summaries"),
        ("POST", "/rollback"),
        ("POST", "/delete"),
        ("POST", "/upkeep/audit"),
        ("POST", "/upkeep/collect"),
        ("POST", "/upkeep/drill/{drill_id}"),
        ("POST", "/upkeep/recover"),
    }
    assert not {path for _, path in let_in if "secret" in path or "token" in path}
    assert not {path for _, path in let_in if "query" in path or "inspect" in path}
    assert ("GET", "/control-log") not in let_in


@pytest.mark.postgres
def test_airflow_passes_on_its_user_and_the_approver(house: House) -> None:
    airflow = TestClient(house.client.app, headers={"authorization": f"Bearer {DAGS_TOKEN}"})
    house.ledger.tokens.put("nx_tests_ada", name="ada", scopes=("admin",))
    ada = TestClient(house.client.app, headers={"authorization": "Bearer nx_tests_ada"})
    for branch in ("one", "two"):
        assert ada.post("/api/v1/init", json={}, headers={"x-narthex-branch": branch}).is_success

    branches = [house.ledger.branches.get(house.services.tenant, name) for name in ("one", "two")]

    headers = {"x-narthex-actor": "grace"}
    assert airflow.post("/api/v1/delete", headers=headers | {"x-narthex-branch": "one"}).is_success
    assert ada.post("/api/v1/delete", headers=headers | {"x-narthex-branch": "two"}).is_success

    found = {
        view.name: house.ledger.commits.newest(branch=view.branch_id)[0].actor for view in branches
    }
    assert found == {"one": "grace", "two": "ada"}
