"""A server of an attacker: it records everything, and requests passwords in clear."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import attrs
import bson

Talk = Callable[[socket.socket], None]
"""The greeting of the server, after which it only listens."""

_SILENT_S = 5.0
_OP_REPLY, _OP_MSG = 1, 2013


@attrs.define
class Listener:
    """A running server.

    Attributes:
        connections: The number of clients.
        heard: The received bytes.
    """

    port: int
    connections: int = 0
    heard: bytes = b""


@contextmanager
def listening(talk: Talk) -> Iterator[Listener]:
    """Listen on a port of 127.0.0.1; each client is answered by `talk`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Listener(port=server.getsockname()[1])
        thread = threading.Thread(target=_serve, args=(server, talk, found), daemon=True)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, talk: Talk, found: Listener) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        found.connections += 1
        threading.Thread(target=_answer, args=(client, talk, found), daemon=True).start()


def _answer(client: socket.socket, talk: Talk, found: Listener) -> None:
    with client, suppress(OSError):
        client.settimeout(_SILENT_S)
        talk(_RecordedSocket(client, found))  # type: ignore[arg-type]


class _RecordedSocket:
    """A socket whose bytes are recorded."""

    def __init__(self, client: socket.socket, found: Listener) -> None:
        self._client = client
        self._found = found

    def recv(self, size: int) -> bytes:
        got = self._client.recv(size)
        self._found.heard += got
        return got

    def sendall(self, data: bytes) -> None:
        self._client.sendall(data)


def of_postgres(client: socket.socket) -> None:
    """Refuse TLS, and ask for the password in clear."""
    first = client.recv(4096)
    if first[4:8] == struct.pack("!I", 80877103):  # a request for TLS
        client.sendall(b"N")
        client.recv(4096)
    client.sendall(b"R" + struct.pack("!II", 8, 3))
    client.recv(4096)


def of_mysql(client: socket.socket) -> None:
    """Greet, and switch to the password in clear."""
    greeting = (
        b"\x0a8.0.0\x00"
        + struct.pack("<I", 1)
        + b"a" * 8
        + b"\x00"
        + struct.pack("<HBHH", 0xF7FF & ~0x0800, 45, 2, 0x0008)
        + bytes([21])
        + b"\x00" * 10
        + b"b" * 12
        + b"\x00mysql_native_password\x00"
    )
    client.sendall(struct.pack("<I", len(greeting))[:3] + b"\x00" + greeting)
    sequence = client.recv(4096)[3] + 1
    switch = b"\xfemysql_clear_password\x00"
    client.sendall(struct.pack("<I", len(switch))[:3] + bytes([sequence]) + switch)
    client.recv(4096)


def of_silence(client: socket.socket) -> None:
    """Only listen."""
    while client.recv(4096):
        pass


def of_http(client: socket.socket) -> None:
    """Answer a request with an empty object."""
    client.recv(65_536)
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")


def redirecting_to(port: int) -> Talk:
    """Send each client to another port."""

    def talk(client: socket.socket) -> None:
        client.recv(65_536)
        location = f"Location: http://127.0.0.1:{port}/stolen\r\n"
        head = f"HTTP/1.1 302 Found\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode())

    return talk


def without_end(client: socket.socket) -> None:
    """Answer a request with a body that does not end."""
    client.recv(65_536)
    client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        client.sendall(b" " * 65_536)


def of_mongo(members: Callable[[], tuple[str, ...]]) -> Talk:
    """Be a member of a replica set that names these members, and has no primary yet."""

    def talk(client: socket.socket) -> None:
        while head := client.recv(16):
            length, number, _, code = struct.unpack("<iiii", head)
            client.recv(length - 16)
            hosts = members()
            said = bson.encode(
                {
                    "ok": 1.0,
                    "ismaster": False,
                    "isWritablePrimary": False,
                    "secondary": False,
                    "helloOk": True,
                    "setName": "rs",
                    "setVersion": 1,
                    "hosts": list(hosts),
                    "me": hosts[0],
                    "minWireVersion": 0,
                    "maxWireVersion": 21,
                }
            )
            if code == _OP_MSG:
                body = struct.pack("<IB", 0, 0) + said
                reply = _OP_MSG
            else:
                body = struct.pack("<iqii", 8, 0, 0, 1) + said
                reply = _OP_REPLY
            client.sendall(struct.pack("<iiii", 16 + len(body), 0, number, reply) + body)

    return talk
