"""What a request may weigh: more is refused before it is read whole."""

import re

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

GREATEST_BODY_BYTES = 16 * 1024 * 1024
GREATEST_DEPTH = 64
"""How deep lists and objects of JSON may nest."""


class TooLargeError(Exception):
    """A body grew past the limit while it was read."""


class Limits:
    """An ASGI application around another one, which sees no body that is too large or too deep."""

    def __init__(self, app: ASGIApp, *, greatest_body: int = GREATEST_BODY_BYTES) -> None:
        """Guard an application."""
        self._app = app
        self._greatest = greatest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse: 413 for too much, 415 for what is packed, 400 for too deep."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._greatest:
            await self._refuse(413, "the request is larger than 16 MiB")(scope, receive, send)
            return
        if headers.get("content-encoding", "identity") != "identity":
            await self._refuse(415, "a packed body is not taken")(scope, receive, send)
            return
        try:
            body = await self._read(receive)
        except TooLargeError:
            await self._refuse(413, "the request is larger than 16 MiB")(scope, receive, send)
            return
        if "json" in headers.get("content-type", "") and is_deeper(body, GREATEST_DEPTH):
            await self._refuse(400, f"the JSON nests deeper than {GREATEST_DEPTH}")(
                scope, receive, send
            )
            return
        await self._app(scope, _given(body, receive), send)

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._greatest:
                raise TooLargeError
            if message["type"] != "http.request" or not message.get("more_body", False):
                return bytes(body)

    @staticmethod
    def _refuse(status: int, why: str) -> JSONResponse:
        return JSONResponse({"err_msg": why}, status_code=status)


def is_deeper(body: bytes, limit: int) -> bool:
    """Whether brackets nest deeper outside texts; takes off one level at a time."""
    left = _TEXT.sub(b"", body).translate(_AS_ONE_KIND, _OTHERS)
    for _ in range(limit):
        fewer = left.replace(b"[]", b"")
        if fewer == left:
            break
        left = fewer
    # What never closes is a mistake for the parser, unless it is deeper than it may be.
    return b"[]" in left or left.count(b"[") > limit


_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_AS_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def _given(body: bytes, receive: Receive) -> Receive:
    """Give the body that was read, then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return waiting.pop() if waiting else await receive()

    return given
