"""Metrics of all requests, and audit-log records of those to the control plane."""

import time

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from narthex_server.security.audit_log import AuditLog, is_recorded
from narthex_server.security.route_rights import requirement_of
from narthex_server.services.meters import Meters

FAILED = 500
"""The status of a request that fails with an unexpected error."""


class Measured:
    """ASGI middleware that notes how each request was answered."""

    def __init__(self, app: ASGIApp, *, meters: Meters, audit_log: AuditLog, api: str) -> None:
        """Note the requests of an application."""
        self._app = app
        self._meters = meters
        self._audit_log = audit_log
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note its answer before the client has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        is_noted = False

        async def noting(message: Message) -> None:
            nonlocal is_noted
            if message["type"] == "http.response.start":
                is_noted = True
                await self._note(scope, status=message["status"], began=began)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            if not is_noted:
                await self._note(scope, status=FAILED, began=began)
            raise

    async def _note(self, scope: Scope, *, status: int, began: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", "unknown")
        self._meters.took.observe(time.perf_counter() - began, route=path)
        self._meters.requests.add(route=path, status=str(status))
        if is_recorded(scope["method"], requirement_of(route), status):
            await run_in_threadpool(
                self._audit_log.record,
                Request(scope),
                path=path.removeprefix(self._api),
                status=status,
            )
