"""The server refuses unimplemented calls of Fennel's client with 501 and the reason."""

import pytest

from tests.server.conftest import House


@pytest.mark.postgres
def test_an_impossible_call_is_refused_with_a_reason(house: House) -> None:
    answer = house.client.post("/api/v1/dataset/Orders/erase")

    assert answer.status_code == 501
    (error,) = answer.json()["errors"]
    assert error["code"] == "NX901"
    assert error["message"] == "to erase rows of `Orders` is not supported by this server yet"
    assert error["message"] in answer.json()["err_msg"]
    assert error["hint"]
