"""Checks of what a token may name in a commit, and whose rows it may write."""

from fastapi import Request

from narthex._analysis.policy import Policy, Use, own_places, place_of, policy_errors, uses
from narthex._ir import Definitions, WebhookEndpoint
from narthex.errors import PolicyInvalid, raise_all
from narthex_server.errors import Forbidden
from narthex_server.security.auth import Principal
from narthex_server.services.container import Services
from narthex_server.services.shared_sources import Shared, ingest_path


def require_named(
    request: Request, before: Definitions | None, after: Definitions, *, branch: str
) -> None:
    """Refuse a commit that names a place withheld by the policy, its owner or its tags.

    Raises:
        Forbidden: another branch or a tag withholds it.
        DefinitionErrors: The policy does not grant it to the branch.
        PolicyInvalid: The policy file has mistakes.
    """
    services: Services = request.app.state.services
    principal: Principal = request.state.principal
    if principal.is_narrow:
        shared = shared_of(request)
        known = {(place_of(use.target), use.is_written) for use in uses(before)}
        for use in uses(after):
            if (place_of(use.target), use.is_written) not in known:
                _require_source(principal, shared, use, branch=branch)
    raise_all(
        policy_errors(
            after,
            before,
            policy=_policy_of(request),
            branch=branch,
            places=own_places(services.settings),
        )
    )


def _require_source(principal: Principal, shared: Shared, use: Use, *, branch: str) -> None:
    place = place_of(use.target)
    if place is None:
        return
    if not principal.may_see(shared.tags_at(place)):
        raise Forbidden(
            f"{use.origin}: the rows of the {place[0]} `{place[1]}` have tags that "
            "this token is not cleared for; ask the operator for a token with these tags"
        )
    if isinstance(use.target, WebhookEndpoint):
        endpoint = use.target
        if shared.policy.endpoint_rules(endpoint.webhook, endpoint.endpoint):
            return
        owner = shared.owners.get(ingest_path(endpoint.webhook, endpoint.endpoint), branch)
        if owner != branch and not principal.may_name(owner):
            raise Forbidden(
                f"{use.origin}: the endpoint `{place[1]}` belongs to a branch that "
                "this token may not name; ask the operator for a rule in `[[endpoints]]`"
            )


def may_write_rows(request: Request, wanted: WebhookEndpoint) -> bool:
    """Return whether an endpoint belongs to a branch that the principal may name.

    Its rows reach every branch that binds it, so it does not suffice that one of the principal's
    own branches binds it.
    """
    principal: Principal = request.state.principal
    if principal.branches == ("*",):
        return True
    writers = shared_of(request).writers(wanted.webhook, wanted.endpoint)
    return any(principal.may_name(branch) for branch in writers)


def shared_of(request: Request) -> Shared:
    """Return the shared sources, as of their first use in a request.

    Raises:
        PolicyInvalid: The policy file has mistakes.
    """
    services: Services = request.app.state.services
    known: Shared | None = getattr(request.state, "shared", None)
    if known is not None:
        return known
    try:
        request.state.shared = found = services.shared.now()
    except PolicyInvalid as error:
        raise _told(request, error) from None
    return found


def _policy_of(request: Request) -> Policy:
    services: Services = request.app.state.services
    try:
        return services.shared.policy()
    except PolicyInvalid as error:
        raise _told(request, error) from None


def _told(request: Request, error: PolicyInvalid) -> PolicyInvalid:
    """Return the error, without the operator's rules if the principal may not see all of them."""
    principal: Principal = request.state.principal
    return PolicyInvalid(("its operator sees them",)) if principal.is_narrow else error
