"""The servers of the tests of promises: one in this process, and one behind a real socket."""

from collections.abc import Iterator

import attrs
import pytest

from narthex_server.app import make_app
from narthex_server.web.bounded_http import BoundedHttp
from narthex_stack.machine.ports import free_ports
from tests.server.conftest import House, adapters, house
from tests.server.listening import listening

__all__ = ["adapters", "house", "quick_door"]


class QuickHttp(BoundedHttp):
    """Waits shorter than the server does, so that tests need not."""

    head_s = 0.4
    rest_s = 0.4


@attrs.frozen(kw_only=True)
class Listening:
    """A server that listens on a port of this machine."""

    house: House
    port: int


@pytest.fixture
def quick_door(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    """Serve over a real socket, with short timeouts."""
    monkeypatch.setattr("narthex_server.security.request_checks.BODY_S", 0.4)
    (port,) = free_ports(1)
    with listening(make_app(house.services), port, http=QuickHttp, has_tasks=False):
        yield Listening(house=house, port=port)
