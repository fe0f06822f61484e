"""HTTP connections with bounds that uvicorn lacks: on heads, idling, their number, and warnings."""

import asyncio
import logging
import resource
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from narthex_server.web.request_limits import GREATEST_HEAD_BYTES

IDLE_S: Final = 60
"""How long a connection may be idle before the server closes it.

Longer than clients keep an idle connection, so that no request meets a closed one.
"""


MOST_WARNINGS: Final = 10
"""How many warnings a minute uvicorn may log: each malformed request of a client is one."""

_MINUTE_S: Final = 60.0


class FewWarnings(logging.Filter):
    """Lets so many warnings a minute through, and all errors."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Begin; `now` is a clock in seconds, for durations."""
        super().__init__()
        self._now = now
        self._began = now()
        self._passed = 0

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.WARNING:
            return True
        now = self._now()
        if now - self._began >= _MINUTE_S:
            self._began, self._passed = now, 0
        self._passed += 1
        return self._passed <= MOST_WARNINGS


def bound_warnings() -> None:
    """Bound what clients without a token make uvicorn write into the log of this process."""
    logging.getLogger("uvicorn.error").addFilter(FewWarnings())


_JOINED_BYTES: Final = 64 * 1024
"""Longer bodies are not copied behind their head."""


class _JoiningTransport(asyncio.Transport):
    """Sends the head of an answer together with its body: one system call, and one packet.

    What is written is kept until the next write, or until the event loop has no other callback.
    """

    __slots__ = ("_kept", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept = b""

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._kept:
            self._kept = bytes(data)
            self._loop.call_soon(self._flush)
        elif len(data) > _JOINED_BYTES:
            self._flush()
            self._transport.write(data)
        else:
            kept, self._kept = self._kept, b""
            self._transport.write(kept + data)

    @override
    def close(self) -> None:
        self._flush()
        self._transport.close()

    @override
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._kept:
            kept, self._kept = self._kept, b""
            self._transport.write(kept)


KEPT_DESCRIPTORS: Final = 256
"""How many descriptors are left to databases, brokers, indexes and files."""


def most_connections() -> int:
    """Return how many connections of clients the descriptors of this process allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft - KEPT_DESCRIPTORS, soft // 2)


class BoundedHttp(HttpToolsProtocol):
    """Closes a connection whose head is too large or slow, or that sends on after its answer.

    When there are as many connections as descriptors allow, the one that is longest without a
    whole request makes place for a new one. If all have requests, the new one is closed.

    Attributes:
        most: How many connections there may be; None for what the descriptors allow.
        head_s: How long a head may take, from the connection's start or the head's first byte.
        rest_s: How long the rest of a body may take after its request was answered.
    """

    head_s: ClassVar[float] = 10.0
    rest_s: ClassVar[float] = 5.0
    most: ClassVar[int | None] = None

    _all_unasked: ClassVar[WeakKeyDictionary[ServerState, OrderedDict["BoundedHttp", None]]] = (
        WeakKeyDictionary()
    )

    _head_bytes = 0
    _in_head = True
    _in_body = False
    _ends: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end_in(self.head_s)
        self._unasked[self] = None
        most = most_connections() if self.most is None else self.most
        if len(self.connections) > most:
            next(iter(self._unasked)).transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        self._unasked.pop(self, None)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > GREATEST_HEAD_BYTES:
            self.transport.close()
        is_between = not (self._in_head or self._in_body) and self.cycle.response_complete
        if is_between and self._ends is None:
            # Empty lines between requests start none, and must not keep the connection open.
            self._end_in(self.head_s)

    @override
    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._end_in(self.head_s)
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        self._in_head, self._in_body = False, True
        self._go_on()
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self._in_body = False
        self._go_on()
        self._unasked.pop(self, None)
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unasked[self] = None
        if self._in_body:
            self._end_in(self.rest_s)

    @property
    def _unasked(self) -> OrderedDict["BoundedHttp", None]:
        """The server's connections without a whole request, the one that waits longest first."""
        return self._all_unasked.setdefault(self.server_state, OrderedDict())

    def _end_in(self, seconds: float) -> None:
        self._go_on()
        self._ends = self.loop.call_later(seconds, self.transport.close)

    def _go_on(self) -> None:
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
