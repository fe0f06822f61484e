"""What a client of Fennel asks and this server cannot do is refused with 501 and the reason."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI

from narthex_server.web.unimplemented import router
from tests.server.calling import TestClient


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = FastAPI()
    app.include_router(router, prefix="/api/v1")
    with TestClient(app) as made:
        yield made


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("POST", "dataset/Orders/erase"),
    ],
)
def test_a_call_that_cannot_be_answered_says_so(client: TestClient, verb: str, path: str) -> None:
    answer = client.request(verb, f"/api/v1/{path}")

    assert answer.status_code == 501
    (error,) = answer.json()["errors"]
    assert error["code"] == "NX901"
    assert "not supported by this server yet" in answer.json()["err_msg"]
    assert error["hint"]
