"""Upkeep after commits: collect, audit, recover; each may be requested at any time.

Airflow's DAGs request it, people do with `narthex audit`, and the server does so by itself.
"""

import contextlib
import hashlib
from uuid import UUID

from fastapi import APIRouter

from narthex._base import Json
from narthex._formats.wire import CommitPayload, encode_commit
from narthex._ir import Definitions
from narthex_ledger import CommitRequest, CommitState, LedgerRefused
from narthex_server.definitions.compilation import compile_definitions
from narthex_server.deploy.store_ownership import OwnedStoreAdapter
from narthex_server.errors import Conflicting
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import ServicesDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)
STEP = requires(Right.STEP, extent=Extent.INSTALLATION)

NOTHING = Definitions(datasets=(), featuresets=())
DRILL_BRANCH = "recovery-drill"
"""A branch of the platform's own: it has no definitions, so a drill affects no author."""


@router.post("/upkeep/collect", dependencies=[STEP])
def collect(services: ServicesDep) -> dict[str, Json]:
    """Retire unpinned assets, and destroy due ones, as far as possible now."""
    retired = services.collector.sweep()
    services.collector.collect(None)
    return {"retired": list(retired), "due": list(services.ledger.gc.due_destroys())}


@router.post("/upkeep/audit", dependencies=[STEP])
def audit(services: ServicesDep) -> dict[str, Json]:
    """Compare the ledger with every store; sound if all scans are complete without findings."""
    found = services.auditor.audit()
    return {
        "sound": not any(one.findings or one.error or one.tripped for one in found),
        "complete": not any(one.error for one in found),
        "systems": [one.plain() for one in found],
    }


@router.post("/upkeep/adopt", dependencies=[requires(Right.ADMINISTER, extent=Extent.INSTALLATION)])
def adopt(services: ServicesDep) -> dict[str, Json]:
    """Declare, as a person, that this restored or moved ledger owns the stores."""
    adopted: list[Json] = []
    for kind, adapter in services.auditor.adapters.items():
        if isinstance(adapter, OwnedStoreAdapter):
            adapter.adopt()
            adopted.append(kind.value)
    return {"adopted": adopted}


@router.post("/upkeep/recover", dependencies=[STEP])
def recover(services: ServicesDep) -> dict[str, Json]:
    """Run one round of the recovery loop; return the commits that have not ended."""
    services.recovery.look()
    views = [
        services.ledger.commits.get(commit_id) for commit_id in services.ledger.commits.unended()
    ]
    return {
        "unended": [
            {"commit_id": str(v.commit_id), "state": v.state.value, "owner": v.owner} for v in views
        ]
    }


@router.post("/upkeep/drill/{drill_id}", dependencies=[STEP])
def drill(drill_id: UUID, services: ServicesDep) -> dict[str, Json]:
    """Begin a commit and abandon it, like a process that dies; the same id again shows it.

    The commit is planned under an owner that never returns, and is not offered to Airflow: only the
    recovery loop can end it, once the dead owner's lease has expired.
    """
    ledger = services.ledger
    branch = ledger.branches.ensure(services.tenant, DRILL_BRANCH)
    bundle = encode_commit(CommitPayload(message="recovery drill", definitions=NOTHING))
    ledger.commits.accept(
        CommitRequest(
            commit_id=drill_id,
            tenant=services.tenant,
            branch=branch,
            idempotency_key=f"drill-{drill_id}",
            request_sha256=hashlib.sha256(drill_id.bytes).digest(),
            actor="recovery drill",
            message="recovery drill",
            bundle=ledger.bundles.sign(bundle),
        )
    )
    view = ledger.commits.get(drill_id)
    if view.message != "recovery drill":
        raise Conflicting(f"drill {drill_id} does not exist")
    if view.state is CommitState.QUEUED and view.owner is None:
        # A planned commit is not offered to Airflow.
        with contextlib.suppress(LedgerRefused):
            fence = ledger.commits.claim(drill_id, f"dead:{drill_id}")
            ledger.commits.plan(
                drill_id,
                fence,
                blueprint=compile_definitions(NOTHING),
                name_of=services.executor.name_of,
            )
        services.recovery.driven(drill_id)
        view = ledger.commits.get(drill_id)
    return {"state": view.state.value, "owner": view.owner, "fence": view.fence}
