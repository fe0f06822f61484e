"""The floor of /query: a bare ASGI application that reads a request and answers a constant.

It measures what any Python server pays for a request of that size before it does any work. A PUT
sets the constant.
"""

from collections.abc import Awaitable, Callable

Message = dict[str, object]


class Floor:
    """Answers with the bytes of the last PUT."""

    def __init__(self) -> None:
        """Begin with an empty answer."""
        self._answer = b"{}"

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Read the whole body, then answer."""
        if scope["type"] != "http":
            return
        parts = []
        more = True
        while more:
            message = await receive()
            parts.append(bytes(message.get("body", b"")))  # type: ignore[call-overload]
            more = bool(message.get("more_body"))
        if scope["method"] == "PUT":
            self._answer = b"".join(parts)
        body = self._answer
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


app = Floor()
