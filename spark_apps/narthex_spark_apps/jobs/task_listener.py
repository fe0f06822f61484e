"""The driver's end of the connection to a standing task: it listens once, for one task."""

import datetime as dt
import os
import secrets
import shutil
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Protocol

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from narthex_spark_apps.supervision.runner.task_channel import (
    Channel,
    LocalAddress,
    LocalChannel,
    TcpAddress,
    TlsChannel,
    tls_context,
    watch_peer,
)

log = structlog.get_logger()

ACCEPT_EVERY_S = 0.2
PROVE_WITHIN_S = 10
"""How long another program that connects, and proves nothing, delays the task."""


class TaskListener(Protocol):
    """Waits for the one task that knows the key."""

    @property
    def address(self) -> LocalAddress | TcpAddress:
        """Where and how the task connects."""

    def accept(self, is_wanted: Callable[[], bool]) -> Channel | None:
        """Return the connection of the task; None if it is no longer wanted, or after `close`."""

    def close(self) -> None:
        """Accept nothing from now on."""


class LocalListener:
    """A Unix socket in a directory that only this account can read."""

    def __init__(self) -> None:
        """Listen."""
        self._directory = Path(tempfile.mkdtemp(prefix="narthex-"))
        self.address = LocalAddress(str(self._directory / "task"), secrets.token_bytes(32))
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.address.path)
        _listen(self._server)

    def accept(self, is_wanted: Callable[[], bool]) -> Channel | None:
        """Return the connection of the task; None if it is no longer wanted, or after `close`."""
        channel = _accept(self._server, self._proven, is_wanted)
        # Nothing else connects; a driver that is killed leaves no directory.
        shutil.rmtree(self._directory, ignore_errors=True)
        return channel

    def _proven(self, accepted: socket.socket) -> LocalChannel:
        # A limit of the kernel, because a read of a connection waits for ever.
        accepted.setblocking(True)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _limit(PROVE_WITHIN_S))
        connection: Connection[bytes, bytes] = Connection(os.dup(accepted.fileno()))
        try:
            deliver_challenge(connection, self.address.key)
            answer_challenge(connection, self.address.key)
        except BaseException:
            connection.close()
            raise
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _limit(0))
        accepted.close()
        return LocalChannel(connection)

    def close(self) -> None:
        """Accept nothing from now on."""
        self._server.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class TcpListener:
    """A TCP port with a key of its own, and TLS."""

    def __init__(self, *, bind: str, host: str) -> None:
        """Listen on any port of the address `bind`; executors reach it as `host`."""
        self._server = socket.create_server((bind, 0))
        _listen(self._server)
        self.address = TcpAddress(host, self._server.getsockname()[1], _new_identity())
        self._tls = tls_context(self.address.pem, side=ssl.PROTOCOL_TLS_SERVER)

    def accept(self, is_wanted: Callable[[], bool]) -> Channel | None:
        """Return the connection of the task; None if it is no longer wanted, or after `close`."""
        channel = _accept(self._server, self._proven, is_wanted)
        self._server.close()
        return channel

    def _proven(self, accepted: socket.socket) -> TlsChannel:
        accepted.settimeout(PROVE_WITHIN_S)
        watch_peer(accepted)
        return TlsChannel(self._tls.wrap_socket(accepted, server_side=True))

    def close(self) -> None:
        """Accept nothing from now on."""
        self._server.close()


def _listen(server: socket.socket) -> None:
    server.listen()
    server.settimeout(ACCEPT_EVERY_S)


def _accept(
    server: socket.socket,
    prove: Callable[[socket.socket], Channel],
    is_wanted: Callable[[], bool],
) -> Channel | None:
    while is_wanted():
        try:
            accepted, _ = server.accept()
        except TimeoutError:
            continue
        except OSError:
            return None
        try:
            return prove(accepted)
        except (AuthenticationError, EOFError, OSError) as error:
            accepted.close()
            log.warning("task_not_authenticated", error=str(error))
    return None


def _limit(seconds: int) -> bytes:
    return struct.pack("ll", seconds, 0)


def _new_identity() -> bytes:
    """Draw a key, and sign its certificate by itself; both as PEM.

    It is valid at any time: the clocks of two machines may differ, and it is used once.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "narthex standing task")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(9999, 1, 1, tzinfo=dt.UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem) + key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
