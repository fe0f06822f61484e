"""What a client of Fennel asks and this server cannot do is refused with 501 and the reason."""

import json

from narthex_server.data.unimplemented import erase


def test_a_call_that_cannot_be_answered_says_so() -> None:
    answer = erase("Orders")

    body = json.loads(bytes(answer.body))
    (error,) = body["errors"]
    assert answer.status_code == 501
    assert error["code"] == "NX901"
    assert "not supported by this server yet" in body["err_msg"]
    assert error["hint"]
