"""The plan of a commit, what it changes against its predecessor, and why."""

from uuid import UUID

from fastapi import APIRouter

from narthex._analysis import Changes, change_causes, compare
from narthex._ir import Definitions
from narthex_ledger import CommitView, Ledger, stored_plan
from narthex_server.commits.responses import CommitChanges
from narthex_server.definitions.compilation import compile_definitions
from narthex_server.deploy.backfill_estimates import Estimate
from narthex_server.deploy.executor import definitions_of
from narthex_server.deploy.plan_report import PlanReport
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import LedgerDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])


@router.get("/commits/{commit_id}/plan")
def plan_of(commit_id: UUID, ledger: LedgerDep, access: AccessDep) -> CommitChanges:
    """Return the plan of a commit, as a preview shows it, and what the commit changes.

    `plan` is null while the commit is not planned, and for commits that create nothing, such as a
    clone; `changes` is null while its predecessor is not known. Both are null for a principal that
    does not see everything on the branch.
    """
    view = ledger.commits.get(commit_id)
    if view.manifest_id is None:
        return {"plan": None, "changes": None}
    before = definitions_of(ledger, view.parent_commit_id)
    after = definitions_of(ledger, commit_id)
    if after is None:
        return {"plan": None, "changes": None}
    if access.visibility(after).hidden or access.visibility(before).hidden:
        return {"plan": None, "changes": None}
    changes = compare(before, after, incremental=False)
    plan = None if view.plan is None else _report(ledger, access, view, before, changes).plain()
    return {"plan": plan, "changes": list(changes.summary)}


def _report(
    ledger: Ledger,
    access: Access,
    view: CommitView,
    before: Definitions | None,
    changes: Changes,
) -> PlanReport:
    plan = access.visible_plan(stored_plan(view.plan))
    return PlanReport(
        branch=ledger.branches.get_by_id(view.branch_id).name,
        plan=plan,
        blueprint=compile_definitions(changes.definitions),
        changes=changes,
        reasons=change_causes(before, changes.definitions),
        estimates=tuple(_due(asset.label) for asset in plan.backfill),
    )


def _due(label: str) -> Estimate:
    """Return the entry of a job with history to drain; its amount is known only before it runs."""
    return Estimate(
        label=label, rows=None, size_bytes=None, seconds=None, basis="not estimated again"
    )
