"""The connection between a driver and a standing task: lines, in both directions.

On one machine it is a Unix socket. On a cluster it is TLS over TCP, and each side proves by its
certificate that it knows the key of this start of the task.
"""

import contextlib
import select
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing.connection import Client, Connection
from typing import Protocol

import attrs

GREATEST_LINE = 64 * 1024 * 1024
"""The most bytes of a line: the assignments of some ten thousand jobs."""
CONNECT_WITHIN_S = 10.0
SEND_WITHIN_S = 20.0
_CHUNK = 1 << 16
_HEADER = struct.Struct("!I")
_END = ""
"""The line that asks the other side to end; no message is empty."""


class Channel(Protocol):
    """A connection whose other side has proven that it knows the key of the task."""

    def send(self, line: str) -> None:
        """Send a line, from any thread.

        Raises:
            OSError: The other side is gone, or takes nothing.
        """

    def lines(self) -> Iterator[str]:
        """Yield the lines that arrive, until the other side is gone; for one thread."""

    def end(self) -> None:
        """Ask the other side to end, and send no more lines; return at once."""

    def close(self) -> None:
        """Close this side; a standing task leaves that to the end of its process."""

    @property
    def has_peer_ended(self) -> bool:
        """Whether the other side has closed the connection, as its process does when it ends."""


class LocalChannel:
    """A connection of one machine."""

    def __init__(self, connection: "Connection[bytes, bytes]") -> None:
        """Take over a connection whose other side is proven."""
        self._connection = connection
        self._sending = threading.Lock()
        self.has_peer_ended = False

    def send(self, line: str) -> None:
        """Send a line, from any thread."""
        with self._sending:
            self._connection.send_bytes(line.encode())

    def lines(self) -> Iterator[str]:
        """Yield the lines that arrive, until the other side is gone."""
        while True:
            try:
                yield self._connection.recv_bytes().decode(errors="replace")
            except (EOFError, OSError):
                self.has_peer_ended = True
                return

    def end(self) -> None:
        """Do nothing: a local task is killed by its process id."""

    def close(self) -> None:
        """Close this side."""
        self._connection.close()


class TlsChannel:
    """A connection over TLS; a thread may send while another one reads.

    OpenSSL allows one call at a time, so that the socket does not block within a call.
    """

    def __init__(self, encrypted: ssl.SSLSocket) -> None:
        """Take over a socket after its handshake."""
        encrypted.setblocking(False)
        self._socket = encrypted
        self._calling = threading.Lock()
        self._sending = threading.Lock()
        self.has_peer_ended = False

    def send(self, line: str) -> None:
        """Send a line, from any thread.

        Raises:
            OSError: The other side is gone, or takes nothing for `SEND_WITHIN_S`.
        """
        left = memoryview(_framed(line))
        with self._sending:
            while left:
                left = left[self._send_some(left) :]

    def _send_some(self, data: memoryview) -> int:
        try:
            with self._calling:
                return self._socket.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            _wait(self._socket, select.POLLOUT, SEND_WITHIN_S)
            return 0

    def lines(self) -> Iterator[str]:
        """Yield the lines that arrive, until the other side is gone or asks this one to end."""
        received = bytearray()
        try:
            while chunk := self._receive():
                received += chunk
                while (line := _cut(received)) is not None:
                    if line == _END:
                        return
                    yield line
            self.has_peer_ended = True
        except ConnectionResetError:
            # Its process ended before it had read everything.
            self.has_peer_ended = True
        except OSError:
            return

    def _receive(self) -> bytes:
        while True:
            try:
                with self._calling:
                    return self._socket.recv(_CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                _wait(self._socket, select.POLLIN, None)

    def end(self) -> None:
        """Ask the other side to end; if it takes nothing, let it read an end of the connection."""
        try:
            if self._sending.acquire(blocking=False):
                with self._calling:
                    self._socket.send(_framed(_END))
                return
        except OSError:
            pass
        with contextlib.suppress(OSError):
            # `SSLSocket.shutdown` would also end the decryption of what still arrives.
            socket.socket.shutdown(self._socket, socket.SHUT_WR)

    def close(self) -> None:
        """Close this side."""
        self._socket.close()


def _wait(waiting: socket.socket, event: int, within_s: float | None) -> None:
    poll = select.poll()
    poll.register(waiting, event)
    if not poll.poll(None if within_s is None else within_s * 1000):
        raise TimeoutError("the other side takes nothing")


def _framed(line: str) -> bytes:
    data = line.encode()
    return _HEADER.pack(len(data)) + data


def _cut(received: bytearray) -> str | None:
    """Remove a complete line from the received bytes and return it; None if there is none yet."""
    if len(received) < _HEADER.size:
        return None
    (size,) = _HEADER.unpack_from(received)
    if size > GREATEST_LINE:
        raise ConnectionAbortedError(f"a line of {size} bytes; the most are {GREATEST_LINE}")
    end = _HEADER.size + size
    if len(received) < end:
        return None
    line = bytes(received[_HEADER.size : end]).decode(errors="replace")
    del received[:end]
    return line


def tls_context(pem: bytes, *, side: int) -> ssl.SSLContext:
    """Return the TLS of one side, which accepts only the owner of the same key.

    Args:
        pem: A certificate that signs itself, and its key.
        side: `ssl.PROTOCOL_TLS_SERVER` or `ssl.PROTOCOL_TLS_CLIENT`.
    """
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    with tempfile.NamedTemporaryFile(prefix="narthex-task-") as file:
        file.write(pem)
        file.flush()
        context.load_verify_locations(file.name)
        context.load_cert_chain(file.name)
    return context


def watch_peer(connected: socket.socket) -> None:
    """Let the kernel notice that the machine of the other side is gone."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        limit_ms = round(SEND_WITHIN_S * 1000)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)


class TaskAddress(Protocol):
    """The way to the driver, which Spark hands to the Python worker of a task."""

    def connect(self) -> Channel:
        """Connect to the driver.

        Raises:
            OSError: The driver is gone.
            AuthenticationError: The other side does not know the key.
        """


@attrs.frozen
class LocalAddress:
    """A Unix socket of this machine.

    Attributes:
        path: The socket.
        key: Both sides prove that they know it.
    """

    path: str
    key: bytes = attrs.field(repr=False)
    is_remote = False

    def connect(self) -> LocalChannel:
        """Connect to the driver."""
        return LocalChannel(Client(self.path, authkey=self.key))


@attrs.frozen
class TcpAddress:
    """A TCP port of the driver.

    Attributes:
        host: The host of the driver, as executors name it.
        port: The port.
        pem: The certificate and the key of this start of the task.
    """

    host: str
    port: int
    pem: bytes = attrs.field(repr=False)
    is_remote = True

    def connect(self) -> TlsChannel:
        """Connect to the driver; its certificate must be the one in `pem`."""
        context = tls_context(self.pem, side=ssl.PROTOCOL_TLS_CLIENT)
        connected = socket.create_connection((self.host, self.port), timeout=CONNECT_WITHIN_S)
        watch_peer(connected)
        return TlsChannel(context.wrap_socket(connected))
