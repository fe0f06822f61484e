"""The routes of the pages: each reads its JSON twin by the same function, and renders it."""

import json
import re
from collections.abc import Callable, Coroutine
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from typing_extensions import override

from narthex._base import Json
from narthex_server.catalog import assets, branch_catalog, lineage
from narthex_server.commits import branches, commit_plans, commits, pending_commits
from narthex_server.commits.commit_blockers import has_ended
from narthex_server.console.lineage_drawing import draw, picked, read
from narthex_server.console.rendering import PageLocation, page, style_sheet
from narthex_server.errors import Forbidden, NotAuthenticated, TooManyAttempts
from narthex_server.security.auth import branch_of
from narthex_server.security.browser_sessions import (
    LASTS,
    close_session,
    new_session,
    open_session,
    session_of,
)
from narthex_server.security.sign_in_attempts import Attempts
from narthex_server.services.container import Services
from narthex_server.web import error_responses
from narthex_server.web.plain_routes import Number

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
                return self.told(request, error)

        return rendered

    @staticmethod
    def told(request: Request, error: Exception) -> Response:
        """Render a refusal as a page; raise any other error again."""
        refusal = error_responses.error_response(error)
        message = str(json.loads(bytes(refusal.body))["err_msg"])
        return _refused(request, message, status=refusal.status_code)


router = APIRouter(prefix="/console", route_class=PageRoute)


def _place(request: Request) -> PageLocation:
    services: Services = request.app.state.services
    return PageLocation(
        path=request.url.path,
        branch=branch_of(request),
        embedded="x-narthex-embedded" in request.headers,
        weakness=services.workers.weakness,
    )


def _branches(request: Request) -> list[str]:
    return [str(one["name"]) for one in _records(branches.listed(request)["branches"])]


def _records(found: Json) -> list[dict[str, Json]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _is_live(request: Request) -> bool:
    return "live" in request.query_params


@router.get("")
@router.get("/commits")
def commits_page(request: Request) -> HTMLResponse:
    """The newest commits of a branch."""
    live = _is_live(request)
    found = commits.commits(request) | {"branches": _branches(request), "live": live}
    return page("commits", _place(request), found, refresh=live)


@router.get("/commits/{commit_id}")
def commit_page(commit_id: UUID, request: Request) -> HTMLResponse:
    """One commit in full: what it waits for, its plan, what it changes, its assets."""
    commit = commits.commit_of(commit_id, request)
    ended, live = has_ended(commit), _is_live(request)
    found = {"commit": commit, "ended": ended, "live": live}
    planned = commit_plans.plan_of(commit_id, request)
    return page("commit", _place(request), planned | found, refresh=live and not ended)


@router.get("/waiting")
def waiting_page(request: Request) -> HTMLResponse:
    """The pending commits on all branches, and what blocks them."""
    live = _is_live(request)
    found = pending_commits.pending_commits(request) | {"live": live}
    return page("waiting", _place(request), found, refresh=live)


@router.get("/branches")
def branches_page(request: Request) -> HTMLResponse:
    """All branches: what is deployed on them, and what their readers read."""
    return page("branches", _place(request), branches.listed(request))


@router.get("/assets")
def assets_page(request: Request, after: Number = 0) -> HTMLResponse:
    """All assets, and which branches share them."""
    return page("assets", _place(request), assets.assets(request, after=after))


@router.get("/jobs")
def jobs_page(request: Request) -> HTMLResponse:
    """All jobs and feeds: which supervisor runs them, and their progress."""
    live = _is_live(request)
    return page(
        "jobs", _place(request), branch_catalog.jobs(request) | {"live": live}, refresh=live
    )


@router.get("/lineage")
def lineage_page(request: Request, of: str = "") -> HTMLResponse:
    """The lineage of a branch; `of` restricts it to what is upstream or downstream of an entity."""
    whole = read(lineage.lineage(request))
    graph = picked(whole, of) if of else whole
    found = {"drawing": draw(graph), "graph": graph, "of": of, "branches": _branches(request)}
    return page("lineage", _place(request), found)


@router.get("/datasets")
def datasets_page(request: Request) -> HTMLResponse:
    """The deployed datasets, with their rows and their quarantined rows."""
    found = branch_catalog.datasets(request) | {"branches": _branches(request)}
    return page("datasets", _place(request), found)


@router.get("/features")
def features_page(request: Request) -> HTMLResponse:
    """The deployed featuresets."""
    found = branch_catalog.featuresets(request) | {"branches": _branches(request)}
    return page("features", _place(request), found)


@router.get("/audits")
def audits_page(request: Request) -> HTMLResponse:
    """The newest quality audits."""
    return page("audits", _place(request), branch_catalog.audits(request))


@router.get("/console.css")
def style() -> Response:
    """The stylesheet of the pages."""
    return style_sheet()


@router.get("/sign-in")
def sign_in_form(request: Request) -> HTMLResponse:
    """The form in which a browser shows a token."""
    return page("sign_in", _place(request), {"to": "/console", "message": ""})


@router.post("/sign-in")
def sign_in(
    request: Request, token: Annotated[str, Form()], to: Annotated[str, Form()] = ""
) -> Response:
    """Sign a browser in with a known token; redirect it only to a page of the console."""
    _require_own_form(request)
    services: Services = request.app.state.services
    attempts: Attempts = request.app.state.attempts
    caller = request.client.host if request.client else ""
    if not attempts.may_try(caller):
        raise TooManyAttempts("too many wrong tokens; try again in a minute")
    principal = request.app.state.principals.find(services, token.strip())
    if principal is None:
        attempts.failed(caller)
        raise NotAuthenticated
    request.state.principal = principal
    session = new_session(token.strip())
    services.ledger.tokens.put(
        session.key, name=f"console of {principal.name}", scopes=(), lifetime=LASTS
    )
    path = to if _OWN_PAGE.fullmatch(to) else "/console"
    answer = RedirectResponse(f"{_place(request).root}{path[1:]}", status_code=303)
    open_session(answer, request, session, sealer=services.sealer)
    return answer


@router.post("/sign-out")
def sign_out(request: Request) -> Response:
    """End a browser's session: its cookie, and any copy of it, is no longer valid."""
    _require_own_form(request)
    services: Services = request.app.state.services
    session = session_of(request, sealer=services.sealer)
    if session is not None:
        services.ledger.tokens.revoke(session.key)
        request.app.state.principals.forget(session.key)
    answer = RedirectResponse(f"{_place(request).root}console/sign-in", status_code=303)
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
    place = _place(request)
    template = "sign_in" if status in {401, 403} and not place.embedded else "refused"
    return page(template, place, {"to": to, "message": message}, status=status)
