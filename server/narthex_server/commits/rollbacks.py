"""Rollbacks and approvals: people's decisions on which commit readers read."""

import hashlib
from collections.abc import Iterable
from typing import Annotated, TypeAlias
from uuid import UUID

import structlog
from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from narthex._base import Json
from narthex_ledger import (
    Accepted,
    ApprovalView,
    BranchRequest,
    CommitRequest,
    EventView,
    NotPinned,
    PromotionState,
    RolledBack,
    TenantId,
)
from narthex_server.commits.quality_reports import (
    CheckedDataset,
    checked_datasets,
    report_lines,
)
from narthex_server.commits.responses import Approval, Protection, Rejection, Rollback
from narthex_server.commits.value_differences import value_differences
from narthex_server.deploy.airflow_approvals import approver, has_asked_to_roll_back, rejecter
from narthex_server.deploy.airflow_client import Airflow, run_id_of_key
from narthex_server.deploy.executor import StepDeferred
from narthex_server.errors import Conflicting, Forbidden
from narthex_server.security.principals import BranchDep, Principal, PrincipalDep
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep, RequestIdentity, new_commit_id
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import (
    LedgerDep,
    RecoveryDep,
    Services,
    ServicesDep,
    TenantDep,
)
from narthex_server.services.value_diff_reports import DatasetDiff
from narthex_server.web.plain_routes import GREATEST_NUMBER, IDEMPOTENT, PlainRoute

router = APIRouter(route_class=PlainRoute)
log = structlog.get_logger()


class RollbackCall(BaseModel):
    """The target: a commit's number on the branch; by default the commit that was read before."""

    model_config = ConfigDict(extra="forbid")

    to: int | None = Field(default=None, ge=0, le=GREATEST_NUMBER)
    message: str = ""


Reason: TypeAlias = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Why a person rejects a commit: one line."""


class RejectCall(BaseModel):
    """Why a commit is rejected, for its author; may be empty."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason = ""


class ProtectCall(BaseModel):
    """Whether a person must approve each promotion of the branch."""

    model_config = ConfigDict(extra="forbid")

    protected: bool


@router.post(
    "/rollback",
    dependencies=[requires(Right.ROLL_BACK)],
    responses={200: {"model": Rollback}, 202: {"model": Rollback}},
    openapi_extra=IDEMPOTENT,
)
def rollback(
    call: RollbackCall,
    services: ServicesDep,
    branch: BranchDep,
    principal: PrincipalDep,
    caller: IdentityDep,
) -> JSONResponse:
    """Redeploy an earlier state of the branch in the header.

    Readers flip at once if its jobs still run. If its assets are no longer retained, its stored
    definitions are committed anew.
    """
    is_protected = services.ledger.branches.get(services.tenant, branch).is_protected
    if is_protected and Right.APPROVE not in principal.rights:
        _require_request_in_airflow(services.airflow, call, branch, principal, caller)
    request = _plan_request(services.tenant, call, branch, caller)
    try:
        done = services.ledger.branches.roll_back(request, to_seq=call.to)
    except NotPinned as gone:
        return _commit_again(services, call, branch, caller, gone)
    services.snapshots.forget()
    if not done.is_served:
        services.recovery.notice(done.commit_id)
    return JSONResponse(_plain(done), status_code=200 if done.is_served else 202)


def _require_request_in_airflow(
    airflow: Airflow, call: RollbackCall, branch: str, principal: Principal, caller: RequestIdentity
) -> None:
    """Require that a person has requested a rollback in Airflow, whose processes pass it on.

    The branch is protected, and readers may flip at once, so others need the right to approve.

    Raises:
        Forbidden: No person has, or the principal is not one of Airflow's processes.
        StepDeferred: Airflow does not answer.
    """
    if Right.SPEAK_FOR not in principal.rights:
        raise Forbidden
    run_id = run_id_of_key(caller.idempotency_key)
    wanted: dict[str, Json] = {"branch": branch, "to": call.to}
    if not has_asked_to_roll_back(airflow, run_id, who=caller.actor, wanted=wanted):
        raise Forbidden


def _plan_request(
    tenant: TenantId, call: RollbackCall, branch: str, caller: RequestIdentity
) -> BranchRequest:
    key = caller.idempotency_key
    commit_id = new_commit_id(key, f"rollback {branch} {call.to}".encode())
    return BranchRequest(
        commit_id=commit_id,
        tenant=tenant,
        name=branch,
        idempotency_key=key or str(commit_id),
        request_sha256=hashlib.sha256(f"rollback\n{branch}\n{call.to}".encode()).digest(),
        actor=caller.actor,
        message=call.message or f"roll back to {call.to or 'the previous commit'}",
    )


def _commit_again(
    services: Services, call: RollbackCall, branch: str, caller: RequestIdentity, gone: NotPinned
) -> JSONResponse:
    detail = gone.detail if isinstance(gone.detail, dict) else {}
    bundle = services.ledger.bundles.of_commit(UUID(str(detail["commit_id"])))
    key = caller.idempotency_key
    commit_id = new_commit_id(key, bundle)
    outcome = services.ledger.commits.accept(
        CommitRequest(
            commit_id=commit_id,
            tenant=services.tenant,
            branch=services.ledger.branches.get(services.tenant, branch).branch_id,
            idempotency_key=key or str(commit_id),
            request_sha256=hashlib.sha256(bundle).digest(),
            actor=caller.actor,
            message=call.message or f"deploy {detail['seq']} again",
            bundle=services.ledger.bundles.sign(bundle),
        )
    )
    if isinstance(outcome, Accepted):
        services.recovery.notice(outcome.commit_id)
    done: Rollback = {"commit_id": str(outcome.commit_id), "served": False, "anew": True}
    return JSONResponse(done, status_code=202)


@router.post("/commits/{commit_id}/approve", dependencies=[requires(Right.APPROVE)])
def approve(
    commit_id: UUID,
    ledger: LedgerDep,
    recovery: RecoveryDep,
    caller: IdentityDep,
    access: AccessDep,
) -> Approval:
    """Let the readers of a protected branch flip to a commit; the first approval counts."""
    view = ledger.commits.get(commit_id)
    if view.promotion is not PromotionState.PENDING:
        state = view.promotion.value if view.promotion else view.state.value
        raise Conflicting(f"commit {commit_id} does not wait for an approval; it is {state}")
    ledger.promotions.approve(commit_id, actor=caller.actor)
    recovery.notice(commit_id)
    branch = ledger.branches.get_by_id(view.branch_id).name
    return plain_approval(
        ledger.promotions.approval(commit_id),
        checked=checked_datasets(ledger, access, commit_id, branch=branch),
        differences=value_differences(ledger, access, commit_id, branch=branch),
    )


@router.post("/commits/{commit_id}/reject", dependencies=[requires(Right.APPROVE)])
def reject(
    commit_id: UUID,
    call: RejectCall,
    ledger: LedgerDep,
    recovery: RecoveryDep,
    caller: IdentityDep,
    access: AccessDep,
) -> Approval:
    """Revert a commit that waits for an approval; readers stay on what they read.

    The first decision counts: a commit that a person has approved is not rejected.
    """
    view = ledger.commits.get(commit_id)
    recovery.reject(view, actor=caller.actor, reason=call.reason.strip())
    branch = ledger.branches.get_by_id(view.branch_id).name
    return plain_approval(
        ledger.promotions.approval(commit_id),
        checked=checked_datasets(ledger, access, commit_id, branch=branch),
        differences=value_differences(ledger, access, commit_id, branch=branch),
    )


def pass_on_approval(services: Services, commit_id: UUID) -> None:
    """Store who has approved a commit, as Airflow reports it; the first approval counts.

    Raises:
        StepDeferred: The commit is not approved yet, or Airflow does not answer.
        StepImpossible: A person has rejected it.
    """
    approval = services.ledger.promotions.approval(commit_id)
    if not approval.is_needed or approval.approved_by is not None:
        return
    commit = services.ledger.commits.get(commit_id)
    services.ledger.promotions.approve(commit_id, actor=approver(services.airflow, commit))
    services.recovery.notice(commit_id)


def pass_on_rejection(services: Services, commit_id: UUID) -> None:
    """Reject a commit in the name of the person who has rejected it in Airflow, if one has.

    The first decision counts. An Airflow that does not answer holds nothing up: the commit is then
    undone without an author.

    Raises:
        CommitInProgress: Another commit is in flight on the branch.
    """
    approval = services.ledger.promotions.approval(commit_id)
    if not approval.is_needed or approval.approved_by is not None:
        return
    commit = services.ledger.commits.get(commit_id)
    try:
        author = rejecter(services.airflow, commit)
    except StepDeferred as silent:
        log.warning("rejection_without_author", commit_id=str(commit_id), why=str(silent))
        return
    if author:
        services.recovery.reject(commit, actor=author, reason="")


@router.post("/branch/protect", dependencies=[requires(Right.ADMINISTER)])
def protect(
    call: ProtectCall, ledger: LedgerDep, tenant: TenantDep, name: BranchDep, caller: IdentityDep
) -> Protection:
    """Set whether a person must approve each promotion of the branch in the header."""
    change = ledger.branches.protect if call.protected else ledger.branches.unprotect
    change(tenant, name, actor=caller.actor)
    return {"name": name, "protected": call.protected}


def plain_approval(
    approval: ApprovalView,
    *,
    checked: Iterable[CheckedDataset],
    differences: Iterable[DatasetDiff],
) -> Approval:
    """Render whether an approval is required, who decided, and what to know before that."""
    return {
        "needed": approval.is_needed and approval.approved_by is None,
        "by": approval.approved_by,
        "at": approval.approved_at.isoformat() if approval.approved_at else None,
        "rejected": _plain_rejection(approval.rejection),
        "warnings": [*report_lines(checked)],
        "differences": [one["summary"] for one in differences],
    }


def _plain_rejection(event: EventView | None) -> Rejection | None:
    if event is None:
        return None
    reason = event.detail.get("reason", "") if isinstance(event.detail, dict) else ""
    return {"by": event.actor, "at": event.at.isoformat(), "reason": str(reason)}


def _plain(done: RolledBack) -> Rollback:
    return {
        "commit_id": str(done.commit_id),
        "seq": done.seq,
        "served": done.is_served,
        "anew": False,
    }
