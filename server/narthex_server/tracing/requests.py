"""A span of kind SERVER for each request, with the attributes of HTTP's semantic conventions."""

from collections.abc import Iterable
from typing import Final

from opentelemetry.trace import Span, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from narthex._base import TRACEPARENT
from narthex_server.tracing.spans import Tracing

ROUTE_KEY: Final = "narthex.route"
"""The key of a scope under which a handler without a router notes its route."""

UNTRACED: Final = frozenset({"/healthz", "/api/v1/metrics"})
"""Paths that machines read every few seconds."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_FAILED: Final = 500


class TracedRequests:
    """ASGI middleware around an application: the outermost, so that refusals have spans too."""

    def __init__(self, app: ASGIApp, *, tracing: Tracing) -> None:
        """Trace the requests of an application."""
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, in its span."""
        if scope["type"] != "http" or scope["path"] in UNTRACED:
            await self._app(scope, receive, send)
            return
        # A method is any text that a caller likes.
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        attributes = {"http.request.method": method, "url.scheme": scope["scheme"]}
        with self._tracing.serving(method, _traceparent(scope["headers"]), attributes) as span:
            is_answered = False

            async def noting(message: Message) -> None:
                nonlocal is_answered
                if message["type"] == "http.response.start":
                    is_answered = True
                    _note_status(span, message["status"])
                await send(message)

            try:
                await self._app(scope, receive, noting)
            except Exception:
                if not is_answered:
                    _note_status(span, _FAILED)
                raise
            finally:
                _note_route(span, method, scope)


def _note_status(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= _FAILED:
        span.set_attribute("error.type", str(status))
        span.set_status(StatusCode.ERROR)


def _note_route(span: Span, method: str, scope: Scope) -> None:
    route = scope.get(ROUTE_KEY) or getattr(scope.get("route"), "path", "")
    if route:
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)


def _traceparent(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the header of W3C Trace Context; empty unless there is exactly one."""
    name = TRACEPARENT.encode()
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""
