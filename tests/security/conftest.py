"""What the tests of promises share: a server in this process."""

from tests.server.conftest import adapters, house

__all__ = ["adapters", "house"]
