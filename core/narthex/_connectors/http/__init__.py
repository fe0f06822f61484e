"""HTTP servers that rows are sent to."""

from collections.abc import Mapping
from typing import Final

import attrs

from narthex._base.records import record
from narthex._connectors.addresses import sink_address
from narthex._connectors.egress import parse_path
from narthex._connectors.kinds import ConnectorKind, Outlet, PolicyFacts, SinkKind
from narthex._connectors.parts import Parts
from narthex._ir.connections import Connector, Credential

__all__ = ["HTTP", "KIND", "Certificate", "HttpPath"]


@record
@attrs.frozen(kw_only=True)
class HttpPath(Connector):
    """The destination of rows that are sent over HTTP.

    Attributes:
        healthz: The path of the destination's health check.
        limit: The greatest number of rows in a call.
        headers: The headers of each call.
    """

    name: str
    host: str | Credential
    healthz: str
    endpoint: str
    ca_cert: str | Credential | None = None
    limit: int | None = None
    headers: tuple[tuple[str, str | Credential], ...] = ()


@attrs.frozen
class Certificate:
    """A certificate: its text, which is not a secret, or a reference to it."""

    cert: str | Credential


@attrs.frozen
class HTTP:
    """An HTTP server that rows are sent to.

    Attributes:
        healthz: The path of its health check.
    """

    name: str
    host: str | Credential
    healthz: str
    ca_cert: Certificate | None = None

    def path(
        self,
        endpoint: str,
        limit: int | None = None,
        headers: Mapping[str, str | Credential] | None = None,
    ) -> HttpPath:
        """Declare one path; only `@sink` accepts it.

        Args:
            endpoint: The path that rows are sent to.
            limit: The greatest number of rows of a call.
            headers: Sent with each call; those that authenticate must be `Secret(…)`.

        Raises:
            DefinitionErrors: A credential is inline instead of a reference, or a part is invalid.
        """
        parts = Parts("HTTP")
        host = self.host
        made = HttpPath(
            name=parts.name(self.name),
            host=parts.address(host, "host") if isinstance(host, str) else host,
            healthz=parts.text(self.healthz, "`healthz`"),
            endpoint=parts.text(endpoint, "`endpoint`"),
            ca_cert=None if self.ca_cert is None else self.ca_cert.cert,
            limit=None if limit is None else parts.number(limit, "limit"),
            headers=parts.headers(headers or {}),
        )
        parts.report()
        return made


def _outlets(path: HttpPath, endpoint_url: str) -> tuple[Outlet, ...]:
    del endpoint_url
    parse_path(path.healthz)
    parse_path(path.endpoint)
    sent = [value for _, value in path.headers if not isinstance(value, str)]
    if path.ca_cert is not None and not isinstance(path.ca_cert, str):
        sent.append(path.ca_cert)
    if isinstance(path.host, str):
        targets = (sink_address(path.host).target,)
        return (Outlet(what="`host`", targets=targets, credentials=tuple(sent)),)
    return (Outlet(what="`host`", targets=(), credentials=(path.host, *sent)),)


KIND: Final = ConnectorKind(
    name="http",
    title="HTTP",
    text="A server that receives calls with a JSON array of envelopes of Debezium, each with an "
    "idempotency key.",
    record=HttpPath,
    declared_by=((HTTP, "path"),),
    policy=PolicyFacts(
        text="The host, with the secrets of its headers and its certificate.",
        outlets=_outlets,
        place=lambda _: None,
    ),
    sink=SinkKind(
        title="HTTP",
        where="HTTP",
        identity=lambda path: f"http:{path.name}:{path.endpoint}",
        is_bulk=False,
        writer="narthex_spark_apps.sinks.http:open_target",
        erasing="ask the operator of the server to delete the rows with the keys",
    ),
)
