"""The routes of the pages: each reads its JSON twin by the same function, and renders it."""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from pydantic import JsonValue
from typing_extensions import override

from narthex_server.alerts import routes as alerts
from narthex_server.alerts.responses import AlertList
from narthex_server.catalog import assets, branch_catalog, lineage, search
from narthex_server.catalog.responses import (
    Datasets,
    Featuresets,
    JobList,
    Lineage,
    QualityAudits,
    RetainedAssets,
)
from narthex_server.catalog.search import FoundEntities
from narthex_server.commits import branches, commit_plans, commits, pending_commits
from narthex_server.commits.commit_blockers import has_ended
from narthex_server.commits.responses import (
    BranchList,
    CommitChanges,
    CommitDetails,
    CommitList,
    PendingCommits,
)
from narthex_server.console.entities import dataset_values, featureset_values
from narthex_server.console.lineage_drawing import draw, picked, read
from narthex_server.console.rendering import PageLocation, page, style_sheet
from narthex_server.data import column_summaries, drift, erasures, row_inspection
from narthex_server.data.drift import FeatureDrifts
from narthex_server.data.erasures import Erasure, ErasureList
from narthex_server.data.row_inspection import LateRows, QuarantinedRows
from narthex_server.errors import Forbidden, NotAuthenticated, TooManyAttempts
from narthex_server.security import connections
from narthex_server.security.auth import AuthenticatorDep
from narthex_server.security.browser_sessions import (
    LASTS,
    close_session,
    new_session,
    open_session,
    session_of,
)
from narthex_server.security.connections import StoredConnections
from narthex_server.security.principals import named_branch
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Body, Extent, Right, open_to_all, requires
from narthex_server.security.sign_in_attempts import Attempts, attempts_of
from narthex_server.services.container import ServicesDep, services_of
from narthex_server.web import error_responses

_OWN_PAGE = re.compile(r"/console(/[A-Za-z0-9-]*)*(\?[^\s\\]*)?")
"""Addresses to which a browser may be redirected after sign-in."""


class PageRoute(APIRoute):
    """A route whose refusals are pages too: the API's message, and a link to sign in."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        answer = super().get_route_handler()

        async def rendered(request: Request) -> Response:
            try:
                return await answer(request)
            except Exception as error:  # noqa: BLE001 - any other error is raised again
                return self.answer_error(request, error)

        return rendered

    @staticmethod
    def answer_error(request: Request, error: Exception) -> Response:
        """Render a refusal as a page; raise any other error again."""
        refusal = error_responses.error_response(error)
        message = str(json.loads(bytes(refusal.body))["err_msg"])
        has_token = request.method != "GET" or bool(request.headers.get("authorization"))
        if isinstance(error, NotAuthenticated) and not has_token:
            message = ""  # nothing is wrong yet: the page asks for a token
        return _refused(request, message, status=refusal.status_code)


router = APIRouter(prefix="/console", route_class=PageRoute)
READ = requires(Right.READ_DEFINITIONS)
READ_ROWS = requires(Right.READ_DATA)
ERASE = requires(Right.ERASE, extent=Extent.INSTALLATION)
SECRETS = requires(Right.SECRETS, extent=Extent.INSTALLATION)
OPEN = open_to_all()


def _location(request: Request) -> PageLocation:
    return PageLocation(
        path=request.url.path,
        branch=named_branch(request),
        embedded="x-narthex-embedded" in request.headers,
        weakness=services_of(request).workers.weakness,
    )


def _is_live(request: Request) -> bool:
    return "live" in request.query_params


def _branch_names(listed: Annotated[BranchList, Depends(branches.listed)]) -> list[str]:
    return [branch["name"] for branch in listed["branches"]]


Location: TypeAlias = Annotated[PageLocation, Depends(_location)]
Live: TypeAlias = Annotated[bool, Depends(_is_live)]
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
    commit: Annotated[CommitDetails, Depends(commits.commit_of)],
    planned: Annotated[CommitChanges, Depends(commit_plans.plan_of)],
    live: Live,
) -> HTMLResponse:
    """One commit in full: what it waits for, its plan, what it changes, its assets."""
    ended = has_ended(commit)
    shown = {**planned, "commit": commit, "ended": ended, "live": live}
    return page("commit", location, shown, refresh=live and not ended)


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
    location: Location, answer: Annotated[JobList, Depends(branch_catalog.jobs)], live: Live
) -> HTMLResponse:
    """All jobs and feeds: which supervisor runs them, and their progress."""
    return page("jobs", location, {**answer, "live": live}, refresh=live)


@router.get("/lineage", dependencies=[READ])
def lineage_page(
    location: Location,
    answer: Annotated[Lineage, Depends(lineage.lineage)],
    names: BranchNames,
    of: str = "",
) -> HTMLResponse:
    """The lineage of a branch; `of` restricts it to what is upstream or downstream of an entity."""
    whole = read(answer)
    graph = picked(whole, of) if of else whole
    shown = {"drawing": draw(graph), "graph": graph, "of": of, "branches": names}
    return page("lineage", location, shown)


@router.get("/datasets", dependencies=[READ])
def datasets_page(
    location: Location,
    answer: Annotated[Datasets, Depends(branch_catalog.datasets)],
    names: BranchNames,
) -> HTMLResponse:
    """The deployed datasets, with their rows and their quarantined rows."""
    return page("datasets", location, {**answer, "branches": names})


@router.get("/datasets/{name}", dependencies=[READ])
def dataset_page(
    location: Location, services: ServicesDep, access: AccessDep, name: row_inspection.Name
) -> HTMLResponse:
    """One dataset: its columns, inputs and users, jobs, expectations and audits."""
    return page("dataset", location, dataset_values(services, access, name))


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
) -> HTMLResponse:
    """The deployed featuresets."""
    return page("features", location, {**answer, "branches": names})


@router.get("/features/{name}", dependencies=[READ])
def featureset_page(
    location: Location, services: ServicesDep, access: AccessDep, name: row_inspection.Name
) -> HTMLResponse:
    """One featureset: its features, inputs and users, expectations and audits."""
    return page("featureset", location, featureset_values(services, access, name))


@router.get("/search", dependencies=[READ])
def search_page(
    location: Location, answer: Annotated[FoundEntities, Depends(search.search)], q: str = ""
) -> HTMLResponse:
    """The entities of a branch whose names, descriptions, tags or owners have all words."""
    return page("search", location, {**answer, "query": q})


@router.get("/audits", dependencies=[READ])
def audits_page(
    location: Location, answer: Annotated[QualityAudits, Depends(branch_catalog.audits)]
) -> HTMLResponse:
    """The newest quality audits."""
    return page("audits", location, answer)


@router.get("/drift", dependencies=[READ])
def drift_page(
    location: Location, answer: Annotated[FeatureDrifts, Depends(drift.newest)]
) -> HTMLResponse:
    """The newest comparisons of logged answers with references."""
    return page("drift", location, answer)


@router.get("/alerts", dependencies=[READ])
def alerts_page(
    location: Location, answer: Annotated[AlertList, Depends(alerts.listed)], live: Live
) -> HTMLResponse:
    """The alerts that fire, the silences, and the deliveries to receivers."""
    return page("alerts", location, {**answer, "live": live}, refresh=live)


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


@router.get("/console.css", dependencies=[OPEN])
def style() -> Response:
    """The stylesheet of the pages."""
    return style_sheet()


@router.get("/sign-in", dependencies=[OPEN])
def sign_in_form(location: Location) -> HTMLResponse:
    """The form in which a browser shows a token."""
    return page("sign_in", location, {"to": "/console", "message": ""})


@router.post("/sign-in", dependencies=[open_to_all(body=Body.FORM)])
def sign_in(
    request: Request,
    location: Location,
    authenticator: AuthenticatorDep,
    attempts: Annotated[Attempts, Depends(attempts_of)],
    token: Annotated[str, Form()],
    to: Annotated[str, Form()] = "",
) -> Response:
    """Sign a browser in with a known token; redirect it only to a page of the console."""
    _require_own_form(request)
    caller = request.client.host if request.client else ""
    if not attempts.may_try(caller):
        raise TooManyAttempts("too many wrong tokens; try again in a minute")
    principal = authenticator.tokens.holder(token.strip())
    if principal is None:
        attempts.failed(caller)
        raise NotAuthenticated
    request.state.principal = principal
    session = new_session(token.strip())
    authenticator.ledger.tokens.put(
        session.key, name=f"console of {principal.name}", scopes=(), lifetime=LASTS
    )
    path = to if _OWN_PAGE.fullmatch(to) else "/console"
    answer = RedirectResponse(f"{location.root}{path[1:]}", status_code=303)
    open_session(answer, request, session, sealer=authenticator.sealer)
    return answer


@router.post("/sign-out", dependencies=[OPEN])
def sign_out(request: Request, location: Location, authenticator: AuthenticatorDep) -> Response:
    """End a browser's session: its cookie, and any copy of it, is no longer valid."""
    _require_own_form(request)
    session = session_of(request, sealer=authenticator.sealer)
    if session is not None:
        authenticator.ledger.tokens.revoke(session.key)
        authenticator.forget(session.key)
    answer = RedirectResponse(f"{location.root}console/sign-in", status_code=303)
    close_session(answer)
    return answer


def _require_own_form(request: Request) -> None:
    """Refuse a form that a page of another site sent.

    Raises:
        Forbidden: Another site sent it.
    """
    site = request.headers.get("sec-fetch-site")
    if site is None:
        origin = request.headers.get("origin")
        hosts = {request.headers.get("host"), request.headers.get("x-forwarded-host")}
        is_own = origin is None or urlsplit(origin).netloc in hosts - {None, ""}
    else:
        is_own = site in {"same-origin", "none"}
    if not is_own:
        raise Forbidden("another site sent this form")


def _refused(request: Request, message: str, *, status: int) -> HTMLResponse:
    """Render a refusal; ask an unauthenticated caller for a token."""
    to = f"{request.url.path}?{request.url.query}" if request.method == "GET" else "/console"
    location = _location(request)
    template = "sign_in" if status in {401, 403} and not location.embedded else "refused"
    return page(template, location, {"to": to, "message": message}, status=status)
