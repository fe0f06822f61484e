"""Routes of the steps of a commit, which its run in Airflow takes; each may be repeated."""

from uuid import UUID

from fastapi import APIRouter

from narthex_ledger import CommitState, CommitView, PromotionState, stored_plan
from narthex_server.commits.backfill_progress import dataset_of
from narthex_server.commits.commits import ENDED
from narthex_server.commits.quality_reports import checked_dataset, may_see_keys
from narthex_server.commits.responses import (
    AssetsToCreate,
    QualityStep,
    ResultingState,
    StepResult,
)
from narthex_server.commits.rollbacks import pass_on_approval, pass_on_rejection
from narthex_server.deploy.driver_backfills import is_in_driver
from narthex_server.errors import Gone, Missing
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import Services, ServicesDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import PathNumber, PlainRoute

router = APIRouter(route_class=PlainRoute)
STEP = requires(Right.STEP)
ENDING = raises(Gone)


@router.post("/commits/{commit_id}/steps/plan", dependencies=[STEP], responses=ENDING)
def step_plan(commit_id: UUID, services: ServicesDep) -> AssetsToCreate:
    """Take step T1; return the assets that are not live yet, in the order of their creation."""
    services.recovery.driven(commit_id)
    view = services.executor.plan(commit_id)
    _refuse_ended(view)
    due = [a for a in view.assets if a.state.value != "live"]
    return {"assets": [{"asset_id": str(a.asset_id), "label": a.label} for a in due]}


def _refuse_ended(view: CommitView) -> None:
    if view.state in ENDED:
        raise Gone(f"commit {view.commit_id} is {view.state.value}: {view.error}")


@router.post("/commits/{commit_id}/steps/create/{asset_id}", dependencies=[STEP], responses=ENDING)
def step_create(commit_id: UUID, asset_id: PathNumber, services: ServicesDep) -> ResultingState:
    """Create one asset."""
    services.recovery.driven(commit_id)
    return {"state": services.executor.create(commit_id, asset_id)}


@router.post("/commits/{commit_id}/steps/quality/{dataset}", dependencies=[STEP], responses=ENDING)
def step_quality(
    commit_id: UUID, dataset: str, services: ServicesDep, access: AccessDep
) -> QualityStep:
    """Check the history of a dataset before readers flip; 409 while the check is in progress."""
    services.recovery.driven(commit_id)
    view = services.ledger.commits.get(commit_id)
    _refuse_ended(view)
    known = {one.dataset: one for one in services.ledger.audits.gates(commit_id)}
    if dataset not in known and view.promotion is PromotionState.PENDING:
        known = {one.dataset: one for one in services.executor.quality(commit_id)}
    found = known.get(dataset)
    if found is None:
        return {"checked": None}
    return {"checked": checked_dataset(found, has_examples=may_see_keys(access, found))}


@router.post("/commits/{commit_id}/steps/{step}", dependencies=[STEP], responses=ENDING)
def step(commit_id: UUID, step: str, services: ServicesDep) -> StepResult:
    """Take one of the other steps; 409 means not yet, retry."""
    services.recovery.driven(commit_id)
    executor = services.executor
    if step != "rollback":
        view = services.ledger.commits.get(commit_id)
        _refuse_ended(view)
        if step == "quality":
            return {"datasets": executor.gates.datasets(commit_id)}
        if view.promotion is PromotionState.SUPERSEDED:
            executor.promote(commit_id)
            return {"jobs": [], "datasets": []}
        if view.state is CommitState.FINALIZED:
            return {
                "jobs": [],
                "datasets": [],
                **(_flipped(services, view) if step == "promote" else {}),
            }
    if step == "backfill":
        jobs = list(executor.due_backfills(commit_id))
        return {"jobs": jobs, "datasets": sorted(set(map(dataset_of, jobs)))}
    if step == "backfill_in_driver":
        found = is_in_driver(commit_id, ledger=services.ledger, settings=services.settings)
        return {"in_driver": found}
    if step == "rollback":
        pass_on_rejection(services, commit_id)
        return {"state": services.recovery.roll_back(commit_id)}
    _take(services, commit_id, step)
    return _flipped(services, services.ledger.commits.get(commit_id)) if step == "promote" else {}


def _flipped(services: Services, view: CommitView) -> StepResult:
    """Return the datasets of which readers read others since the commit, and their branch."""
    paths = () if view.plan is None else stored_plan(view.plan).flip
    datasets = {dataset_of(path) for path in paths if path.startswith("dataset/")}
    branch = services.ledger.branches.get_by_id(view.branch_id).name
    return {"branch": branch, "datasets": sorted(datasets)}


def _take(services: Services, commit_id: UUID, step: str) -> None:
    executor = services.executor
    match step:
        case "ready":
            executor.ready(commit_id)
        case "commit":
            executor.commit(commit_id)
        case "backfilled":
            executor.backfilled(commit_id)
        case "compare":
            executor.compare(commit_id)
        case "approved":
            pass_on_approval(services, commit_id)
        case "promote":
            executor.promote(commit_id)
            services.snapshots.forget()
        case _:
            raise Missing(f"unknown step `{step}`")
