"""The audit log: control-plane requests and their answers, in a verifiable hash chain.

Refused calls are counted, and written down at the end of the minute: anybody can make them.
"""

import datetime as dt
import secrets
from collections.abc import Mapping

import attrs
import structlog
from fastapi import APIRouter, Request
from pydantic import JsonValue
from typing_extensions import TypedDict

from narthex._base import Json
from narthex_ledger import Ledger, LedgerError
from narthex_server.background_loop import BackgroundLoop
from narthex_server.security.audit_log_heads import LogHeads
from narthex_server.security.dataset_access import Access
from narthex_server.security.principals import Principal, named_branch
from narthex_server.security.route_rights import AccessRequirement, Extent, Right, requires
from narthex_server.services.container import LedgerDep, SettingsDep
from narthex_server.web.plain_routes import Instant, Number, PlainRoute
from narthex_server.web.refused_calls import RefusedCalls, told_address

router = APIRouter(
    route_class=PlainRoute,
    dependencies=[requires(Right.ADMINISTER, extent=Extent.INSTALLATION)],
)
log = structlog.get_logger()

DATA_PLANE = frozenset({Right.READ_DATA, Right.WRITE_DATA, Right.STEP})
"""Rights of calls that carry rows, queries and steps; these are recorded elsewhere."""

REFUSED = frozenset({401, 403})


class ControlLogEntry(TypedDict):
    """An entry of the log.

    Attributes:
        entry: The request, and the status of its answer.
        sha256: The hash of this entry and of all entries before it.
    """

    number: int
    at: Instant
    entry: JsonValue
    sha256: str


class ControlLogEntries(TypedDict):
    """Entries of the log, in order."""

    entries: list[ControlLogEntry]


class ControlLogVerification(TypedDict):
    """Whether the log is whole.

    Attributes:
        broken_at: The number of the first entry that fails.
        entries_shipped: How many hashes of entries the file beside the ledger has.
    """

    whole: bool
    broken_at: int | None
    why: str | None
    entries_shipped: int


def is_recorded(method: str, requirement: AccessRequirement | None, status: int) -> bool:
    """Return whether a call is recorded in the log.

    It is recorded if it changes the control plane, reads secrets, was denied access, or if its
    route demands it, as those of sign-ins do.
    """
    right = requirement.right if requirement else None
    is_recorded = requirement is not None and requirement.is_recorded
    if is_recorded or status in REFUSED or right is Right.SECRETS:
        return True
    return method != "GET" and right is not None and right not in DATA_PLANE


@attrs.frozen
class AuditLog:
    """Appends requests to the ledger's log, and the hash of each entry to a file.

    Attributes:
        refused: The refused calls that are not in the log yet.
    """

    ledger: Ledger
    heads: LogHeads
    refused: RefusedCalls = attrs.field(factory=RefusedCalls)

    def record(self, request: Request, *, path: str, status: int) -> None:
        """Append a request and the status of its answer; entries contain no values of bodies.

        A call of nobody, and a refused one of a token, is counted for `write_refused`.
        """
        principal: Principal | None = getattr(request.state, "principal", None)
        access: Access | None = getattr(request.state, "access", None)
        entry: dict[str, Json] = {
            "who": principal.name if principal else "nobody",
            "token_id": principal.token_id if principal else "",
            "verb": request.method,
            "path": path,
            "of": {name: _shortened(str(value)) for name, value in request.path_params.items()},
            "branch": _shortened(named_branch(request)),
            "status": status,
            "request_id": _shortened(request.headers.get("idempotency-key", ""))
            or secrets.token_hex(8),
        }
        if access is not None and access.cancelled_tags:
            entry |= {"cancelled_tags": [*access.cancelled_tags]}
        now = dt.datetime.now(dt.UTC)
        if principal is None:
            host = request.client.host if request.client else ""
            self.refused.note_stranger(entry, address=told_address(host), at=now)
        elif status in REFUSED:
            self.refused.note_holder(entry, at=now)
        else:
            self._append(entry)

    def write_refused(self) -> None:
        """Append an entry for each address, and for each token and route, of refused calls."""
        for entry in self.refused.take():
            self._append(entry)

    def loop(self) -> BackgroundLoop:
        """Return the thread that writes refused calls at the end of each minute."""
        return self.refused.loop(self.write_refused)

    def _append(self, entry: Mapping[str, Json]) -> None:
        try:
            self.heads.append(self.ledger.control_log.append({**entry}))
        except (LedgerError, OSError):
            log.exception("control_log_failed", path=entry["path"])


def _shortened(text: str) -> str:
    """Return a caller's text in the form for an entry: cut to length, printable."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text[:200])


@router.get("/control-log")
def entries(
    request: Request, ledger: LedgerDep, after: Number = 0, limit: Number = 100
) -> ControlLogEntries:
    """List log entries in order, starting after a number.

    Refused calls that this process has counted until now are written first.
    """
    audit_log: AuditLog = request.app.state.audit_log
    audit_log.write_refused()
    return {
        "entries": [
            {
                "number": logged.number,
                "at": logged.at.isoformat(),
                "entry": logged.entry,
                "sha256": logged.sha256.hex(),
            }
            for logged in ledger.control_log.entries(after=after, limit=min(limit, 1_000))
        ]
    }


@router.get("/control-log/verify")
def verify(ledger: LedgerDep, settings: SettingsDep) -> ControlLogVerification:
    """Check each entry's chain, signature and shipped hash; report the first that fails."""
    heads = LogHeads(settings.control_log_heads_file).read()
    broken = ledger.control_log.verify(heads)
    return {
        "whole": broken is None,
        "broken_at": broken.number if broken else None,
        "why": broken.why if broken else None,
        "entries_shipped": len(heads),
    }
