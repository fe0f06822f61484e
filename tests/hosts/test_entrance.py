"""Calls go to one server after the other, as they stop replying."""

import attrs
import httpx
import pytest

from tests.hosts.entrance import Entrance

URLS = ("http://10.0.0.1:8000", "http://10.0.0.2:8000")


@attrs.define
class Cables(httpx.BaseTransport):
    """Replies for some addresses, with the address; the others are cut off."""

    up: set[str]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host not in self.up:
            raise httpx.ConnectError("cut off", request=request)
        return httpx.Response(200, text=request.url.host)


def ask(client: httpx.Client) -> str:
    return client.get("/healthz").text


def test_calls_stay_with_a_server_that_replies() -> None:
    entrance = Entrance(URLS, carrier=Cables({"10.0.0.1", "10.0.0.2"}))

    with httpx.Client(base_url=URLS[0], transport=entrance, timeout=60.0) as client:
        assert [ask(client), ask(client)] == ["10.0.0.1", "10.0.0.1"]


def test_the_repetition_of_a_call_goes_to_the_next_server() -> None:
    cables = Cables({"10.0.0.2"})

    with httpx.Client(
        base_url=URLS[0], transport=Entrance(URLS, carrier=cables), timeout=60.0
    ) as client:
        with pytest.raises(httpx.ConnectError):
            ask(client)
        assert ask(client) == "10.0.0.2"
        cables.up = {"10.0.0.1"}
        with pytest.raises(httpx.ConnectError):
            ask(client)
        assert ask(client) == "10.0.0.1"
