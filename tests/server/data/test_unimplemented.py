"""The server refuses unimplemented calls of Fennel's client with 501 and the reason."""

import json

from narthex_server.data.unimplemented import erase


def test_an_impossible_call_is_refused_with_a_reason() -> None:
    answer = erase("Orders")

    body = json.loads(bytes(answer.body))
    (error,) = body["errors"]
    assert answer.status_code == 501
    assert error["code"] == "NX901"
    assert "not supported by this server yet" in body["err_msg"]
    assert error["hint"]
