"""Upkeep after commits: collect, audit, recover; each may be requested at any time.

Airflow's DAGs request it, people do with `narthex audit`, and the server does so by itself.
"""

import contextlib
import hashlib
from uuid import UUID

from fastapi import APIRouter
from typing_extensions import TypedDict

from narthex._formats.wire import CommitPayload, encode_commit
from narthex._ir import Definitions
from narthex_ledger import CommitRequest, CommitState, LedgerRefused
from narthex_server.definitions.compilation import compile_definitions
from narthex_server.deploy.auditor import StoreAudit
from narthex_server.deploy.store_ownership import OwnedStoreAdapter
from narthex_server.errors import Conflicting
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import ServicesDep
from narthex_server.web.plain_routes import Id, PlainRoute

router = APIRouter(route_class=PlainRoute)
STEP = requires(Right.STEP, extent=Extent.INSTALLATION)

NOTHING = Definitions(datasets=(), featuresets=())
DRILL_BRANCH = "recovery-drill"
"""A branch of the platform's own: it has no definitions, so a drill affects no author."""


class Collection(TypedDict):
    """The result of a garbage collection: ids of assets.

    Attributes:
        retired: Assets that nothing pins any more, as of this collection.
        due: Assets that are due to be destroyed, and not destroyed yet.
    """

    retired: list[int]
    due: list[int]


class Audit(TypedDict):
    """The result of comparing the ledger with every store.

    Attributes:
        sound: Whether all scans are complete and found no difference.
        complete: Whether all scans are complete.
    """

    sound: bool
    complete: bool
    systems: list[StoreAudit]


class Adoption(TypedDict):
    """The kinds of stores that now belong to this ledger."""

    adopted: list[str]


class UnendedCommit(TypedDict):
    """A commit that has not ended, and the process that works on it."""

    commit_id: Id
    state: str
    owner: str | None


class UnendedCommits(TypedDict):
    """Commits that have not ended."""

    unended: list[UnendedCommit]


class Drill(TypedDict):
    """The commit of a recovery drill."""

    state: str
    owner: str | None
    fence: int


@router.post("/upkeep/collect", dependencies=[STEP])
def collect(services: ServicesDep) -> Collection:
    """Retire unpinned assets, and destroy due ones, as far as possible now."""
    retired = services.collector.sweep()
    services.collector.collect(None)
    return {"retired": list(retired), "due": list(services.ledger.gc.due_destroys())}


@router.post("/upkeep/audit", dependencies=[STEP])
def audit(services: ServicesDep) -> Audit:
    """Compare the ledger with every store; sound if all scans are complete without findings."""
    audits = services.auditor.audit()
    return {
        "sound": not any(audit.findings or audit.error or audit.tripped for audit in audits),
        "complete": not any(audit.error for audit in audits),
        "systems": [audit.plain() for audit in audits],
    }


@router.post("/upkeep/adopt", dependencies=[requires(Right.ADMINISTER, extent=Extent.INSTALLATION)])
def adopt(services: ServicesDep) -> Adoption:
    """Declare, as a person, that this restored or moved ledger owns the stores."""
    adopted: list[str] = []
    for kind, adapter in services.auditor.adapters.items():
        if isinstance(adapter, OwnedStoreAdapter):
            adapter.adopt()
            adopted.append(kind.value)
    return {"adopted": adopted}


@router.post("/upkeep/recover", dependencies=[STEP])
def recover(services: ServicesDep) -> UnendedCommits:
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
def drill(drill_id: UUID, services: ServicesDep) -> Drill:
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
