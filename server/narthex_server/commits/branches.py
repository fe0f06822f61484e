"""Routes that create, clone, delete, restore and list branches; none of them calls a store."""

import hashlib
import re

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from narthex_ledger import BranchRequest, BranchView, CommitState, TenantId
from narthex_server.commits.responses import BranchList, BranchStatus
from narthex_server.errors import InvalidRequest
from narthex_server.security.principals import BranchDep, PrincipalDep
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep, RequestIdentity, new_commit_id
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import LedgerDep, Services, ServicesDep, TenantDep
from narthex_server.web.plain_routes import IDEMPOTENT, PlainRoute

router = APIRouter(route_class=PlainRoute)

_NAME = re.compile(r"[a-zA-Z0-9_.\-/]{1,200}")


class InitCall(BaseModel):
    """The start of a new branch: empty, or a clone of another branch."""

    model_config = ConfigDict(extra="forbid")

    clone_from: str | None = None


@router.post("/init", dependencies=[requires(Right.WRITE_DEFINITIONS)], openapi_extra=IDEMPOTENT)
def init(
    call: InitCall, services: ServicesDep, access: AccessDep, caller: IdentityDep
) -> BranchStatus:
    """Create the branch that the header names, empty or as a clone."""
    request = _plan_request(services.tenant, access.branch, caller, f"init {call.clone_from or ''}")
    if call.clone_from is None:
        return _plain(services.ledger.branches.init(request))
    access.require_branch(call.clone_from)
    branch = services.ledger.branches.clone(request, source=call.clone_from)
    _look_after(services, branch)
    return _plain(branch)


@router.post("/delete", dependencies=[requires(Right.DELETE_BRANCHES)], openapi_extra=IDEMPOTENT)
def delete(services: ServicesDep, name: BranchDep, caller: IdentityDep) -> BranchStatus:
    """Delete the branch that the header names; it can be restored for a while."""
    request = _plan_request(services.tenant, name, caller, "delete")
    branch = services.ledger.branches.delete(request)
    services.snapshots.forget()
    return _plain(branch)


@router.post(
    "/undelete", dependencies=[requires(Right.WRITE_DEFINITIONS)], openapi_extra=IDEMPOTENT
)
def undelete(services: ServicesDep, name: BranchDep, caller: IdentityDep) -> BranchStatus:
    """Restore the newest deleted branch of the name in the header."""
    request = _plan_request(services.tenant, name, caller, "undelete")
    branch = services.ledger.branches.undelete(request)
    services.snapshots.forget()
    _look_after(services, branch)
    return _plain(branch)


@router.get(
    "/branch/list", dependencies=[requires(Right.READ_DEFINITIONS, extent=Extent.OWN_BRANCHES)]
)
def listed(ledger: LedgerDep, tenant: TenantDep, principal: PrincipalDep) -> BranchList:
    """List the principal's active branches, and the deleted ones that can be restored."""
    branches = [branch for branch in ledger.branches.all(tenant) if principal.may_name(branch.name)]
    return {
        "branches": [_plain(branch) for branch in branches if branch.state == "active"],
        "deleted": [_plain(branch) for branch in branches if branch.state != "active"],
    }


def _plan_request(
    tenant: TenantId, name: str, caller: RequestIdentity, change: str
) -> BranchRequest:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"`{name[:64]}` cannot be the name of a branch")
    key = caller.idempotency_key
    commit_id = new_commit_id(key, name.encode())
    return BranchRequest(
        commit_id=commit_id,
        tenant=tenant,
        name=name,
        idempotency_key=key or str(commit_id),
        request_sha256=hashlib.sha256(f"{change}\n{name}".encode()).digest(),
        actor=caller.actor,
    )


def _look_after(services: Services, branch: BranchView) -> None:
    """Notify the recovery loop if the branch came with a promotion that is due."""
    head = branch.head_commit_id
    if head is not None and services.ledger.commits.get(head).state is CommitState.COMMITTED:
        services.recovery.notice(head)


def _plain(branch: BranchView) -> BranchStatus:
    until = branch.undelete_until
    return {
        "name": branch.name,
        "state": branch.state,
        "is_main": branch.is_main,
        "is_protected": branch.is_protected,
        "head": str(branch.head_commit_id) if branch.head_commit_id else None,
        "head_seq": branch.head_seq,
        "serving": str(branch.serving_commit_id) if branch.serving_commit_id else None,
        "serving_seq": branch.serving_seq,
        "undelete_until": until.isoformat() if until else None,
    }
