"""What has not reached its readers, on all branches that the asker may name, and why."""

from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request

from narthex.records import Json
from narthex_ledger import CommitState, CommitView
from narthex_server import commits
from narthex_server.auth import Asker
from narthex_server.console.waiting import why_waiting
from narthex_server.routes import PlainRoute
from narthex_server.services import Services

router = APIRouter(route_class=PlainRoute)

NEWEST = 200
"""Among how many of the newest commits those are looked for that have not ended."""

HOLDING = frozenset({CommitState.PLANNED, CommitState.APPLYING, CommitState.READY})
"""The states in which a commit has its branch: no other is planned meanwhile."""


@router.get("/waiting")
def waiting(request: Request) -> dict[str, Json]:
    """List the commits that have not ended, the newest first, each with what it waits for."""
    services: Services = request.app.state.services
    asker: Asker = request.state.asker
    unended = [
        view
        for view in services.ledger.commits(limit=NEWEST)
        if view.finished_at is None
        and asker.may_name(services.ledger.branch_of(view.branch_id).name)
    ]
    return {"commits": [_told(request, view, unended) for view in unended]}


def _told(request: Request, view: CommitView, unended: Sequence[CommitView]) -> dict[str, Json]:
    shown = commits.commit_of(view.commit_id, request)
    reasons: list[Json] = list(
        why_waiting(shown, commits.readiness(view.commit_id, request))
        if view.state is not CommitState.QUEUED
        else _ahead(view, unended)
    )
    kept = ("commit_id", "branch", "kind", "state", "message", "actor", "accepted_at")
    return {name: shown[name] for name in kept} | {"waits_for": reasons}


def _ahead(view: CommitView, unended: Sequence[CommitView]) -> Iterator[str]:
    """Name the commit that has the branch; nobody does while this one is about to be planned."""
    ahead = [
        other for other in unended if other.branch_id == view.branch_id and other.state in HOLDING
    ]
    yield from (
        f"commit {other.commit_id} to end, which is {other.state.value} and has the branch"
        for other in ahead
    )
    if not ahead:
        yield "to be planned, which the next look does"
