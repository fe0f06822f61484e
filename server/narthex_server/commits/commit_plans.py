"""The plan of a commit, what it changes against its predecessor, and why."""

from typing import Annotated

from fastapi import APIRouter, Depends

from narthex_ledger import CommitView, Ledger, stored_plan
from narthex_server.commits.commits import CommitDep
from narthex_server.commits.responses import CommitChanges
from narthex_server.deploy.backfill_estimates import Estimate
from narthex_server.deploy.plan_report import PlanReport
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.commit_comparisons import CommitComparison, CommitComparisons
from narthex_server.services.container import LedgerDep, ServicesDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])


async def _comparisons(services: ServicesDep) -> CommitComparisons:
    return services.comparisons


@router.get("/commits/{commit_id}/plan")  # noqa: FAST003 - its commit takes the id
def plan_of(
    view: CommitDep,
    ledger: LedgerDep,
    access: AccessDep,
    comparisons: Annotated[CommitComparisons, Depends(_comparisons)],
) -> CommitChanges:
    """Return the plan of a commit, as a preview shows it, and what the commit changes.

    `plan` is null while the commit is not planned, and for commits that create nothing, such as a
    clone; `changes` is null while its predecessor is not known. Both are null for a principal that
    does not see everything on the branch.
    """
    if view.manifest_id is None:
        return {"plan": None, "changes": None}
    compared = comparisons.of(view)
    if compared is None:
        return {"plan": None, "changes": None}
    if any(access.visibility(one).hidden for one in (compared.after, compared.before)):
        return {"plan": None, "changes": None}
    plan = None if view.plan is None else _report(ledger, access, view, compared).plain()
    return {"plan": plan, "changes": list(compared.changes.summary)}


def _report(
    ledger: Ledger, access: Access, view: CommitView, compared: CommitComparison
) -> PlanReport:
    plan = access.visible_plan(stored_plan(view.plan))
    return PlanReport(
        branch=ledger.branches.get_by_id(view.branch_id).name,
        plan=plan,
        blueprint=compared.blueprint,
        changes=compared.changes,
        reasons=compared.reasons,
        estimates=tuple(_due(asset.label) for asset in plan.backfill),
    )


def _due(label: str) -> Estimate:
    """Return the entry of a job with history to drain; its amount is known only before it runs."""
    return Estimate(
        label=label, rows=None, size_bytes=None, seconds=None, basis="not estimated again"
    )
