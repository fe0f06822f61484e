"""A sink into an HTTP server: sequential calls with a JSON array of envelopes.

Each call has an `Idempotency-Key`, the hash of its body. A call whose answer was lost is repeated
with the same key. After a crash its rows are sent again, possibly grouped into other calls: a
server that keeps the newest `source.version` of each `source.row` ends at the dataset's state.
"""

import contextlib
import hashlib
import http.client
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
from typing_extensions import override

from narthex._base import Json
from narthex._connectors import EgressRules, HttpAddress, parse_path, sink_address
from narthex._connectors.http import HttpPath
from narthex._ir import SinkJobSpec
from narthex.settings import Settings
from narthex_spark_apps.platform.author_secrets import AuthorSecrets
from narthex_spark_apps.platform.outgoing_connections import PinnedHttp
from narthex_spark_apps.sinks.changes import RowChange
from narthex_spark_apps.sinks.envelopes import as_json, envelope
from narthex_spark_apps.sinks.sink_stage import SinkFailedError, Target

TIMEOUT_S: Final = 30.0
ROWS: Final = 500
"""The most rows in a call, if its path does not set a limit."""

KEY_HEADER: Final = "Idempotency-Key"
_OK = range(200, 300)


@attrs.frozen(kw_only=True)
class Address:
    """The address of a server, and the headers that it requires, with their secrets.

    Attributes:
        server: The server's address.
        egress: The hosts that the policy allows.
        ca_cert: The certificate that verifies the server; empty: those that the machine trusts.
    """

    server: HttpAddress
    egress: EgressRules
    healthz: str
    endpoint: str
    limit: int
    headers: Mapping[str, str] = attrs.field(repr=False)
    ca_cert: str = ""
    ca_file: str = ""

    @classmethod
    def of(cls, path: HttpPath, settings: Settings) -> "Address":
        """Return the address of a path.

        Raises:
            SecretMissing: A secret is missing.
            SecretWithheld: The server is not allowed to receive a secret.
            PolicyInvalid: The policy cannot be read.
        """
        secrets = AuthorSecrets.of(settings)
        server = (
            sink_address(path.host)
            if isinstance(path.host, str)
            else secrets.reveal_address(path.host)
        )
        to = (server.target,)
        certificate = path.ca_cert or ""
        return cls(
            server=server,
            egress=secrets.egress(),
            healthz=parse_path(path.healthz),
            endpoint=parse_path(path.endpoint),
            limit=path.limit or ROWS,
            headers={
                name: value if isinstance(value, str) else secrets.reveal(value, to)
                for name, value in path.headers
            },
            ca_cert=(
                certificate if isinstance(certificate, str) else secrets.reveal(certificate, to)
            ),
            ca_file=settings.ca_file,
        )


class HttpSink(Target):
    """One server that receives changes."""

    def __init__(self, address: Address, *, spec: SinkJobSpec) -> None:
        """Prepare; the first write connects."""
        self._address = address
        self._spec = spec
        self._is_healthy = False

    @override
    def write(self, changes: Sequence[RowChange], *, mark: int) -> None:
        """Send the changes in calls of at most the path's number of rows."""
        del mark  # a server has no fence; its rows have versions
        try:
            with contextlib.closing(self._connect()) as connection:
                if not self._is_healthy:  # after a failure, check its health first
                    self._call(connection, "GET", self._address.healthz, None)
                for body in self._bodies(changes):
                    self._call(connection, "POST", self._address.endpoint, body)
        except (OSError, http.client.HTTPException) as error:
            self._is_healthy = False
            if isinstance(error, SinkFailedError):
                raise
            raise SinkFailedError(
                f"`{self._spec.dataset}`: the HTTP target failed: {error}"
            ) from error
        self._is_healthy = True

    def _bodies(self, changes: Sequence[RowChange]) -> Iterator[bytes]:
        for begin in range(0, len(changes), self._address.limit):
            chunk = changes[begin : begin + self._address.limit]
            rows: list[Json] = [envelope(change, self._spec) for change in chunk]
            yield as_json(rows)

    def _call(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> None:
        headers = dict(self._address.headers)
        if body is not None:
            headers |= {
                "Content-Type": "application/json",
                KEY_HEADER: hashlib.blake2b(body, digest_size=16).hexdigest(),
            }
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        start = answer.read(500)
        answer.close()
        if answer.status not in _OK:
            text = start.decode(errors="replace")
            raise SinkFailedError(f"`{method} {path}` returned {answer.status}: {text}")

    def _connect(self) -> http.client.HTTPConnection:
        tls = None
        if self._address.server.scheme == "https":
            tls = ssl.create_default_context(
                cafile=self._address.ca_file or None, cadata=self._address.ca_cert or None
            )
        return PinnedHttp(
            self._address.server,
            egress=self._address.egress,
            timeout_s=TIMEOUT_S,
            tls=tls,
        )

    @override
    def close(self) -> None:
        """Do nothing: the sink has no open resources."""


def open_target(spec: SinkJobSpec, *, name: str, settings: Settings) -> HttpSink:
    """Open the target of a sink.

    Raises:
        TypeError: The sink has another kind of target.
        SecretMissing: A secret is missing.
        SecretWithheld: The server is not allowed to receive a secret.
    """
    target = spec.sink.target
    del name
    if not isinstance(target, HttpPath):
        raise TypeError("not a path of a server")
    return HttpSink(Address.of(target, settings), spec=spec)
