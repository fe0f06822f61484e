"""Upkeep of what commits leave behind: collect, audit, recover; each may be asked for at any time.

Airflow's DAGs ask, people ask with `narthex audit`, and the server does the same by itself.
"""

import contextlib
import hashlib
from uuid import UUID

from fastapi import APIRouter, HTTPException, Request

from narthex._base import Json
from narthex._formats.wire import CommitPayload, encode_commit
from narthex._ir import Definitions
from narthex_ledger import CommitRequest, CommitState, LedgerRefused
from narthex_server.definitions.compilation import compile_definitions
from narthex_server.deploy.store_ownership import OwnedStoreAdapter
from narthex_server.services.container import Services
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

NOTHING = Definitions(datasets=(), featuresets=())
DRILL_BRANCH = "recovery-drill"
"""No author's branch: it has nothing on it, so that a drill touches nobody."""


@router.post("/upkeep/collect")
def collect(request: Request) -> dict[str, Json]:
    """Retire what nothing pins and destroy what is due, as far as it goes now."""
    services: Services = request.app.state.services
    retired = services.collector.sweep()
    services.collector.collect(None)
    return {"retired": list(retired), "due": list(services.ledger.due_destroys())}


@router.post("/upkeep/audit")
def audit(request: Request) -> dict[str, Json]:
    """Hold the ledger against every store; sound when each was scanned and nothing was wrong."""
    services: Services = request.app.state.services
    found = services.auditor.audit()
    return {
        "sound": not any(one.findings or one.error or one.tripped for one in found),
        "complete": not any(one.error for one in found),
        "systems": [one.plain() for one in found],
    }


@router.post("/upkeep/adopt")
def adopt(request: Request) -> dict[str, Json]:
    """A person's word that this ledger, though restored or moved, is the stores' own."""
    services: Services = request.app.state.services
    adopted: list[Json] = []
    for kind, adapter in services.auditor.adapters.items():
        if isinstance(adapter, OwnedStoreAdapter):
            adapter.adopt()
            adopted.append(kind.value)
    return {"adopted": adopted}


@router.post("/upkeep/recover")
def recover(request: Request) -> dict[str, Json]:
    """Take one turn of the recovery loop; gives the commits that have not ended."""
    services: Services = request.app.state.services
    services.recovery.look()
    views = [services.ledger.commit(commit_id) for commit_id in services.ledger.unended()]
    return {
        "unended": [
            {"commit_id": str(v.commit_id), "state": v.state.value, "owner": v.owner} for v in views
        ]
    }


@router.post("/upkeep/drill/{drill_id}")
def drill(drill_id: UUID, request: Request) -> dict[str, Json]:
    """Begin a commit and leave it, as a process that dies does; the same id again shows it.

    It is planned under an owner that never comes back and offered to nobody: only the recovery
    loop, once the dead owner's lease is over, can end it.
    """
    services: Services = request.app.state.services
    ledger = services.ledger
    branch = ledger.ensure_branch(services.tenant, DRILL_BRANCH)
    bundle = encode_commit(CommitPayload(message="recovery drill", definitions=NOTHING))
    ledger.accept(
        CommitRequest(
            commit_id=drill_id,
            tenant=services.tenant,
            branch=branch,
            idempotency_key=f"drill-{drill_id}",
            request_sha256=hashlib.sha256(drill_id.bytes).digest(),
            actor="recovery drill",
            message="recovery drill",
            bundle=ledger.signed(bundle),
        )
    )
    view = ledger.commit(drill_id)
    if view.message != "recovery drill":
        raise HTTPException(status_code=409, detail={"err_msg": f"{drill_id} is no drill"})
    if view.state is CommitState.QUEUED and view.owner is None:
        # Planned, it is not offered to Airflow either.
        with contextlib.suppress(LedgerRefused):
            fence = ledger.claim(drill_id, f"dead:{drill_id}")
            ledger.plan(
                drill_id,
                fence,
                blueprint=compile_definitions(NOTHING),
                name_of=services.executor.name_of,
            )
        services.recovery.driven(drill_id)
        view = ledger.commit(drill_id)
    return {"state": view.state.value, "owner": view.owner, "fence": view.fence}
