"""Starlette's client for tests, which warns that it will want another HTTP library.

Every answer of the server is held to its OpenAPI document.
"""

import warnings
from typing import Any

from tests.server.declared_answers import require_declared

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient as PlainClient

__all__ = ["TestClient"]


class TestClient(PlainClient):
    """A client of an application."""

    __test__ = False

    def request(self, method: str, *arguments: Any, **options: Any) -> Any:
        answer = super().request(method, *arguments, **options)
        if getattr(self.app, "title", "") == "Narthex":
            require_declared(method, answer.request.url.path, answer)
        return answer
