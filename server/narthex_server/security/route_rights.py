"""Rights and roles of tokens, and the requirement that each route declares in its decorator."""

import enum
from collections.abc import Iterable
from typing import Final

import attrs
from fastapi import Depends, FastAPI, Request
from fastapi.params import Depends as Dependency
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from narthex_server.errors import NotAuthenticated


class Right(enum.StrEnum):
    """A permission that a token may have; its scopes are rights, or roles with several rights."""

    READ_DEFINITIONS = "read:definitions"
    WRITE_DEFINITIONS = "write:definitions"
    READ_DATA = "read:data"
    WRITE_DATA = "write:data"
    ERASE = "erase:data"
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


def rights_of(scopes: Iterable[str]) -> frozenset[Right]:
    """Return the rights of scopes; an unknown scope grants none."""
    rights: set[Right] = set()
    for scope in scopes:
        rights |= ROLES.get(scope, frozenset())
        rights |= {right for right in Right if right.value == scope}
    return frozenset(rights)


class Extent(enum.Enum):
    """The part of the installation that a route is about."""

    BRANCH = "branch"
    """The branch that the request names: its principal must be allowed to name it."""
    OWN_BRANCHES = "own branches"
    """The principal's part of all branches, whichever branch the request names."""
    INSTALLATION = "installation"
    """Everything: tokens for some branches or tags are refused."""


class Body(enum.Enum):
    """The format of a route's request bodies."""

    JSON = "application/json"
    DELIMITED = "application/octet-stream"
    """Bytes of which a part can be valid by itself: they need a length or a digest."""
    FORM = "application/x-www-form-urlencoded"


@attrs.frozen(kw_only=True)
class AccessRequirement:
    """The conditions on which a route accepts a request; the request checks enforce them.

    As a dependency of its route, it also refuses a request that bypassed these checks.

    Attributes:
        right: None if every token suffices, or none is needed.
        is_open: Whether the route needs no token.
        is_recorded: Whether its calls are in the audit log although they are about rows.
        is_own_form: Whether a browser's session may call it, by a form on a page of the console.
    """

    right: Right | None
    is_open: bool = False
    extent: Extent = Extent.BRANCH
    body: Body = Body.JSON
    is_recorded: bool = False
    is_own_form: bool = False

    async def __call__(self, request: Request) -> None:
        """Refuse a request without a principal.

        Raises:
            NotAuthenticated: No principal was set.
        """
        if not self.is_open and not hasattr(request.state, "principal"):
            raise NotAuthenticated


def requires(
    right: Right,
    *,
    extent: Extent = Extent.BRANCH,
    body: Body = Body.JSON,
    is_recorded: bool = False,
) -> Dependency:
    """Declare the right that a route requires, as one of its dependencies."""
    requirement = AccessRequirement(right=right, extent=extent, body=body, is_recorded=is_recorded)
    dependency: Dependency = Depends(requirement)
    return dependency


def requires_own_form(right: Right) -> Dependency:
    """Declare the right of a form of the console, which a person who has signed in may send."""
    requirement = AccessRequirement(right=right, body=Body.FORM, is_own_form=True)
    dependency: Dependency = Depends(requirement)
    return dependency


def open_to_all(*, body: Body = Body.JSON, is_recorded: bool = False) -> Dependency:
    """Declare that a route needs no token: it reveals nothing about anybody's data."""
    requirement = AccessRequirement(right=None, is_open=True, body=body, is_recorded=is_recorded)
    dependency: Dependency = Depends(requirement)
    return dependency


def any_token() -> Dependency:
    """Declare that a route needs a token, with any rights, for any branches."""
    dependency: Dependency = Depends(AccessRequirement(right=None, extent=Extent.OWN_BRANCHES))
    return dependency


def requirement_of(route: BaseRoute | None) -> AccessRequirement | None:
    """Return what a route declares; None if it declares nothing, or is none of ours."""
    if not isinstance(route, APIRoute):
        return None
    declared = (dependency.dependency for dependency in route.dependencies)
    return next((one for one in declared if isinstance(one, AccessRequirement)), None)


def require_requirements(app: FastAPI) -> None:
    """Check that every route declares its requirement.

    Raises:
        TypeError: A route is of a kind that can declare none; the server must not start.
        RuntimeError: A route declares none; the server must not start.
    """
    for route in app.routes:
        if not isinstance(route, APIRoute):
            raise TypeError(f"{route} is not a route type that supports authorization")
        if requirement_of(route) is None:
            verbs = ", ".join(sorted(route.methods))
            raise RuntimeError(
                f"{verbs} {route.path} declares no right; add `requires(…)` to its dependencies"
            )
