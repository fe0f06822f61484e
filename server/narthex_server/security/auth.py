"""Authentication and authorization: every route declares its right, or the server does not start.

A token that lacks the right, or is for other branches, is refused before any lookup, so that an
answer does not reveal whether the requested object exists.
"""

import hmac
import threading
import time
from typing import Annotated, Final, TypeAlias
from uuid import UUID

import attrs
import structlog
from fastapi import Depends, Request

from narthex.settings import Settings
from narthex_ledger import Ledger, NotFound, NotSigned, Sealer, TokenView
from narthex_server.errors import Forbidden, NotAuthenticated
from narthex_server.security.browser_sessions import SESSION, BrowserSession, session_of
from narthex_server.security.principals import DAGS, PLATFORM, Principal, named_branch
from narthex_server.security.route_rights import AccessRequirement, Extent, rights_of

log = structlog.get_logger()

SAFE: Final = frozenset({"GET"})
"""Verbs without side effects, which a browser's session may use."""

KNOWN_S: Final = 2.0
"""How long a token's rights are cached; a revoked token is refused at most this much later."""


@attrs.define(kw_only=True)
class Authenticator:
    """Authenticates and authorizes requests; not every request reads the ledger."""

    settings: Settings
    ledger: Ledger
    sealer: Sealer
    _known: dict[str, tuple[float, TokenView | None]] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def authorize(self, request: Request, requirement: AccessRequirement) -> None:
        """Set the principal of a request that meets the requirement of its route.

        Raises:
            NotAuthenticated: The request has no valid token.
            Forbidden: The token lacks the right, or is for other branches; the error does not
                have the reason.
        """
        if requirement.is_open:
            return
        token = self._token_of(request)
        known = self.find(token) if token else None
        if known is None:
            raise NotAuthenticated
        principal = request.state.principal = _narrowed(request, known)
        if requirement.right is not None and requirement.right not in principal.rights:
            raise Forbidden
        if principal.is_narrow and not self._is_theirs(request, principal, requirement.extent):
            raise Forbidden

    def find(self, token: str) -> Principal | None:
        """Return the holder of a token; comparison with the platform's own takes constant time."""
        settings = self.settings
        for own, principal in ((settings.token, PLATFORM), (settings.dags_token, DAGS)):
            if own and hmac.compare_digest(token.encode(), own.encode()):
                return principal
        view = None if token.startswith(SESSION) else self._view(token)
        if view is None:
            return None
        return Principal(
            name=view.name,
            token_id=view.token_id,
            rights=rights_of(view.scopes),
            branches=view.branches,
            tags=view.tags,
        )

    def forget(self, token: str) -> None:
        """Drop a token, or the key of a session, so that its next use reads the ledger."""
        with self._lock:
            self._known.pop(token, None)

    def _token_of(self, request: Request) -> str:
        """Return the token of a call; a read-only call may take it from a browser's session."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind:
            return token if kind == "Bearer" else ""
        session = session_of(request, sealer=self.sealer) if request.method in SAFE else None
        return session.token if session is not None and self._has_not_ended(session) else ""

    def _has_not_ended(self, session: BrowserSession) -> bool:
        """Return whether a session has not been signed out."""
        return self._view(session.key) is not None

    def _view(self, token: str) -> TokenView | None:
        if not token.startswith("nx_"):
            return None
        now = time.monotonic()
        with self._lock:
            self._known = {t: e for t, e in self._known.items() if now - e[0] < KNOWN_S}
            known = self._known.get(token)
        if known is not None:
            return known[1]
        try:
            view = self.ledger.tokens.get(token)
        except NotSigned as error:
            log.warning("token_not_signed", error=str(error))
            view = None
        with self._lock:
            self._known[token] = (now, view)
        return view

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


def _narrowed(request: Request, principal: Principal) -> Principal:
    """Restrict a principal to the rights of the scope that the call names for itself."""
    scope = request.headers.get("x-narthex-scope")
    if scope is None:
        return principal
    return attrs.evolve(principal, rights=principal.rights & rights_of((scope,)))


async def authenticator_of(request: Request) -> Authenticator:
    """Return the authenticator of this process."""
    authenticator: Authenticator = request.app.state.authenticator
    return authenticator


AuthenticatorDep: TypeAlias = Annotated[Authenticator, Depends(authenticator_of)]
