"""Authentication and authorization: every route names its right, or the server does not start.

A token that lacks the right, or is for other branches, is refused before any lookup, so that an
answer does not reveal whether the requested object exists.
"""

import enum
import fnmatch
import hmac
import threading
import time
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import attrs
import structlog
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute

from narthex_ledger import NotFound, NotSigned, TokenView
from narthex_server.errors import Forbidden, NotAuthenticated
from narthex_server.security.browser_sessions import SESSION, BrowserSession, session_of
from narthex_server.services.container import Services

log = structlog.get_logger()

OPEN_PATHS = frozenset(
    {"/healthz", "/console/sign-in", "/console/sign-out", "/console/console.css"}
)
"""Routes that need no token: liveness, the stylesheet, and the sign-in form."""

SAFE = frozenset({"GET"})
"""Verbs without side effects, which a browser's session may use."""

KNOWN_S = 2.0
"""How long a token's rights are cached; a revoked token is refused at most this much later."""


class Right(enum.StrEnum):
    """A permission that a token may have; its scopes are rights, or roles with several rights."""

    READ_DEFINITIONS = "read:definitions"
    WRITE_DEFINITIONS = "write:definitions"
    READ_DATA = "read:data"
    WRITE_DATA = "write:data"
    DELETE_BRANCHES = "delete:branches"
    ROLL_BACK = "rollback"
    STEP = "step"
    APPROVE = "approve"
    SPEAK_FOR = "speak-for"
    SECRETS = "secrets"
    CANCEL_TAGS = "cancel:tags"
    ADMINISTER = "administer"


_READER: Final = frozenset({Right.READ_DEFINITIONS, Right.READ_DATA})
_WRITER: Final = frozenset({Right.WRITE_DEFINITIONS, Right.DELETE_BRANCHES, Right.ROLL_BACK})
ROLES: Final[dict[str, frozenset[Right]]] = {
    "reader": _READER,
    "ingest": frozenset({Right.WRITE_DATA}),
    "author": _READER | _WRITER | {Right.WRITE_DATA},
    "approver": _READER | {Right.APPROVE},
    "steps": frozenset({Right.READ_DEFINITIONS, Right.STEP}),
    "dags": frozenset(
        {
            Right.READ_DEFINITIONS,
            Right.STEP,
            Right.ROLL_BACK,
            Right.DELETE_BRANCHES,
            Right.SPEAK_FOR,
        }
    ),
    "admin": frozenset(Right) - {Right.SPEAK_FOR},
}
"""Named sets of rights; only Airflow's processes act for the people whom it has signed in.

They approve nothing: on their step, the server asks Airflow who has approved.
"""

RIGHTS: Final[dict[tuple[str, str], Right]] = {
    ("POST", "/init"): Right.WRITE_DEFINITIONS,
    ("POST", "/delete"): Right.DELETE_BRANCHES,
    ("POST", "/undelete"): Right.WRITE_DEFINITIONS,
    ("GET", "/branch/list"): Right.READ_DEFINITIONS,
    ("POST", "/branch/protect"): Right.ADMINISTER,
    ("POST", "/commit"): Right.WRITE_DEFINITIONS,
    ("GET", "/commits"): Right.READ_DEFINITIONS,
    ("GET", "/commits/{commit_id}"): Right.READ_DEFINITIONS,
    ("GET", "/commits/{commit_id}/plan"): Right.READ_DEFINITIONS,
    ("GET", "/commits/{commit_id}/readiness"): Right.READ_DEFINITIONS,
    ("POST", "/commits/{commit_id}/cancel"): Right.WRITE_DEFINITIONS,
    ("POST", "/commits/{commit_id}/approve"): Right.APPROVE,
    ("POST", "/commits/{commit_id}/steps/plan"): Right.STEP,
    ("POST", "/commits/{commit_id}/steps/create/{asset_id}"): Right.STEP,
    ("POST", "/commits/{commit_id}/steps/{step}"): Right.STEP,
    ("POST", "/upkeep/collect"): Right.STEP,
    ("POST", "/upkeep/audit"): Right.STEP,
    ("POST", "/upkeep/recover"): Right.STEP,
    ("POST", "/upkeep/drill/{drill_id}"): Right.STEP,
    ("POST", "/upkeep/adopt"): Right.ADMINISTER,
    ("POST", "/rollback"): Right.ROLL_BACK,
    ("POST", "/log"): Right.WRITE_DATA,
    ("POST", "/query"): Right.READ_DATA,
    ("POST", "/dataset/{name}/lookup"): Right.READ_DATA,
    ("GET", "/dataset/{name}/inspect"): Right.READ_DATA,
    ("POST", "/dataset/{name}/erase"): Right.WRITE_DATA,
    ("POST", "/query_offline"): Right.READ_DATA,
    ("GET", "/query_offline/status"): Right.READ_DATA,
    ("GET", "/query_offline/answers"): Right.READ_DATA,
    ("POST", "/query_offline/cancel"): Right.READ_DATA,
    ("GET", "/datasets"): Right.READ_DEFINITIONS,
    ("GET", "/datasets/{name}"): Right.READ_DEFINITIONS,
    ("GET", "/featuresets"): Right.READ_DEFINITIONS,
    ("GET", "/assets"): Right.READ_DEFINITIONS,
    ("GET", "/jobs"): Right.READ_DEFINITIONS,
    ("GET", "/lineage"): Right.READ_DEFINITIONS,
    ("GET", "/xray"): Right.READ_DEFINITIONS,
    ("GET", "/waiting"): Right.READ_DEFINITIONS,
    ("GET", "/metrics"): Right.READ_DEFINITIONS,
    ("GET", "/audits"): Right.READ_DEFINITIONS,
    ("POST", "/audits"): Right.STEP,
    ("GET", "/secrets"): Right.SECRETS,
    ("GET", "/secret/{name:path}"): Right.SECRETS,
    ("POST", "/secret/{name:path}"): Right.SECRETS,
    ("PATCH", "/secret/{name:path}"): Right.SECRETS,
    ("DELETE", "/secret/{name:path}"): Right.SECRETS,
    ("GET", "/tokens"): Right.ADMINISTER,
    ("POST", "/tokens"): Right.ADMINISTER,
    ("DELETE", "/tokens/{token_id}"): Right.ADMINISTER,
    ("GET", "/control-log"): Right.ADMINISTER,
    ("GET", "/control-log/verify"): Right.ADMINISTER,
    ("GET", "/console"): Right.READ_DEFINITIONS,
    ("GET", "/console/commits"): Right.READ_DEFINITIONS,
    ("GET", "/console/commits/{commit_id}"): Right.READ_DEFINITIONS,
    ("GET", "/console/waiting"): Right.READ_DEFINITIONS,
    ("GET", "/console/branches"): Right.READ_DEFINITIONS,
    ("GET", "/console/assets"): Right.READ_DEFINITIONS,
    ("GET", "/console/jobs"): Right.READ_DEFINITIONS,
    ("GET", "/console/lineage"): Right.READ_DEFINITIONS,
    ("GET", "/console/datasets"): Right.READ_DEFINITIONS,
    ("GET", "/console/features"): Right.READ_DEFINITIONS,
    ("GET", "/console/audits"): Right.READ_DEFINITIONS,
}
"""The right that each route requires, by verb and by path below the API's; pages included."""


WHOLE: Final = frozenset(
    {
        ("POST", "/upkeep/collect"),
        ("POST", "/upkeep/audit"),
        ("POST", "/upkeep/recover"),
        ("POST", "/upkeep/drill/{drill_id}"),
        ("POST", "/upkeep/adopt"),
        ("GET", "/metrics"),
        ("GET", "/secrets"),
        ("GET", "/secret/{name:path}"),
        ("POST", "/secret/{name:path}"),
        ("PATCH", "/secret/{name:path}"),
        ("DELETE", "/secret/{name:path}"),
        ("GET", "/tokens"),
        ("POST", "/tokens"),
        ("DELETE", "/tokens/{token_id}"),
        ("GET", "/control-log"),
        ("GET", "/control-log/verify"),
    }
)
"""Routes about the whole installation: tokens for some branches or tags are refused."""


OF_EACH: Final = frozenset({("GET", "/branch/list"), ("GET", "/waiting")})
"""Routes that return a principal's part of all branches, whichever branch the call names."""


@attrs.frozen(kw_only=True)
class Principal:
    """The authenticated caller of a request.

    Attributes:
        name: The name that the ledger records.
        token_id: Empty for the platform's own processes.
        branches: Patterns of the branches that the principal may name.
        tags: Patterns of the tags that the principal may see and change.
    """

    name: str
    token_id: str
    rights: frozenset[Right]
    branches: tuple[str, ...]
    tags: tuple[str, ...] = ("*",)

    @property
    def is_narrow(self) -> bool:
        """Whether the principal is restricted to some branches or tags."""
        return (self.branches, self.tags) != (("*",), ("*",))

    def may_name(self, branch: str) -> bool:
        """Return whether the principal may name a branch."""
        return _fits(branch, self.branches)

    def may_see(self, tags: Iterable[str]) -> bool:
        """Return whether the principal may see all of these tags."""
        return all(_fits(tag, self.tags) for tag in tags)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


PLATFORM = Principal(name="platform", token_id="", rights=frozenset(Right), branches=("*",))
"""The installation's own processes, and every other holder of their token."""

DAGS = Principal(name="airflow", token_id="", rights=ROLES["dags"], branches=("*",))
"""Airflow's processes: they advance commits, and report who asked or answered in Airflow."""


def rights_of(scopes: tuple[str, ...]) -> frozenset[Right]:
    """Return the rights of scopes; an unknown scope grants none."""
    found: set[Right] = set()
    for scope in scopes:
        found |= ROLES.get(scope, frozenset())
        found |= {right for right in Right if right.value == scope}
    return frozenset(found)


@attrs.define
class PrincipalCache:
    """A cache of recently seen tokens, so that not every call reads the ledger."""

    _known: dict[str, tuple[float, TokenView | None]] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def find(self, services: Services, token: str) -> Principal | None:
        """Return the holder of a token; comparison with the platform's own takes constant time."""
        settings = services.settings
        for own, principal in ((settings.token, PLATFORM), (settings.dags_token, DAGS)):
            if own and hmac.compare_digest(token.encode(), own.encode()):
                return principal
        view = None if token.startswith(SESSION) else self._view(services, token)
        if view is None:
            return None
        return Principal(
            name=view.name,
            token_id=view.token_id,
            rights=rights_of(view.scopes),
            branches=view.branches,
            tags=view.tags,
        )

    def has_not_ended(self, services: Services, session: BrowserSession) -> bool:
        """Return whether a session has not been signed out."""
        return self._view(services, session.key) is not None

    def forget(self, token: str) -> None:
        """Drop a token, or the key of a session, so that its next use reads the ledger."""
        with self._lock:
            self._known.pop(token, None)

    def _view(self, services: Services, token: str) -> TokenView | None:
        if not token.startswith("nx_"):
            return None
        now = time.monotonic()
        with self._lock:
            self._known = {t: e for t, e in self._known.items() if now - e[0] < KNOWN_S}
            kept = self._known.get(token)
        if kept is not None:
            return kept[1]
        try:
            view = services.ledger.tokens.get(token)
        except NotSigned as error:
            log.warning("token_not_signed", error=str(error))
            view = None
        with self._lock:
            self._known[token] = (now, view)
        return view


def require_rights(app: FastAPI, *, api: str) -> None:
    """Check that every route is explicitly open or requires a right.

    Raises:
        RuntimeError: A route is neither; the server must not start.
    """
    for route in app.routes:
        if not isinstance(route, APIRoute):
            raise TypeError(f"{route} is not a route type that supports authorization")
        for verb in route.methods:
            if route.path not in OPEN_PATHS and (verb, route.path.removeprefix(api)) not in RIGHTS:
                raise RuntimeError(f"{verb} {route.path} has no right; add one to `RIGHTS`")


async def require_asked(request: Request) -> None:
    """Refuse a request without a principal, that is, one that bypassed the request checks.

    Raises:
        NotAuthenticated: No principal was set.
    """
    if not hasattr(request.state, "principal") and _path_of(request) not in OPEN_PATHS:
        raise NotAuthenticated


def _path_of(request: Request) -> str:
    path: str = getattr(request.scope.get("route"), "path", request.url.path)
    return path


def require_token(request: Request) -> None:
    """Refuse a caller without a valid token, the route's right, or access to the named branch.

    Raises:
        NotAuthenticated: The token is missing or not valid.
        Forbidden: It lacks the right, or is for other branches; the error does not have the reason.
    """
    path = _path_of(request)
    if path in OPEN_PATHS:
        return
    services: Services = request.app.state.services
    token = _token_of(request, services)
    principal = request.app.state.principals.find(services, token) if token else None
    if principal is None:
        raise NotAuthenticated
    request.state.principal = principal = _narrowed(request, principal)
    key = request.method, path.removeprefix(request.app.state.api)
    is_beyond = principal.is_narrow and key in WHOLE
    is_theirs = key in OF_EACH or _is_theirs(request, principal)
    if is_beyond or RIGHTS.get(key) not in principal.rights or not is_theirs:
        raise Forbidden


def _token_of(request: Request, services: Services) -> str:
    """Return the token of a call; a read-only call may take it from a browser's session."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind:
        return token if kind == "Bearer" else ""
    session = session_of(request, sealer=services.sealer) if request.method in SAFE else None
    if session is None or not request.app.state.principals.has_not_ended(services, session):
        return ""
    return session.token


def _narrowed(request: Request, principal: Principal) -> Principal:
    """Restrict a principal to the rights of the scope that the call names for itself."""
    scope = request.headers.get("x-narthex-scope")
    if scope is None:
        return principal
    return attrs.evolve(principal, rights=principal.rights & rights_of((scope,)))


def _is_theirs(request: Request, principal: Principal) -> bool:
    if not principal.is_narrow:
        return True
    return principal.may_name(branch_of(request)) and _commit_is_theirs(request, principal)


def _commit_is_theirs(request: Request, principal: Principal) -> bool:
    """Return whether the commit in the path is on one of the principal's branches."""
    commit_id = request.path_params.get("commit_id")
    if commit_id is None:
        return True
    ledger = request.app.state.services.ledger
    try:
        branch_id = ledger.commits.get(UUID(str(commit_id))).branch_id
        return principal.may_name(ledger.branches.get_by_id(branch_id).name)
    except (NotFound, ValueError):
        return False


def branch_of(request: Request) -> str:
    """Return the branch of a request: from its header, else from its query, else `main`.

    The query parameter `branch` lets a link name a branch.
    """
    headers = request.headers
    named = headers.get("x-narthex-branch") or headers.get("x-fennel-branch")
    return named or request.query_params.get("branch") or "main"
