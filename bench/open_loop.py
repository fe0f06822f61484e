"""An HTTP client that sends requests at given instants, however slow the answers are.

One thread serves all connections. Each has at most one request in flight; a request that is due
while all are busy waits for one, and is given up when its deadline passes meanwhile.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from random import Random  # noqa: TID251 - seeded below
from typing import Final

import attrs
import uvloop
from typing_extensions import override

OK: Final = 200
GIVEN_UP: Final = 0
"""The status of a request that found no free connection before its deadline."""

LEAST_SLEEP_S: Final = 0.001
"""Shorter gaps are not slept: the event loop only reads the answers that have come."""

LOST: Final = -1
"""The status of a request whose connection was closed."""

_HEAD_ENDS: Final = b"\r\n\r\n"


@attrs.frozen
class Sent:
    """A request with its answer.

    Attributes:
        at_s: When it was due, in seconds from the start.
        took_ms: From when it was due to the end of its answer.
        status: The HTTP status, or `GIVEN_UP`.
        body: The answer's body if bodies are kept.
    """

    at_s: float
    took_ms: float
    status: int
    body: bytes = b""


@attrs.frozen(kw_only=True)
class OpenLoop:
    """The requests that are sent.

    Attributes:
        headers: Those of each request, without `Host` and `Content-Length`.
        bodies: The bodies, taken in turn.
        connections: How many connections are open.
        deadline_s: How long a request may wait for a connection.
        keeps_bodies: Whether answers are kept, to be compared.
    """

    port: int
    path: str
    headers: Mapping[str, str]
    bodies: Sequence[bytes]
    connections: int
    deadline_s: float
    keeps_bodies: bool = False

    def run(self, due: Sequence[float]) -> list[Sent]:
        """Send a request at each of these seconds from now; return them in the order of ends."""
        return uvloop.run(_Run(self).all(due))

    def message(self, number: int) -> bytes:
        """Return the bytes of a request."""
        body = self.bodies[number % len(self.bodies)]
        lines = [
            f"POST {self.path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return "\r\n".join(lines).encode() + _HEAD_ENDS + body


def poisson(rate: float, seconds: float, *, seed: int) -> list[float]:
    """Return instants with exponential gaps, from 0 to `seconds`."""
    rng = Random(seed)  # noqa: S311 - instants, no secrets
    at, due = 0.0, list[float]()
    while (at := at + rng.expovariate(rate)) < seconds:
        due.append(at)
    return due


class _Connection(asyncio.Protocol):
    """One connection, which reads the answer of one request at a time."""

    def __init__(self, run: "_Run") -> None:
        self._run = run
        self._answer = bytearray()
        self._due: float | None = None
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def send(self, due: float, message: bytes) -> None:
        """Send a request."""
        if self._transport is None:
            raise RuntimeError("the connection is not open")
        self._due = due
        self._transport.write(message)

    @override
    def data_received(self, data: bytes) -> None:
        self._answer += data
        head_ends = self._answer.find(_HEAD_ENDS)
        if head_ends < 0:
            return
        head = bytes(self._answer[:head_ends]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        begins = head_ends + len(_HEAD_ENDS)
        if len(self._answer) < begins + length:
            return
        body = bytes(self._answer[begins : begins + length])
        self._answer.clear()
        self._end(int(head.split(b" ", 2)[1]), body)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._due is not None:
            self._end(LOST, b"")

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _end(self, status: int, body: bytes) -> None:
        due, self._due = self._due, None
        if due is not None:
            self._run.ended(self, due, status, body)


class _Run:
    """One run of an open loop."""

    def __init__(self, loop: OpenLoop) -> None:
        self._loop = loop
        self._messages = [loop.message(number) for number in range(len(loop.bodies))]
        self._free: deque[_Connection] = deque()
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._sent: list[Sent] = []
        self._began = 0.0

    async def all(self, due: Sequence[float]) -> list[Sent]:
        """Send all requests, and wait for their answers."""
        events = asyncio.get_running_loop()
        for _ in range(self._loop.connections):
            _, connection = await events.create_connection(
                lambda: _Connection(self), "127.0.0.1", self._loop.port
            )
            self._free.append(connection)
        opened = list(self._free)
        self._began = time.perf_counter() + 0.1
        for number, at_s in enumerate(due):
            await self._until(at_s)
            self._waiting.append((at_s, self._messages[number % len(self._messages)]))
            self._send_waiting()
        while len(self._sent) < len(due):
            await asyncio.sleep(0.01)
            self._send_waiting()
        for connection in opened:
            connection.close()
        return self._sent

    def ended(self, connection: _Connection, due: float, status: int, body: bytes) -> None:
        """Record an answer; its connection is free again, unless it was closed."""
        kept = body if self._loop.keeps_bodies else b""
        self._sent.append(Sent(due, (self._now() - due) * 1000, status, kept))
        if status != LOST:
            self._free.append(connection)
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and self._now() - self._waiting[0][0] > self._loop.deadline_s:
            due, _ = self._waiting.popleft()
            self._sent.append(Sent(due, (self._now() - due) * 1000, GIVEN_UP))
        while self._waiting and self._free:
            due, message = self._waiting.popleft()
            self._free.popleft().send(due, message)

    async def _until(self, at_s: float) -> None:
        left = at_s - self._now()
        await asyncio.sleep(left if left > LEAST_SLEEP_S else 0)

    def _now(self) -> float:
        return time.perf_counter() - self._began


def statuses(sent: Sequence[Sent]) -> dict[str, int]:
    """Return how many requests had each status."""
    names = {GIVEN_UP: "given up", LOST: "connection lost"}
    counted = Counter(names.get(each.status, str(each.status)) for each in sent)
    return dict(sorted(counted.items()))
