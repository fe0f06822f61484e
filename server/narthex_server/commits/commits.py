"""Routes of commits: accepting them, cancelling them, and showing them."""

import hashlib
import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Annotated, TypeAlias
from uuid import UUID

import attrs
from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from narthex._analysis.policy import load_policy
from narthex._ir import AssetKind, Definitions
from narthex.errors import NotYetSupported, raise_all
from narthex_ledger import (
    Accepted,
    AssetView,
    BackfillPolicy,
    CommitRequest,
    CommitState,
    CommitView,
    NotFound,
    PromotionState,
    stored_plan,
)
from narthex_server.commits.commit_blockers import commit_blockers, whose_turn
from narthex_server.commits.quality_reports import (
    checked_datasets,
)
from narthex_server.commits.responses import (
    AcceptedCommit,
    Commit,
    CommitAsset,
    CommitDetails,
    CommitList,
    CommitPreview,
    CommitReadiness,
    ResultingState,
)
from narthex_server.commits.rollbacks import plain_approval
from narthex_server.commits.value_differences import value_differences
from narthex_server.definitions.compilation import Grants, Proposal, propose
from narthex_server.deploy.backfill_estimates import Places, asking, estimate
from narthex_server.deploy.commit_traces import current_trace
from narthex_server.deploy.environment_builds import lock_errors
from narthex_server.deploy.executor import definitions_of
from narthex_server.deploy.plan_report import PlanReport
from narthex_server.erasures.erased_rows import unblockable
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.security.connections import find_connection
from narthex_server.security.dataset_access import Access
from narthex_server.security.policy_enforcement import require_named
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import (
    IdentityDep,
    RequestIdentity,
    key_on,
    new_commit_id,
)
from narthex_server.security.route_rights import Body, Right, requires
from narthex_server.security.visibility import Visibility
from narthex_server.services.container import LedgerDep, RecoveryDep, Services, ServicesDep
from narthex_server.tracing import span
from narthex_server.web.plain_routes import IDEMPOTENT, Number, PlainRoute

router = APIRouter(route_class=PlainRoute)
READ = requires(Right.READ_DEFINITIONS)

_PLAN_HASH = re.compile(r"[0-9a-f]{64}")

ENDED = frozenset({CommitState.ABORTED, CommitState.REJECTED, CommitState.ABORTING})


@attrs.frozen(kw_only=True)
class Terms:
    """The terms on which a payload is committed."""

    preview: bool
    incremental: bool
    backfill: bool
    expect_plan: str
    confirm_empty: bool


def terms_of(
    *,
    preview: bool = False,
    incremental: bool = False,
    backfill: bool = True,
    expect_plan: str = "",
    confirm_empty: bool = False,
) -> Terms:
    """Return the terms of a request, as a dependency."""
    return Terms(
        preview=preview,
        incremental=incremental,
        backfill=backfill,
        expect_plan=expect_plan,
        confirm_empty=confirm_empty,
    )


def _commit(commit_id: UUID, ledger: LedgerDep) -> CommitView:
    """Return the commit of a path.

    Raises:
        NotFound: There is none of that id.
    """
    return ledger.commits.get(commit_id)


CommitDep: TypeAlias = Annotated[CommitView, Depends(_commit)]
"""The commit of a path; a page and its parts share one read of it."""

PAYLOAD = {
    "requestBody": {
        "required": True,
        "description": "Definitions and code as the client encodes them: a protobuf message.",
        "content": {"application/octet-stream": {"schema": {"type": "string"}}},
    }
}


@router.post(
    "/commit",
    dependencies=[requires(Right.WRITE_DEFINITIONS, body=Body.DELIMITED)],
    responses={200: {"model": CommitPreview}, 202: {"model": AcceptedCommit}},
    openapi_extra=IDEMPOTENT | PAYLOAD,
)
async def commit(
    request: Request,
    terms: Annotated[Terms, Depends(terms_of)],
    services: ServicesDep,
    access: AccessDep,
    caller: IdentityDep,
) -> JSONResponse:
    """Validate a commit's payload; then plan it (preview), or accept it for execution.

    `expect_plan` is the hash of a plan that was shown: any other plan is refused. Without
    `backfill`, a plan that needs a backfill is refused. Both are checked now, and again on
    planning.
    A commit that removes everything from a branch is refused without `confirm_empty`.
    """
    answer = await run_in_threadpool(
        commit_payload, await request.body(), terms, services=services, access=access, caller=caller
    )
    return JSONResponse(answer, status_code=200 if terms.preview else 202)


def commit_payload(
    body: bytes, terms: Terms, *, services: Services, access: Access, caller: RequestIdentity
) -> CommitPreview | AcceptedCommit:
    """Check a payload in our form; then plan it, or accept it for execution.

    Raises:
        DefinitionErrors: Every mistake in it.
        Forbidden: The principal may not change it.
        Conflicting: It removes everything, or another commit has the same key.
    """
    branch = services.ledger.branches.get(services.tenant, access.branch)
    deployed = definitions_of(services.ledger, branch.head_commit_id)
    grants = Grants(
        policy=load_policy(services.settings.policy_file),
        branch=branch.name,
        partitions=services.settings.partitions,
        most=services.settings.most_definitions,
        find_connection=partial(find_connection, services.connections, branch=branch.name),
        endpoint_url=os.environ.get("AWS_ENDPOINT_URL", ""),
    )
    proposal = propose(body, deployed=deployed, incremental=terms.incremental, grants=grants)
    require_named(access, services.settings, deployed, proposal.definitions)
    access.require_authorized(deployed, proposal.definitions)
    raise_all(lock_errors(proposal.definitions, index=services.settings.package_index))
    raise_all(
        NotYetSupported(why, hint="declare it as it was, or give the dataset another name")
        for why in unblockable(services.ledger, services.tenant, proposal.definitions)
    )
    if not (terms.preview or terms.confirm_empty):
        _require_some(branch.name, deployed, proposal.definitions)
    key = caller.idempotency_key
    commit_id = new_commit_id(key, proposal.bundle)
    commit_request = CommitRequest(
        commit_id=commit_id,
        tenant=branch.tenant_id,
        branch=branch.branch_id,
        idempotency_key=key or str(commit_id),
        request_sha256=hashlib.sha256(body).digest(),
        actor=caller.actor,
        message=proposal.payload.message,
        bundle=services.ledger.bundles.sign(proposal.bundle),
        backfill=BackfillPolicy.ALLOWED if terms.backfill else BackfillPolicy.REFUSED,
        expected_plan_sha256=_plan_hash(terms.expect_plan),
        base_seq=branch.head_seq if _is_of_one_head(terms, access) else None,
        request=current_trace(),
    )
    if terms.preview:
        with span("plan"):
            report = _report(services, access, proposal, commit_request)
        return _preview(report, access.visibility(proposal.definitions))
    if terms.expect_plan or not terms.backfill:
        # Refuse now what planning would refuse, while the author is still there.
        services.ledger.commits.preview(
            commit_request, blueprint=proposal.blueprint, name_of=services.executor.name_of
        )
    outcome = services.ledger.commits.accept(commit_request)
    if isinstance(outcome, Accepted):
        services.recovery.notice(outcome.commit_id)
    view = services.ledger.commits.get(outcome.commit_id)
    accepted: AcceptedCommit = {
        "commit_id": str(outcome.commit_id),
        "state": view.state.value,
        "summary": list(proposal.changes.summary),
        "airflow_run_url": services.airflow.run_url(view),
    }
    return accepted


def _is_of_one_head(terms: Terms, access: Access) -> bool:
    """Whether a commit may follow no other head than the one that it was checked against.

    An incremental one would remove what a commit before it adds, and keep what that one removes.
    One of a token with some tags could change what the token may not see.
    """
    return terms.incremental or access.principal.tags != ("*",)


def _require_some(branch: str, deployed: Definitions | None, wanted: Definitions) -> None:
    """Refuse a commit that removes everything from a branch: authors seldom mean that.

    Raises:
        Conflicting: It does; the message names what to do.
    """
    before = [] if deployed is None else [*deployed.datasets, *deployed.featuresets]
    if before and not (wanted.datasets or wanted.featuresets):
        raise Conflicting(
            f"the commit removes all {len(before)} datasets and featuresets of "
            f"branch `{branch}`; commit with `confirm_empty=true` (`narthex commit --yes`) "
            "if you mean that"
        )


def _preview(report: PlanReport, seen: Visibility) -> CommitPreview:
    """Render a report; only the plan's hash for a principal that sees a part of the branch."""
    if seen.hidden:
        sha256 = report.plan.sha256.hex()
        return {
            "plan": None,
            "report": {"branch": report.branch, "plan_sha256": sha256},
            "summary": [f"plan {sha256}, parts of which you may not read"],
        }
    return {
        "plan": report.plan.plain(),
        "report": report.plain(),
        "summary": list(report.lines()),
    }


def _report(
    services: Services, access: Access, proposal: Proposal, commit_request: CommitRequest
) -> PlanReport:
    plan = services.ledger.commits.preview(
        commit_request, blueprint=proposal.blueprint, name_of=services.executor.name_of
    )
    return PlanReport(
        branch=access.branch,
        plan=access.visible_plan(plan),
        blueprint=proposal.blueprint,
        changes=proposal.changes,
        reasons=proposal.reasons,
        estimates=estimate(proposal.blueprint, plan, _places(services, proposal)),
    )


def _places(services: Services, proposal: Proposal) -> Places:
    topics = [a.ref for a in proposal.blueprint.assets if a.kind is AssetKind.KAFKA_TOPIC]
    return Places(
        names=services.ledger.assets.physical_names(services.tenant, topics),
        held=asking(services.settings),
        files_root=services.settings.files_root,
        rows_per_s=services.ledger.backfills.pace(),
    )


def _plan_hash(text: str) -> bytes | None:
    if not text:
        return None
    if not _PLAN_HASH.fullmatch(text):
        raise InvalidRequest("`expect_plan` is 64 hexadecimal digits")
    return bytes.fromhex(text)


@router.get("/commits", dependencies=[READ])
def commits(
    services: ServicesDep, access: AccessDep, limit: Number = 50, key: str = ""
) -> CommitList:
    """List the newest commits of the branch; with a key, the commit that its request made."""
    if key:
        return {"commits": [*_of_key(services, access, key)]}
    branch = services.ledger.branches.get(services.tenant, access.branch)
    views = services.ledger.commits.newest(limit=limit, branch=branch.branch_id)
    return {"commits": [plain_commit(services, view, branch=branch.name) for view in views]}


def _of_key(services: Services, access: Access, key: str) -> Iterator[Commit]:
    """Yield the commit that a request with a key made, on any of the principal's branches.

    A token that is limited to some branches has keys of its own on each of them.
    """
    own = key_on(access.branch, key) if access.principal.is_narrow else key
    for stored in dict.fromkeys((own, key)):
        try:
            view = services.ledger.commits.get_by_key(services.tenant, stored)
        except NotFound:
            continue
        branch = services.ledger.branches.get_by_id(view.branch_id).name
        if access.principal.may_name(branch):
            yield plain_commit(services, view, branch=branch)
            return


@router.get("/commits/{commit_id}", dependencies=[READ])  # noqa: FAST003 - its commit takes the id
def commit_of(view: CommitDep, services: ServicesDep, access: AccessDep) -> CommitDetails:
    """Return one commit in full: its assets, its events, and what it waits for."""
    commit_id = view.commit_id
    branch = services.ledger.branches.get_by_id(view.branch_id).name
    services.snapshots.notice(view, branch=branch)
    plan = None if view.plan is None else access.visible_plan(stored_plan(view.plan))
    visible = access.visible_assets()
    checked = checked_datasets(services.ledger, access, commit_id, branch=branch)
    differ = value_differences(services.ledger, access, commit_id, branch=branch)
    commit: CommitDetails = {
        **plain_commit(services, view, branch=branch),
        "plan": None if plan is None or access.visibility_of(branch).hidden else plan.plain(),
        "approval": plain_approval(
            services.ledger.promotions.approval(commit_id), checked=checked, differences=differ
        ),
        "quality": checked,
        "differences": differ,
        "assets": [_asset(a) for a in view.assets if visible is None or a.asset_id in visible],
        "events": [
            {
                "at": event.at.isoformat(),
                "transition": event.transition,
                "asset_id": event.asset_id,
                "actor": event.actor,
                "fence": event.fence,
            }
            for event in services.ledger.commits.events(commit_id)
        ],
        "waits_for": [],
    }
    commit["waits_for"] += _waits_for(services, access, view, commit)
    return commit


def _waits_for(
    services: Services, access: Access, view: CommitView, commit: CommitDetails
) -> Iterator[str]:
    if view.state is CommitState.QUEUED:
        others = services.ledger.commits.newest(1000, branch=view.branch_id, only_unended=True)
        yield from whose_turn(view, others)
    else:
        is_out = view.state is CommitState.COMMITTED
        yield from commit_blockers(
            commit, readiness(view.commit_id, services, access) if is_out else None
        )
        if view.promotion is PromotionState.PENDING:
            yield from _unchecked(services, access, view, commit)


def _unchecked(
    services: Services, access: Access, view: CommitView, commit: CommitDetails
) -> Iterator[str]:
    """Yield the checks of histories that are not done."""
    gates = services.executor.gates
    checked = {one["dataset"] for one in commit["quality"]}
    error = gates.error_of(view.commit_id)
    for dataset in gates.datasets(view.commit_id):
        if dataset not in checked and access.sees_dataset(commit["branch"], dataset):
            failed = f", which failed and is retried: {error}" if error else ""
            yield f"the check of the history of {dataset} against its expectations{failed}"


def plain_commit(services: Services, view: CommitView, *, branch: str) -> Commit:
    """Render a commit as lists show it."""
    return {
        "commit_id": str(view.commit_id),
        "parent_commit_id": str(view.parent_commit_id) if view.parent_commit_id else None,
        "branch": branch,
        "kind": view.kind,
        "state": view.state.value,
        "promotion": view.promotion.value if view.promotion else None,
        "message": view.message,
        "actor": view.actor,
        "seq": view.seq,
        "error": view.error,
        "accepted_at": view.accepted_at.isoformat(),
        "committed_at": view.committed_at.isoformat() if view.committed_at else None,
        "finished_at": view.finished_at.isoformat() if view.finished_at else None,
        "airflow_run_url": services.airflow.run_url(view),
    }


def _asset(asset: AssetView) -> CommitAsset:
    return {
        "asset_id": asset.asset_id,
        "label": asset.label,
        "kind": asset.kind.value,
        "state": asset.state.value,
        "physical_name": asset.physical_name,
        "create_status": asset.create_status.value,
        "attempt": asset.attempt,
        "last_error": asset.last_error,
        "refs": asset.refs,
    }


@router.post("/commits/{commit_id}/cancel", dependencies=[requires(Right.WRITE_DEFINITIONS)])
def cancel(
    commit_id: UUID, ledger: LedgerDep, recovery: RecoveryDep, caller: IdentityDep
) -> ResultingState:
    """Request that a commit be aborted; either this or its commit point wins."""
    state = ledger.commits.cancel(commit_id, actor=caller.actor)
    recovery.notice(commit_id)
    return {"state": state.value}


@router.get("/commits/{commit_id}/readiness", dependencies=[READ])
def readiness(commit_id: UUID, services: ServicesDep, access: AccessDep) -> CommitReadiness:
    """Return the jobs of a commit that have not caught up, or that it has ended otherwise."""
    view = services.ledger.commits.get(commit_id)
    if view.state in ENDED:
        return {"ready": False, "ended": view.state.value, "waiting_for": []}
    if view.promotion is PromotionState.SUPERSEDED:
        # Nothing to wait for: the next step finds the commit superseded, and ends it.
        return {"ready": True, "waiting_for": []}
    if view.state not in {CommitState.COMMITTED, CommitState.FINALIZED}:
        return {"ready": False, "waiting_for": [{"job": "commit point", "phase": view.state.value}]}
    status = services.executor.readiness(commit_id)
    if access.visibility_of(services.ledger.branches.get_by_id(view.branch_id).name).hidden:
        return {"ready": status.ready, "waiting_for": []}
    return {
        "ready": status.ready,
        "waiting_for": [
            {
                "job": w.label,
                "phase": w.phase.value,
                "lag_ms": w.lag_ms,
                "why": w.why,
                "error": w.error,
            }
            for w in status.waiting_for
        ],
    }
