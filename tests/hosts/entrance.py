"""The address of all servers: calls go to one of them, and to another when it does not reply."""

from collections.abc import Sequence

import attrs
import httpx


@attrs.define
class Entrance(httpx.BaseTransport):
    """Sends calls to one of several servers, as a load balancer does.

    A call to which no server replied may have taken effect: its caller repeats it, and then it
    goes to the next server.

    Attributes:
        urls: The addresses of the servers.
        carrier: Sends a call to the address that it names.
    """

    urls: Sequence[str]
    carrier: httpx.BaseTransport = attrs.field(factory=httpx.HTTPTransport)
    _turn: int = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a call to the server whose turn it is.

        Raises:
            httpx.TransportError: It did not reply.
        """
        turn = self._turn
        server = httpx.URL(self.urls[turn % len(self.urls)])
        request.url = request.url.copy_with(host=server.host, port=server.port)
        try:
            return self.carrier.handle_request(request)
        except httpx.TransportError:
            # Several threads may notice the same server.
            self._turn = turn + 1
            raise

    def close(self) -> None:
        """Close the connections."""
        self.carrier.close()
