"""The audit log: control-plane requests and their answers, in a verifiable hash chain."""

import secrets

import structlog
from fastapi import APIRouter, Request

from narthex._base import Json
from narthex_ledger import LedgerError
from narthex_server.security.audit_log_heads import LogHeads
from narthex_server.security.auth import RIGHTS, Right, branch_of
from narthex_server.services.container import Services
from narthex_server.web.plain_routes import Number, PlainRoute

router = APIRouter(route_class=PlainRoute)
log = structlog.get_logger()

DATA_PLANE = frozenset({Right.READ_DATA, Right.WRITE_DATA, Right.STEP})
"""Rights of calls that carry rows, queries and steps; these are recorded elsewhere."""

REFUSED = frozenset({401, 403})


def is_recorded(method: str, path: str, status: int) -> bool:
    """Return whether a call is recorded in the log.

    It is if it changes the control plane, reads secrets, or was denied access.
    """
    right = RIGHTS.get((method, path))
    if status in REFUSED or right is Right.SECRETS:
        return True
    return method != "GET" and right is not None and right not in DATA_PLANE


def record(request: Request, *, path: str, status: int) -> None:
    """Append a request and the status of its answer; entries contain no values of bodies."""
    services: Services = request.app.state.services
    principal = getattr(request.state, "principal", None)
    entry: dict[str, Json] = {
        "who": principal.name if principal else "nobody",
        "token_id": principal.token_id if principal else "",
        "verb": request.method,
        "path": path,
        "of": {name: _kept(str(value)) for name, value in request.path_params.items()},
        "branch": _kept(branch_of(request)),
        "status": status,
        "request_id": _kept(request.headers.get("idempotency-key", "")) or secrets.token_hex(8),
    }
    if cancels := getattr(request.state, "cancels", None):
        entry |= {"cancelled_tags": cancels}
    try:
        head = services.ledger.control_log.append(entry)
        LogHeads(services.settings.control_log_heads_file).append(head)
    except (LedgerError, OSError):
        log.exception("control_log_failed", path=path)


def _kept(text: str) -> str:
    """Return a caller's text in the form for an entry: cut to length, printable."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:200])


@router.get("/control-log")
def entries(request: Request, after: Number = 0, limit: Number = 100) -> dict[str, Json]:
    """List log entries in order, starting after a number."""
    services: Services = request.app.state.services
    found = services.ledger.control_log.entries(after=after, limit=min(limit, 1_000))
    return {
        "entries": [
            {
                "number": one.number,
                "at": one.at.isoformat(),
                "entry": one.entry,
                "sha256": one.sha256.hex(),
            }
            for one in found
        ]
    }


@router.get("/control-log/verify")
def verify(request: Request) -> dict[str, Json]:
    """Check each entry's chain, signature and shipped hash; report the first that fails."""
    services: Services = request.app.state.services
    heads = LogHeads(services.settings.control_log_heads_file).read()
    broken = services.ledger.control_log.verify(heads)
    return {
        "whole": broken is None,
        "broken_at": broken.number if broken else None,
        "why": broken.why if broken else None,
        "entries_shipped": len(heads),
    }
