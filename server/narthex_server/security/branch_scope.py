"""Restrictions of tokens to some branches: other branches are not named to their holders."""

from fastapi import Request

from narthex_ledger import CommitPlan
from narthex_server.errors import Forbidden
from narthex_server.security.auth import Principal
from narthex_server.services.container import Services


def branches_seen(request: Request) -> frozenset[str] | None:
    """Return the branches that the principal may name; None means all of the installation."""
    principal: Principal = request.state.principal
    if principal.branches == ("*",):
        return None
    services: Services = request.app.state.services
    found = services.ledger.branches.all(services.tenant)
    return frozenset(branch.name for branch in found if principal.may_name(branch.name))


def require_branch(request: Request, name: str) -> None:
    """Refuse a branch in a body that is not the principal's, whether it exists or not.

    Raises:
        Forbidden: The principal may not name it.
    """
    principal: Principal = request.state.principal
    if not principal.may_name(name):
        raise Forbidden


def plan_seen(request: Request, plan: CommitPlan) -> CommitPlan:
    """Return a plan that names only branches that the principal may name; its hash is the same."""
    principal: Principal = request.state.principal
    return plan.naming(principal.may_name)
