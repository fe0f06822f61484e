"""Pending commits on all branches that the principal may name, and what blocks them."""

from fastapi import APIRouter, Request

from narthex._base import Json
from narthex_server.commits import commits
from narthex_server.security.auth import Principal
from narthex_server.services.container import Services
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

NEWEST = 200
"""How many of the newest commits are searched for pending ones."""

KEPT = ("commit_id", "branch", "kind", "state", "message", "actor", "accepted_at", "waits_for")
"""The fields that are returned of each commit."""


@router.get("/waiting")
def pending_commits(request: Request) -> dict[str, Json]:
    """List the commits that have not ended, newest first, each with what it waits for."""
    services: Services = request.app.state.services
    principal: Principal = request.state.principal
    unended = [
        view
        for view in services.ledger.commits.newest(limit=NEWEST)
        if view.finished_at is None
        and principal.may_name(services.ledger.branches.get_by_id(view.branch_id).name)
    ]
    shown = (commits.commit_of(view.commit_id, request) for view in unended)
    return {"commits": [{name: one[name] for name in KEPT} for one in shown]}
