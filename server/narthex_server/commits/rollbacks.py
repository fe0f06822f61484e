"""Rollbacks and approvals: people's decisions on which commit readers read."""

import hashlib
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from narthex._base import Json
from narthex_ledger import (
    Accepted,
    ApprovalView,
    BranchRequest,
    CommitRequest,
    NotPinned,
    PromotionState,
    RolledBack,
)
from narthex_server.deploy.airflow_approvals import approver, has_asked_to_roll_back
from narthex_server.errors import Conflicting, Forbidden
from narthex_server.security.auth import Principal, Right, branch_of
from narthex_server.security.request_identity import actor_of, idempotency_key, new_commit_id
from narthex_server.services.container import Services
from narthex_server.web.plain_routes import GREATEST_NUMBER, PlainRoute

router = APIRouter(route_class=PlainRoute)


class RollbackCall(BaseModel):
    """The target: a commit's number on the branch; by default the commit that was read before."""

    model_config = ConfigDict(extra="forbid")

    to: int | None = Field(default=None, ge=0, le=GREATEST_NUMBER)
    message: str = ""


class ProtectCall(BaseModel):
    """Whether a person must approve each promotion of the branch."""

    model_config = ConfigDict(extra="forbid")

    protected: bool


@router.post("/rollback")
def rollback(call: RollbackCall, request: Request) -> JSONResponse:
    """Redeploy an earlier state of the branch in the header.

    Readers flip at once if its jobs still run. If its assets are no longer retained, its stored
    definitions are committed anew.
    """
    services: Services = request.app.state.services
    _check_approval(request, call)
    commit_request = _plan_request(request, call)
    try:
        done = services.ledger.branches.roll_back(commit_request, to_seq=call.to)
    except NotPinned as gone:
        return _commit_again(request, call, gone)
    services.snapshots.forget()
    if not done.is_served:
        services.recovery.notice(done.commit_id)
    return JSONResponse(_plain(done), status_code=200 if done.is_served else 202)


def _check_approval(request: Request, call: RollbackCall) -> None:
    """Require the right to approve for a rollback of a protected branch.

    Readers may flip at once. Airflow's processes lack this right; they pass on that a person has
    asked for the rollback there.
    """
    services: Services = request.app.state.services
    branch = services.ledger.branches.get(services.tenant, branch_of(request))
    principal: Principal = request.state.principal
    if not branch.is_protected or Right.APPROVE in principal.rights:
        return
    if Right.SPEAK_FOR not in principal.rights or not _is_asked_in_airflow(request, call):
        raise Forbidden


def _is_asked_in_airflow(request: Request, call: RollbackCall) -> bool:
    services: Services = request.app.state.services
    run_id = idempotency_key(request).removeprefix("airflow ")
    wanted: dict[str, Json] = {"branch": branch_of(request), "to": call.to}
    return has_asked_to_roll_back(services.airflow, run_id, who=actor_of(request), wanted=wanted)


def _plan_request(request: Request, call: RollbackCall) -> BranchRequest:
    services: Services = request.app.state.services
    branch = branch_of(request)
    key = idempotency_key(request)
    commit_id = new_commit_id(key, f"rollback {branch} {call.to}".encode())
    return BranchRequest(
        commit_id=commit_id,
        tenant=services.tenant,
        name=branch,
        idempotency_key=key or str(commit_id),
        request_sha256=hashlib.sha256(f"rollback\n{branch}\n{call.to}".encode()).digest(),
        actor=actor_of(request),
        message=call.message or f"roll back to {call.to or 'the previous commit'}",
    )


def _commit_again(request: Request, call: RollbackCall, gone: NotPinned) -> JSONResponse:
    services: Services = request.app.state.services
    detail = gone.detail if isinstance(gone.detail, dict) else {}
    bundle = services.ledger.bundles.of_commit(UUID(str(detail["commit_id"])))
    branch = services.ledger.branches.get(services.tenant, branch_of(request))
    key = idempotency_key(request)
    commit_id = new_commit_id(key, bundle)
    outcome = services.ledger.commits.accept(
        CommitRequest(
            commit_id=commit_id,
            tenant=services.tenant,
            branch=branch.branch_id,
            idempotency_key=key or str(commit_id),
            request_sha256=hashlib.sha256(bundle).digest(),
            actor=actor_of(request),
            message=call.message or f"deploy {detail['seq']} again",
            bundle=services.ledger.bundles.sign(bundle),
        )
    )
    if isinstance(outcome, Accepted):
        services.recovery.notice(outcome.commit_id)
    return JSONResponse(
        {"commit_id": str(outcome.commit_id), "served": False, "anew": True}, status_code=202
    )


@router.post("/commits/{commit_id}/approve")
def approve(commit_id: UUID, request: Request) -> dict[str, Json]:
    """Let the readers of a protected branch flip to a commit; the first approval counts."""
    services: Services = request.app.state.services
    view = services.ledger.commits.get(commit_id)
    if view.promotion is not PromotionState.PENDING:
        state = view.promotion.value if view.promotion else view.state.value
        raise Conflicting(f"commit {commit_id} does not wait for an approval; it is {state}")
    services.ledger.promotions.approve(commit_id, actor=actor_of(request))
    services.recovery.notice(commit_id)
    return plain_approval(services.ledger.promotions.approval(commit_id))


def pass_on_approval(services: Services, commit_id: UUID) -> None:
    """Store who has approved a commit, as Airflow reports it; the first approval counts.

    Raises:
        StepDeferred: The commit is not approved yet, or Airflow does not answer.
    """
    approval = services.ledger.promotions.approval(commit_id)
    if not approval.is_needed or approval.approved_by is not None:
        return
    services.ledger.promotions.approve(commit_id, actor=approver(services.airflow, commit_id))
    services.recovery.notice(commit_id)


@router.post("/branch/protect")
def protect(call: ProtectCall, request: Request) -> dict[str, Json]:
    """Set whether a person must approve each promotion of the branch in the header."""
    services: Services = request.app.state.services
    name, actor = branch_of(request), actor_of(request)
    change = (
        services.ledger.branches.protect if call.protected else services.ledger.branches.unprotect
    )
    change(services.tenant, name, actor=actor)
    return {"name": name, "protected": call.protected}


def plain_approval(approval: ApprovalView) -> dict[str, Json]:
    """Render whether a person has to approve, and who did so when."""
    return {
        "needed": approval.is_needed and approval.approved_by is None,
        "by": approval.approved_by,
        "at": approval.approved_at.isoformat() if approval.approved_at else None,
    }


def _plain(done: RolledBack) -> dict[str, Json]:
    return {
        "commit_id": str(done.commit_id),
        "seq": done.seq,
        "served": done.is_served,
        "anew": False,
    }
