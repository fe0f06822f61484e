"""The request checks: each request passes them in one order before a route runs.

The order is: size of the head; authentication and authorization; then the body, bounded in bytes
and in time; then the body's content; then the turn of the caller. So the server reads no body
without a valid token, an incomplete body reaches no route, and no caller occupies all threads.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from narthex_server.errors import TooManyRequests
from narthex_server.security.auth import Authenticator
from narthex_server.security.principals import Principal
from narthex_server.security.route_rights import AccessRequirement, Body, Right, requirement_of
from narthex_server.tracing import carried
from narthex_server.web import error_responses
from narthex_server.web.fair_turns import FairTurns
from narthex_server.web.request_limits import (
    GREATEST_BODY_BYTES,
    GREATEST_OPEN_BODY_BYTES,
    Refusal,
    judge_delimited,
    judge_head,
    judge_json,
    judge_size,
    judge_whole,
)

BODY_S: Final = 60.0
"""How long a body may take to arrive completely."""

THREADS: Final = 40
"""How many requests run at a time: as many as the framework has threads for its routes."""

THREADS_EACH: Final = 16
"""How many of the threads the requests of one token may occupy; those without one share them."""

MOST_WAITING: Final = 400
"""How many requests may wait for a thread, half of them of one token."""

AUTHORIZING_THREADS: Final = 8
"""Threads that check tokens, apart from those of routes, so that each token gets its turn."""

STRANGERS_THREADS: Final = 4
"""Threads that check what is not a known token, so that nobody waits for the lookups of others."""

AUTHORIZED_S: Final = 2.0
"""A call that begins later than this after it was authorized, is authorized again."""

ROWS: Final = frozenset({Right.READ_DATA, Right.WRITE_DATA})
"""Rights of routes whose bodies carry rows, in which a text may have any character."""


class DisconnectedError(Exception):
    """The client closed its connection before the body was complete."""


class RequestRefusedError(Exception):
    """The server refuses a body."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.refusal = refusal


class Door:
    """ASGI middleware whose inner application gets only requests that passed all checks."""

    def __init__(self, app: ASGIApp, *, authenticator: Authenticator) -> None:
        """Wrap an application."""
        self._app = app
        self._authenticator = authenticator
        self._turns = FairTurns(THREADS, most_waiting=MOST_WAITING, most_each=THREADS_EACH)
        self._authorizing = ThreadPoolExecutor(
            AUTHORIZING_THREADS, thread_name_prefix="authorizing"
        )
        self._strangers = ThreadPoolExecutor(STRANGERS_THREADS, thread_name_prefix="strangers")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request; one that was cut off gets no response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        route = _routed(scope)
        requirement = requirement_of(route)
        greatest = _greatest_body(requirement)
        head = judge_head(address_of(scope), scope["headers"], greatest_body=greatest)
        refused = _answer(head) if head else await self._refused(request, route, requirement)
        authorized_at = time.monotonic()
        if refused is not None:
            await refused(scope, receive, send)
            return
        if requirement is None:  # the router answers 404 or 405, and reads no body
            await self._app(scope, receive, send)
            return
        try:
            body = await read_body(receive, greatest_body=greatest)
            _require_sound(body, request.headers, requirement)
        except DisconnectedError:
            return
        except RequestRefusedError as error:
            await _answer(error.refusal)(scope, receive, send)
        else:
            again = functools.partial(self._refused, request, route, requirement)
            await self._run(request, _given(body, receive), send, authorized_at, again)

    async def _run(
        self,
        request: Request,
        receive: Receive,
        send: Send,
        authorized_at: float,
        again: Callable[[], Awaitable[Response | None]],
    ) -> None:
        """Let a route answer once it is the caller's turn, if its token has not ended meanwhile."""
        principal: Principal | None = getattr(request.state, "principal", None)
        caller = "" if principal is None else f"{principal.name}/{principal.token_id}"
        async with contextlib.AsyncExitStack() as turn:
            try:
                await turn.enter_async_context(self._turns.turn(caller))
            except TooManyRequests as error:
                refused = error_responses.error_response(error)
                await refused(request.scope, receive, send)
                return
            if time.monotonic() - authorized_at > AUTHORIZED_S:
                ended = await again()
                if ended is not None:
                    await ended(request.scope, receive, send)
                    return
            await self._app(request.scope, receive, send)

    async def _refused(
        self, request: Request, route: APIRoute | None, requirement: AccessRequirement | None
    ) -> Response | None:
        """Authorize a request; return its refusal, as a page for a page."""
        if requirement is None:
            return None
        try:
            is_known = requirement.is_open or self._authenticator.knows(request)
            await asyncio.get_running_loop().run_in_executor(
                self._authorizing if is_known else self._strangers,
                carried(lambda: self._authenticator.authorize(request, requirement)),
            )
        except Exception as error:  # noqa: BLE001 - any other error is raised again
            refused: Response = getattr(route, "answer_error", _answer_error)(request, error)
            return refused
        return None


def _routed(scope: Scope) -> APIRoute | None:
    """Return the route that the router will choose, and note it in the scope."""
    app: Starlette = scope["app"]
    for route in app.routes:
        match, found = route.matches(scope)
        if match is Match.FULL and isinstance(route, APIRoute):
            scope.update(found)
            return route
    return None


def _greatest_body(requirement: AccessRequirement | None) -> int:
    is_open = requirement is not None and requirement.is_open
    return GREATEST_OPEN_BODY_BYTES if is_open else GREATEST_BODY_BYTES


def address_of(scope: Scope) -> bytes:
    """Return the path and the query of a request, as they were sent."""
    raw = scope.get("raw_path") or scope["path"].encode(errors="surrogatepass")
    return bytes(raw) + b"?" + bytes(scope["query_string"])


async def read_body(receive: Receive, *, greatest_body: int) -> bytes:
    """Read a complete body.

    Raises:
        DisconnectedError: The connection ended first.
        RequestRefusedError: The body is too large, or late.
    """
    try:
        async with asyncio.timeout(BODY_S):
            return await _read(receive, greatest_body=greatest_body)
    except TimeoutError:
        late = Refusal(408, f"the body did not arrive within {BODY_S:g} s")
        raise RequestRefusedError(late) from None


async def _read(receive: Receive, *, greatest_body: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise DisconnectedError
        body += message.get("body", b"")
        if too_large := judge_size(len(body), greatest_body=greatest_body):
            raise RequestRefusedError(too_large)
        if not message.get("more_body", False):
            return bytes(body)


def _require_sound(body: bytes, headers: Headers, requirement: AccessRequirement) -> None:
    """Refuse a body that was altered on its way, or that no route could accept.

    Raises:
        RequestRefusedError: The body is refused; the message has the reason.
    """
    refusal = judge_whole(
        body, length=headers.get("content-length"), digest=headers.get("content-digest")
    )
    if refusal is None and requirement.body is Body.DELIMITED:
        refusal = judge_delimited(headers)
    if refusal is None and requirement.body is Body.JSON:
        refusal = judge_json(body, nul=requirement.right in ROWS)
    if refusal is not None:
        raise RequestRefusedError(refusal)


def _answer_error(request: Request, error: Exception) -> Response:
    del request
    return error_responses.error_response(error)


def _answer(refusal: Refusal) -> JSONResponse:
    return JSONResponse({"err_msg": refusal.why}, status_code=refusal.status)


def _given(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body that was read, then whatever follows."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return waiting.pop() if waiting else await receive()

    return given
