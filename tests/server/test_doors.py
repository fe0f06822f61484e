"""Every door is closed by default; only what says nothing of anybody's data is open."""

from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute

from narthex_server.auth import OPEN_PATHS
from tests.server.calling import TestClient
from tests.server.conftest import House

OPEN = {"/healthz", "/console"}
PLACES = {
    "{commit_id}": "00000000-0000-8000-8000-000000000000",
    "{asset_id}": "1",
    "{step}": "rollback",
    "{name}": "Orders",
}


def _calls(house: House) -> Iterator[tuple[str, str]]:
    for route in house.client.app.routes:  # type: ignore[attr-defined]
        assert isinstance(route, APIRoute), f"{route} has no door"
        path = route.path
        for place, value in PLACES.items():
            path = path.replace(place, value)
        for method in route.methods:
            yield method, path


@pytest.mark.postgres
def test_every_route_but_two_refuses_a_call_without_the_token(house: House) -> None:
    calls = list(_calls(house))

    stranger = TestClient(house.client.app)
    open_to_all = set()
    for authorization in ("", "Bearer ", "Bearer wrong", "Basic a-token-of-tests"):
        for method, path in calls:
            answer = stranger.request(method, path, headers={"authorization": authorization})
            if answer.status_code != 401:
                open_to_all.add(path)
            else:
                assert answer.json() == {"err_msg": "a valid token is required"}

    assert len(calls) >= 25
    assert open_to_all == OPEN == OPEN_PATHS


@pytest.mark.postgres
def test_the_token_is_in_no_answer_and_no_page(house: House) -> None:
    token = house.services.settings.token

    said = [
        house.client.get("/console").text,
        house.client.get("/api/v1/metrics").text,
        house.client.get("/api/v1/jobs").text,
        house.client.get("/healthz").text,
        repr(house.services.settings),
    ]

    assert not [text for text in said if token in text]


@pytest.mark.postgres
def test_a_branch_on_which_nothing_serves_says_so(house: House) -> None:
    answers = [
        house.client.get("/api/v1/datasets"),
        house.client.post("/api/v1/query", json={"inputs": [], "outputs": [], "data": {}}),
        house.client.get("/api/v1/datasets", headers={"x-narthex-branch": "dev"}),
    ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert answers[0].json()["err_msg"] == "nothing serves on branch `main` yet"
    assert "dev" in answers[2].json()["err_msg"]
