"""The health and the metrics of a process that only answers reads."""

import attrs
import msgspec
from starlette.types import Receive, Scope, Send

from narthex.settings import FULL
from narthex_server.reads.services import ReadServices
from narthex_server.security.route_rights import Right

HEALTH = "/healthz"
METRICS = "/api/v1/metrics"

_JSON = b"application/json"
_OPEN_METRICS = b"application/openmetrics-text; version=1.0.0; charset=utf-8"


@attrs.frozen
class ReadPages:
    """An ASGI application."""

    services: ReadServices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is not a read."""
        del receive
        if scope["type"] != "http":
            return
        status, kind, body = self._page(scope)
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _page(self, scope: Scope) -> tuple[int, bytes, bytes]:
        match scope["method"], scope["path"]:
            case "GET", path if path == HEALTH:
                return self._health()
            case "GET", path if path == METRICS:
                return self._metrics(dict(scope["headers"]).get(b"authorization", b""))
            case _:
                error = "this process answers `/query` and lookups only; ask the server"
                return 404, _JSON, msgspec.json.encode({"err_msg": error})

    def _health(self) -> tuple[int, bytes, bytes]:
        """Return whether reads are answered, and the age of the definitions that they use."""
        age_s = self.services.snapshots.age_s
        self.services.workers.end_idle()
        is_well = age_s is not None and age_s <= self.services.settings.reads_greatest_age_s
        health = {
            "status": "ok" if is_well else "unhealthy",
            "sandbox": self.services.workers.weakness or FULL,
            "snapshot_age_s": None if age_s is None else round(age_s, 3),
        }
        return 200 if is_well else 503, _JSON, msgspec.json.encode(health)

    def _metrics(self, authorization: bytes) -> tuple[int, bytes, bytes]:
        kind, _, token = authorization.decode("latin-1").partition(" ")
        principal = self.services.tokens.known(token) if kind == "Bearer" and token else None
        if principal is None:
            error = "a valid token is required"
            return 401, _JSON, msgspec.json.encode({"err_msg": error})
        if principal.is_narrow or Right.READ_DEFINITIONS not in principal.rights:
            error = "the token does not allow this"
            return 403, _JSON, msgspec.json.encode({"err_msg": error})
        lines = [
            *self.services.meters.render(),
            *snapshot_lines(self.services.snapshots.age_s),
            "# EOF",
            "",
        ]
        return 200, _OPEN_METRICS, "\n".join(lines).encode()


def snapshot_lines(age_s: float | None) -> list[str]:
    """Return the metric of the age of the definitions; without a sample before the first read."""
    name = "narthex_snapshot_age_seconds"
    return [
        f"# TYPE {name} gauge",
        f"# HELP {name} Seconds since it was read which commits serve.",
        *([] if age_s is None else [f"{name} {age_s:.3f}"]),
    ]
