"""How far the backfill of a commit is, dataset by dataset, by the reports of its bounded runs."""

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from fastapi import APIRouter

from narthex._base import Json
from narthex_ledger import CommitView, JobView, PromotionState, stored_plan
from narthex_server.commits.responses import BackfilledDataset, CommitBackfill
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import ServicesDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)


def dataset_of(path: str) -> str:
    """Return the dataset of a logical path, such as `Orders` of `dataset/Orders/log`."""
    return path.split("/")[1]


@router.get("/commits/{commit_id}/backfill", dependencies=[requires(Right.READ_DEFINITIONS)])
def backfill_of(commit_id: UUID, services: ServicesDep, access: AccessDep) -> CommitBackfill:
    """Return how many rows the backfill of a commit has read, of how many, by dataset."""
    view = services.ledger.commits.get(commit_id)
    branch = services.ledger.branches.get_by_id(view.branch_id).name
    if view.plan is None or view.promotion is not PromotionState.PENDING:
        return {"datasets": []}
    found = backfill_progress(view, services.ledger.jobs.shown())
    return {"datasets": [one for one in found if access.sees_dataset(branch, one["dataset"])]}


def backfill_progress(view: CommitView, jobs: Iterable[JobView]) -> list[BackfilledDataset]:
    """Return the progress of each dataset that a planned commit backfills, by name."""
    planned = {(asset.kind, asset.fingerprint) for asset in stored_plan(view.plan).backfill}
    labels = {
        asset.asset_id: asset.label
        for asset in view.assets
        if (asset.kind, asset.fingerprint) in planned
    }
    by_dataset: dict[str, dict[str, JobView]] = {}
    for job in jobs:
        label = labels.get(job.asset.asset_id)
        if label is not None:
            by_dataset.setdefault(dataset_of(label), {})[label] = job
    return [_progress(name, found) for name, found in sorted(by_dataset.items())]


def _progress(dataset: str, jobs: Mapping[str, JobView]) -> BackfilledDataset:
    read = [_rows_of(job) for job in jobs.values()]
    amounts = [of for _, of in read]
    return {
        "dataset": dataset,
        "rows": sum(rows for rows, _ in read),
        "of": None if None in amounts else sum(of for of in amounts if of is not None),
        "done": not any(job.owes_backfill for job in jobs.values()),
        "jobs": sorted(jobs),
        "error": next(_errors(jobs.values()), None),
    }


def _rows_of(job: JobView) -> tuple[int, int | None]:
    """Return the rows that a job has read and has to read, by its last report."""
    match job.shards[0].backfill:
        case {"done": True, "rows": int(rows)}:
            return rows, rows
        case {"progress": {"rows": int(rows), "of": int(of)}}:
            return rows, of
        case _:
            return 0, None


def _errors(jobs: Iterable[JobView]) -> Iterator[str]:
    for job in jobs:
        reported: Json = job.shards[0].backfill
        if isinstance(reported, dict) and reported.get("error"):
            yield str(reported["error"])
