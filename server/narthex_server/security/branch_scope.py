"""How far somebody sees whose token is for some branches: no other branch is named to them."""

from fastapi import HTTPException, Request

from narthex_ledger import CommitPlan
from narthex_server.security.auth import Asker
from narthex_server.services.container import Services


def branches_seen(request: Request) -> frozenset[str] | None:
    """Name the branches that the asker may name; None stands for all of the installation."""
    asker: Asker = request.state.asker
    if asker.branches == ("*",):
        return None
    services: Services = request.app.state.services
    found = services.ledger.branches(services.tenant)
    return frozenset(branch.name for branch in found if asker.may_name(branch.name))


def require_branch(request: Request, name: str) -> None:
    """Refuse a branch that a body names and that is not the asker's, whether it exists or not.

    Raises:
        HTTPException: 403.
    """
    asker: Asker = request.state.asker
    if not asker.may_name(name):
        raise HTTPException(status_code=403, detail="the token does not allow this")


def plan_seen(request: Request, plan: CommitPlan) -> CommitPlan:
    """Give a plan with those names of branches that the asker may name; its hash is the same."""
    asker: Asker = request.state.asker
    return plan.naming(asker.may_name)
