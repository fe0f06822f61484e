"""The routes of the pages: each reads its JSON twin by the same function, and renders it."""

from typing import Annotated, Final, TypeAlias

import attrs
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import JsonValue

from narthex_ledger import Phase
from narthex_server.alerts import routes as alerts
from narthex_server.alerts.responses import AlertList
from narthex_server.catalog import assets, branch_catalog, search
from narthex_server.catalog.responses import (
    Datasets,
    Featuresets,
    JobList,
    RetainedAssets,
)
from narthex_server.catalog.search import FoundEntities
from narthex_server.commits import branches, commits, pending_commits
from narthex_server.commits.responses import (
    BranchList,
    CommitList,
    PendingCommits,
)
from narthex_server.console import approvals
from narthex_server.console.connector_values import connector_values
from narthex_server.console.data_docs import may_see_data_docs
from narthex_server.console.entities import (
    dataset_values,
    feature_values,
    featureset_values,
    job_values,
    jobs_of_branch,
)
from narthex_server.console.lineage_values import lineage_values
from narthex_server.console.list_parts import PartNumber, of_branch, part_of
from narthex_server.console.page_routes import Location, PageRoute
from narthex_server.console.plots import plots
from narthex_server.console.rendering import LINEAGE_SCRIPT, page, style_sheet
from narthex_server.data import column_summaries, drift, erasures, row_inspection
from narthex_server.data.erasures import Erasure, ErasureList
from narthex_server.data.row_inspection import LateRows, QuarantinedRows
from narthex_server.operations import metric_series
from narthex_server.operations.metric_series import MetricHistory
from narthex_server.security import connections
from narthex_server.security.connections import StoredConnections
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Extent, Right, open_to_all, requires
from narthex_server.services.container import ServicesDep

router = APIRouter(prefix="/console", route_class=PageRoute)
FEATURESETS: Final = 20
"""How many featuresets a page shows: each has a table of its features."""

READ = requires(Right.READ_DEFINITIONS)
READ_ALL = requires(Right.READ_DEFINITIONS, extent=Extent.INSTALLATION)
READ_ROWS = requires(Right.READ_DATA)
ERASE = requires(Right.ERASE, extent=Extent.INSTALLATION)
SECRETS = requires(Right.SECRETS, extent=Extent.INSTALLATION)


def _is_live(request: Request) -> bool:
    return "live" in request.query_params


def _branch_names(listed: Annotated[BranchList, Depends(branches.listed)]) -> list[str]:
    return [branch["name"] for branch in listed["branches"]]


def _is_whole(request: Request) -> bool:
    return "all" in request.query_params


@attrs.frozen(kw_only=True)
class BranchChoice:
    """The branch that a list is about, among others, or all of them.

    Attributes:
        branches: The names of the branches that the principal sees.
        whole: Whether the list is of all branches.
    """

    branches: list[str]
    whole: bool


def _branch_choice(
    names: Annotated[list[str], Depends(_branch_names)], request: Request
) -> BranchChoice:
    return BranchChoice(branches=names, whole=_is_whole(request))


Choice: TypeAlias = Annotated[BranchChoice, Depends(_branch_choice)]
Live: TypeAlias = Annotated[bool, Depends(_is_live)]
Whole: TypeAlias = Annotated[bool, Depends(_is_whole)]
BranchNames: TypeAlias = Annotated[list[str], Depends(_branch_names)]


@router.get("", dependencies=[READ])
@router.get("/commits", dependencies=[READ])
def commits_page(
    location: Location,
    answer: Annotated[CommitList, Depends(commits.commits)],
    names: BranchNames,
    live: Live,
) -> HTMLResponse:
    """The newest commits of a branch."""
    return page("commits", location, {**answer, "branches": names, "live": live}, refresh=live)


@router.get("/commits/{commit_id}", dependencies=[READ])  # noqa: FAST003 - its twins take the id
def commit_page(
    location: Location,
    access: AccessDep,
    shown: approvals.ShownCommitDep,
    live: Live,
    whole: Whole,
) -> HTMLResponse:
    """One commit in full: what it waits for, its plan, what it changes, its assets."""
    return approvals.commit_page(location, access, shown, live=live, whole=whole)


@router.get("/waiting", dependencies=[READ])
def waiting_page(
    location: Location,
    answer: Annotated[PendingCommits, Depends(pending_commits.pending_commits)],
    live: Live,
) -> HTMLResponse:
    """The pending commits on all branches, and what blocks them."""
    return page("waiting", location, {**answer, "live": live}, refresh=live)


@router.get("/branches", dependencies=[READ])
def branches_page(
    location: Location, answer: Annotated[BranchList, Depends(branches.listed)]
) -> HTMLResponse:
    """All branches: what is deployed on them, and what their readers read."""
    return page("branches", location, answer)


@router.get("/assets", dependencies=[READ])
def assets_page(
    location: Location, answer: Annotated[RetainedAssets, Depends(assets.assets)]
) -> HTMLResponse:
    """All assets, and which branches share them."""
    return page("assets", location, answer)


@router.get("/jobs", dependencies=[READ])
def jobs_page(
    location: Location,
    answer: Annotated[JobList, Depends(branch_catalog.jobs)],
    access: AccessDep,
    choice: Choice,
    live: Live,
    part: PartNumber = 1,
) -> HTMLResponse:
    """The jobs of a branch, or all, the failed ones first: who runs them, and their progress."""
    jobs = answer["jobs"] if choice.whole else jobs_of_branch(access, answer["jobs"])
    jobs = sorted(jobs, key=lambda job: not (job["error"] or job["phase"] == Phase.FAILED))
    shown = {"part": part_of(jobs, part), "live": live, **attrs.asdict(choice)}
    return page("jobs", location, shown, refresh=live)


@router.get("/jobs/{asset_id}", dependencies=[READ])  # noqa: FAST003 - its job takes the id
def job_page(
    location: Location,
    services: ServicesDep,
    access: AccessDep,
    job: metric_series.JobDep,
    history: Annotated[MetricHistory, Depends(metric_series.of_job)],
) -> HTMLResponse:
    """One job or feed: its state, what it reads and writes, and how far it was behind."""
    values = job_values(services, access, job)
    return page("job", location, values | {"history": history, "plots": plots(history)})


@router.get("/metrics", dependencies=[READ])
def metrics_page(
    location: Location,
    history: Annotated[MetricHistory, Depends(metric_series.of_branch)],
    names: BranchNames,
) -> HTMLResponse:
    """The metrics of all datasets of a branch, over a span."""
    shown = {"history": history, "plots": plots(history), "branches": names}
    return page("metrics", location, shown)


@router.get("/metrics/queries", dependencies=[READ_ALL])
def queries_page(
    location: Location, history: Annotated[MetricHistory, Depends(metric_series.of_queries)]
) -> HTMLResponse:
    """The queries of the installation, over a span: how many, how many failed, how fast."""
    return page("queries", location, {"history": history, "plots": plots(history)})


@router.get("/lineage", dependencies=[READ])
def lineage_page(
    location: Location,
    values: Annotated[dict[str, object], Depends(lineage_values)],
    names: BranchNames,
) -> HTMLResponse:
    """The lineage of a branch with the status of each entity, or the path of one of them."""
    return page("lineage", location, {**values, "branches": names}, script=LINEAGE_SCRIPT)


@router.get("/datasets", dependencies=[READ])
def datasets_page(
    location: Location,
    answer: Annotated[Datasets, Depends(branch_catalog.datasets)],
    names: BranchNames,
    part: PartNumber = 1,
) -> HTMLResponse:
    """The deployed datasets, with their rows and their quarantined rows."""
    shown = {"part": part_of(answer["datasets"], part), "branches": names}
    return page("datasets", location, shown)


@router.get("/datasets/{name}", dependencies=[READ])
def dataset_page(
    location: Location,
    services: ServicesDep,
    access: AccessDep,
    history: Annotated[MetricHistory, Depends(metric_series.of_dataset)],
    name: row_inspection.Name,
) -> HTMLResponse:
    """One dataset: its columns, inputs and users, jobs, metrics, expectations and audits."""
    values = dataset_values(services, access, name)
    return page("dataset", location, values | {"history": history, "plots": plots(history)})


@router.get("/datasets/{name}/rows", dependencies=[READ_ROWS])
def rows_page(
    location: Location,
    answer: Annotated[list[dict[str, JsonValue]], Depends(branch_catalog.inspect)],
    name: row_inspection.Name,
) -> HTMLResponse:
    """The newest rows of a dataset's history."""
    return page("rows", location, {"rows": answer, "dataset": name})


@router.get("/datasets/{name}/quarantine", dependencies=[READ_ROWS])
def quarantine_page(
    location: Location,
    answer: Annotated[QuarantinedRows, Depends(row_inspection.quarantined)],
    name: row_inspection.Name,
) -> HTMLResponse:
    """The rows in the quarantine of a dataset, newest first."""
    return page("quarantine", location, {**answer, "dataset": name})


@router.get("/datasets/{name}/late", dependencies=[READ_ROWS])
def late_page(
    location: Location,
    answer: Annotated[LateRows, Depends(row_inspection.late)],
    name: row_inspection.Name,
) -> HTMLResponse:
    """The late rows of a dataset, newest first."""
    return page("late", location, {**answer, "dataset": name})


@router.get("/datasets/{name}/statistics", dependencies=[READ_ROWS])
def statistics_page(
    location: Location, name: row_inspection.Name, access: AccessDep
) -> HTMLResponse:
    """Statistics of the columns of a dataset, of the rows that arrived in the last day."""
    answer = column_summaries.statistics(access, dataset=[name])
    return page("statistics", location, {**answer, "dataset": name})


@router.get("/features", dependencies=[READ])
def features_page(
    location: Location,
    answer: Annotated[Featuresets, Depends(branch_catalog.featuresets)],
    names: BranchNames,
    part: PartNumber = 1,
) -> HTMLResponse:
    """The deployed featuresets."""
    shown = {"part": part_of(answer["featuresets"], part, longest=FEATURESETS), "branches": names}
    return page("features", location, shown)


@router.get("/features/{name}", dependencies=[READ])
def featureset_page(
    location: Location, services: ServicesDep, access: AccessDep, name: row_inspection.Name
) -> HTMLResponse:
    """One featureset: its features, inputs and users, expectations and audits."""
    return page("featureset", location, featureset_values(services, access, name))


@router.get("/features/{name}/{feature}", dependencies=[READ])
def feature_page(
    location: Location,
    services: ServicesDep,
    access: AccessDep,
    name: row_inspection.Name,
    feature: row_inspection.Name,
) -> HTMLResponse:
    """One feature: how it is computed, its inputs and users, and how fresh its rows are."""
    return page("feature", location, feature_values(services, access, name, feature))


@router.get("/sources", dependencies=[READ])
@router.get("/sinks", dependencies=[READ])
def connectors_page(
    location: Location,
    values: Annotated[dict[str, object], Depends(connector_values)],
    names: BranchNames,
) -> HTMLResponse:
    """The deployed sources or sinks, or one of them with its datasets, metrics and jobs."""
    return page("connectors", location, {**values, "branches": names})


@router.get("/search", dependencies=[READ])
def search_page(
    location: Location, answer: Annotated[FoundEntities, Depends(search.search)], q: str = ""
) -> HTMLResponse:
    """The entities of a branch whose names, descriptions, tags or owners have all words."""
    return page("search", location, {**answer, "query": q})


@router.get("/audits", dependencies=[READ])
def audits_page(
    location: Location, services: ServicesDep, access: AccessDep, choice: Choice
) -> HTMLResponse:
    """The newest quality audits of a branch, or of all."""
    found = branch_catalog.audits(services.ledger, access, this_branch=not choice.whole)
    shown = {"has_data_docs": may_see_data_docs(access), **attrs.asdict(choice)}
    return page("audits", location, {**found, **shown})


@router.get("/drift", dependencies=[READ])
def drift_page(location: Location, access: AccessDep, choice: Choice) -> HTMLResponse:
    """The newest comparisons of logged answers with references, of a branch or of all."""
    found = drift.newest(access, this_branch=not choice.whole)
    return page("drift", location, {**found, **attrs.asdict(choice)})


@router.get("/alerts", dependencies=[READ])
def alerts_page(
    location: Location,
    answer: Annotated[AlertList, Depends(alerts.listed)],
    choice: Choice,
    live: Live,
) -> HTMLResponse:
    """The alerts of a branch or of all that fire, the silences, the deliveries to receivers."""
    found = answer["alerts"] if choice.whole else of_branch(answer["alerts"], location.branch)
    shown = {**answer, "alerts": found, "live": live, **attrs.asdict(choice)}
    return page("alerts", location, shown, refresh=live)


@router.get("/erasures", dependencies=[ERASE])
def erasures_page(
    location: Location, answer: Annotated[ErasureList, Depends(erasures.erasures)], live: Live
) -> HTMLResponse:
    """The newest erasures, and what each waits for."""
    return page("erasures", location, {**answer, "live": live}, refresh=live)


@router.get("/erasures/{erasure_id}", dependencies=[ERASE])  # noqa: FAST003 - its twin takes the id
def erasure_page(
    location: Location, answer: Annotated[Erasure, Depends(erasures.erasure_of)]
) -> HTMLResponse:
    """One erasure, with its certificate once it has ended."""
    return page("erasure", location, {"erasure": answer})


@router.get("/connections", dependencies=[SECRETS])
def connections_page(
    location: Location, answer: Annotated[StoredConnections, Depends(connections.connections)]
) -> HTMLResponse:
    """The connections that definitions can name, with the names of their secrets."""
    return page("connections", location, answer)


@router.get("/console.css", dependencies=[open_to_all()])
def style() -> Response:
    """The stylesheet of the pages."""
    return style_sheet()
