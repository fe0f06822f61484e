"""Pending commits on all branches that the principal may name, and what blocks them."""

from fastapi import APIRouter

from narthex_server.commits import commits
from narthex_server.commits.responses import CommitDetails, PendingCommit, PendingCommits
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import ServicesDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

MOST = 1000
"""The greatest number of pending commits in one answer."""


@router.get("/waiting", dependencies=[requires(Right.READ_DEFINITIONS, extent=Extent.OWN_BRANCHES)])
def pending_commits(services: ServicesDep, access: AccessDep) -> PendingCommits:
    """List the commits that have not ended, newest first, each with what it waits for."""
    unended = [
        view
        for view in services.ledger.commits.newest(limit=MOST, only_unended=True)
        if access.principal.may_name(services.ledger.branches.get_by_id(view.branch_id).name)
    ]
    whole = (services.ledger.commits.get(view.commit_id) for view in unended)
    shown = (commits.commit_of(view, services, access) for view in whole)
    return {"commits": [_plain(commit) for commit in shown]}


def _plain(commit: CommitDetails) -> PendingCommit:
    return {
        "commit_id": commit["commit_id"],
        "branch": commit["branch"],
        "kind": commit["kind"],
        "state": commit["state"],
        "message": commit["message"],
        "actor": commit["actor"],
        "accepted_at": commit["accepted_at"],
        "needs_approval": commit["approval"]["needed"],
        "waits_for": commit["waits_for"],
    }
