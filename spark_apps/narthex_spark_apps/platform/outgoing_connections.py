"""Connections of jobs to servers that authors name: resolved, checked and pinned.

Every connection of a source or a sink takes its address from `pinned` or `open_socket`. The name
is resolved once, all its addresses must be allowed, and the connection uses one of them; TLS and
headers keep the name. Redirects and proxies are not followed.
"""

import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Final

import attrs
from typing_extensions import override

from narthex._connectors import Destination, EgressRules, HttpAddress, resolve

PIECE_BYTES: Final = 65_536


class AnswerTooLargeError(OSError):
    """The answer of a server is larger, or takes longer, than its reader allows."""


def pinned(target: Destination, egress: EgressRules) -> tuple[str, ...]:
    """Return the checked addresses that a connection to a target may use.

    Raises:
        ConnectionDenied: One of its addresses is not allowed.
        OSError: The name does not resolve.
    """
    return tuple(str(address) for address in resolve(target, egress))


def open_socket(target: Destination, egress: EgressRules, *, timeout_s: float) -> socket.socket:
    """Connect to the first address of a target that answers.

    Raises:
        ConnectionDenied: One of its addresses is not allowed.
        OSError: The name does not resolve, or none of its addresses answers.
    """
    failed: OSError | None = None
    for address in pinned(target, egress):
        try:
            return socket.create_connection((address, target.port or 0), timeout=timeout_s)
        except OSError as error:
            failed = error
    raise failed or OSError(f"`{target}` has no address")


def libpq_host(target: Destination, egress: EgressRules) -> Mapping[str, str]:
    """Return the libpq parameters for a target: its name and its checked addresses.

    Raises:
        ConnectionDenied: One of its addresses is not allowed.
        OSError: The name does not resolve.
    """
    addresses = pinned(target, egress)
    return {
        "host": ",".join([target.host] * len(addresses)),
        "hostaddr": ",".join(addresses),
        "port": str(target.port),
    }


class PinnedHttp(http.client.HTTPConnection):
    """A connection to a server over HTTP or HTTPS that goes to a checked address."""

    def __init__(
        self,
        address: HttpAddress,
        *,
        egress: EgressRules,
        timeout_s: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Connect with the first request.

        Args:
            address: The server; the path is not used.
            egress: The hosts that the policy allows.
            timeout_s: For each wait on the socket.
            tls: The TLS context that verifies the server; used where the scheme is `https`.
        """
        super().__init__(address.target.host, address.port, timeout=timeout_s)
        self._target = Destination(address.target.host, address.port)
        self._egress = egress
        self._timeout_s = timeout_s
        self._tls = tls if address.scheme == "https" else None
        if address.scheme == "https":
            if tls is None:
                raise ValueError("https needs a TLS context")
            self.default_port = http.client.HTTPS_PORT

    @override
    def connect(self) -> None:
        """Connect to a checked address; TLS verifies the server's name."""
        plain = open_socket(self._target, self._egress, timeout_s=self._timeout_s)
        if self._tls is None:
            self.sock = plain
        else:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self._target.host)


@attrs.frozen(kw_only=True)
class Bounds:
    """The bounds on an answer that is read.

    Attributes:
        within_s: Maximum time from the first byte of the body to its last.
    """

    greatest_bytes: int
    within_s: float


def read_bounded(answer: http.client.HTTPResponse, bounds: Bounds) -> bytes:
    """Read the body of an answer.

    Raises:
        AnswerTooLargeError: It is larger than the bounds, or arrives too slowly.
        OSError: The connection broke.
    """
    ends_at = time.monotonic() + bounds.within_s
    found = bytearray()
    while piece := answer.read1(PIECE_BYTES):
        found += piece
        if len(found) > bounds.greatest_bytes:
            raise AnswerTooLargeError(f"the response has more than {bounds.greatest_bytes} bytes")
        if time.monotonic() > ends_at:
            raise AnswerTooLargeError(f"the response takes more than {bounds.within_s:g} s")
    return bytes(found)
