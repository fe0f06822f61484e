"""Routes that create, clone, delete, restore and list branches; none of them calls a store."""

import hashlib
import re

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from narthex._base import Json
from narthex_ledger import BranchRequest, BranchView, CommitState
from narthex_server.errors import InvalidRequest
from narthex_server.security.auth import Principal, branch_of
from narthex_server.security.branch_scope import require_branch
from narthex_server.security.request_identity import actor_of, idempotency_key, new_commit_id
from narthex_server.services.container import Services
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

_NAME = re.compile(r"[a-zA-Z0-9_.\-/]{1,200}")


class InitCall(BaseModel):
    """The start of a new branch: empty, or a clone of another branch."""

    model_config = ConfigDict(extra="forbid")

    clone_from: str | None = None


@router.post("/init")
def init(call: InitCall, request: Request) -> dict[str, Json]:
    """Create the branch that the header names, empty or as a clone."""
    services: Services = request.app.state.services
    wish = _plan_request(request, f"init {call.clone_from or ''}")
    if call.clone_from is None:
        return _plain(services.ledger.branches.init(wish))
    require_branch(request, call.clone_from)
    made = services.ledger.branches.clone(wish, source=call.clone_from)
    _look_after(services, made)
    return _plain(made)


@router.post("/delete")
def delete(request: Request) -> dict[str, Json]:
    """Delete the branch that the header names; it can be restored for a while."""
    services: Services = request.app.state.services
    gone = services.ledger.branches.delete(_plan_request(request, "delete"))
    services.snapshots.forget()
    return _plain(gone)


@router.post("/undelete")
def undelete(request: Request) -> dict[str, Json]:
    """Restore the newest deleted branch of the name in the header."""
    services: Services = request.app.state.services
    back = services.ledger.branches.undelete(_plan_request(request, "undelete"))
    services.snapshots.forget()
    _look_after(services, back)
    return _plain(back)


@router.get("/branch/list")
def listed(request: Request) -> dict[str, Json]:
    """List the principal's active branches, and the deleted ones that can be restored."""
    services: Services = request.app.state.services
    principal: Principal = request.state.principal
    found = [b for b in services.ledger.branches.all(services.tenant) if principal.may_name(b.name)]
    return {
        "branches": [_plain(one) for one in found if one.state == "active"],
        "deleted": [_plain(one) for one in found if one.state != "active"],
    }


def _plan_request(request: Request, what: str) -> BranchRequest:
    services: Services = request.app.state.services
    name = branch_of(request)
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"`{name[:64]}` cannot be the name of a branch")
    key = idempotency_key(request)
    commit_id = new_commit_id(key, name.encode())
    return BranchRequest(
        commit_id=commit_id,
        tenant=services.tenant,
        name=name,
        idempotency_key=key or str(commit_id),
        request_sha256=hashlib.sha256(f"{what}\n{name}".encode()).digest(),
        actor=actor_of(request),
    )


def _look_after(services: Services, branch: BranchView) -> None:
    """Notify the recovery loop if the branch came with a promotion that is due."""
    head = branch.head_commit_id
    if head is not None and services.ledger.commits.get(head).state is CommitState.COMMITTED:
        services.recovery.notice(head)


def _plain(branch: BranchView) -> dict[str, Json]:
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
