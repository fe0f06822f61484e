"""Authentication and authorization: every route declares its right, or the server does not start.

A token that lacks the right, or is for other branches, is refused before any lookup, so that an
answer does not reveal whether the requested object exists.
"""

from typing import Annotated, Final, TypeAlias
from uuid import UUID

import attrs
from fastapi import Depends, Request

from narthex.settings import Settings
from narthex_ledger import Ledger, NotFound, Sealer
from narthex_server.errors import Forbidden, NotAuthenticated, RightMissing
from narthex_server.security.browser_sessions import (
    BrowserSession,
    require_own_form,
    session_of,
)
from narthex_server.security.known_tokens import KnownTokens
from narthex_server.security.principals import Principal, named_branch
from narthex_server.security.route_rights import AccessRequirement, Extent, rights_of

SAFE: Final = frozenset({"GET"})
"""Verbs without side effects, which a browser's session may use on every route."""


@attrs.define(kw_only=True)
class Authenticator:
    """Authenticates and authorizes requests; not every request reads the ledger.

    Attributes:
        tokens: The tokens that callers have shown.
    """

    settings: Settings
    ledger: Ledger
    sealer: Sealer
    tokens: KnownTokens

    def authorize(self, request: Request, requirement: AccessRequirement) -> None:
        """Set the principal of a request that meets the requirement of its route.

        Raises:
            NotAuthenticated: The request has no valid token.
            RightMissing: The token lacks the right.
            Forbidden: The token is for other branches, which the error does not say, or another
                site sent the form.
        """
        if requirement.is_open:
            return
        token = self._token_of(request, requirement)
        known = self.tokens.holder(token) if token else None
        if known is None:
            raise NotAuthenticated
        principal = request.state.principal = narrowed(
            known, request.headers.get("x-narthex-scope")
        )
        if requirement.right is not None and requirement.right not in principal.rights:
            raise RightMissing(requirement.right)
        if principal.is_narrow and not self._is_theirs(request, principal, requirement.extent):
            raise Forbidden

    def knows(self, request: Request) -> bool:
        """Whether a call shows a token that is known, so that its check reads no service."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return kind == "Bearer" and self.tokens.known(token) is not None

    def forget(self, token: str) -> None:
        """Drop a token, or the key of a session, so that its next use reads the ledger."""
        self.tokens.forget(token)

    def _token_of(self, request: Request, requirement: AccessRequirement) -> str:
        """Return the token of a call.

        A read-only call, and a form of ours, may take it from a browser's session.

        Raises:
            Forbidden: The session came with a form that is not known to be ours.
        """
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind:
            return token if kind == "Bearer" else ""
        if request.method not in SAFE and not requirement.is_own_form:
            return ""
        session = session_of(request, sealer=self.sealer)
        if session is None or not self._has_not_ended(session):
            return ""
        if request.method not in SAFE:
            require_own_form(request, has_proof=True)
        return session.token

    def _has_not_ended(self, session: BrowserSession) -> bool:
        """Return whether a session has not been signed out."""
        return self.tokens.read(session.key) is not None

    def _is_theirs(self, request: Request, principal: Principal, extent: Extent) -> bool:
        """Return whether a route's part of the installation is that of a narrow principal."""
        match extent:
            case Extent.INSTALLATION:
                return False
            case Extent.OWN_BRANCHES:
                return True
            case Extent.BRANCH:
                is_named = principal.may_name(named_branch(request))
                return is_named and self._commit_is_theirs(request, principal)

    def _commit_is_theirs(self, request: Request, principal: Principal) -> bool:
        """Return whether the commit in the path is on one of the principal's branches."""
        commit_id = request.path_params.get("commit_id")
        if commit_id is None:
            return True
        try:
            branch_id = self.ledger.commits.get(UUID(str(commit_id))).branch_id
            return principal.may_name(self.ledger.branches.get_by_id(branch_id).name)
        except (NotFound, ValueError):
            return False


def narrowed(principal: Principal, scope: str | None) -> Principal:
    """Restrict a principal to the rights of the scope that its call names for itself, if any."""
    if scope is None:
        return principal
    return attrs.evolve(principal, rights=principal.rights & rights_of((scope,)))


async def authenticator_of(request: Request) -> Authenticator:
    """Return the authenticator of this process."""
    authenticator: Authenticator = request.app.state.authenticator
    return authenticator


AuthenticatorDep: TypeAlias = Annotated[Authenticator, Depends(authenticator_of)]
