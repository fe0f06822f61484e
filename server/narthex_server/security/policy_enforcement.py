"""Checks of what a token may name in a commit, and whose rows it may write."""

from narthex._analysis.policy import Use, own_places, place_of, policy_errors, uses
from narthex._ir import Definitions, WebhookEndpoint
from narthex.errors import raise_all
from narthex.settings import Settings
from narthex_server.errors import Forbidden
from narthex_server.security.dataset_access import Access
from narthex_server.security.principals import Principal
from narthex_server.services.shared_sources import Shared, ingest_path


def require_named(
    access: Access, settings: Settings, before: Definitions | None, after: Definitions
) -> None:
    """Refuse a commit that names a place withheld by the policy, its owner or its tags.

    Raises:
        Forbidden: Another branch or a tag withholds it.
        DefinitionErrors: The policy does not grant it to the branch.
        PolicyInvalid: The policy file has mistakes.
    """
    if access.principal.is_narrow:
        shared = access.shared()
        known = {(place_of(use.target), use.is_written) for use in uses(before)}
        for use in uses(after):
            if (place_of(use.target), use.is_written) not in known:
                _require_source(access.principal, shared, use, branch=access.branch)
    raise_all(
        policy_errors(
            after,
            before,
            policy=access.policy(),
            branch=access.branch,
            places=own_places(settings),
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


def may_write_rows(access: Access, endpoint: WebhookEndpoint) -> bool:
    """Return whether an endpoint belongs to a branch that the principal may name.

    Its rows reach every branch that binds it, so it does not suffice that one of the principal's
    own branches binds it.
    """
    principal = access.principal
    if principal.branches == ("*",):
        return True
    writers = access.shared().writers(endpoint.webhook, endpoint.endpoint)
    return any(principal.may_name(branch) for branch in writers)
