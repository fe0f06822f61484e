"""Principals: the authenticated callers of requests, and what they may name."""

import fnmatch
from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import attrs
from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from narthex_server.security.route_rights import ROLES, Right


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

    @property
    def token(self) -> str:
        """The name of its token, which its other requests share."""
        return f"{self.name}/{self.token_id}"

    def may_name(self, branch: str) -> bool:
        """Return whether the principal may name a branch."""
        return _fits(branch, self.branches)

    def may_see(self, tags: Iterable[str]) -> bool:
        """Return whether the principal may see all of these tags."""
        return all(_fits(tag, self.tags) for tag in tags)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


PLATFORM: Final = Principal(name="platform", token_id="", rights=frozenset(Right), branches=("*",))
"""The installation's own processes, and every other holder of their token."""

DAGS: Final = Principal(name="airflow", token_id="", rights=ROLES["dags"], branches=("*",))
"""Airflow's processes: they advance commits, and report who asked or answered in Airflow."""


async def principal_of(request: Request) -> Principal:
    """Return the principal of a request that passed the request checks."""
    principal: Principal = request.state.principal
    return principal


async def branch_of(request: Request) -> str:
    """Return the branch of a request, as a dependency."""
    return named_branch(request)


MAIN: Final = "main"
"""The branch of a request that names none."""


def named_branch(request: HTTPConnection) -> str:
    """Return the branch of a request: from its header, else from its query, else `main`.

    The query parameter `branch` lets a link name a branch.
    """
    headers = request.headers
    named = headers.get("x-narthex-branch") or headers.get("x-fennel-branch")
    return named or request.query_params.get("branch") or MAIN


PrincipalDep: TypeAlias = Annotated[Principal, Depends(principal_of)]
BranchDep: TypeAlias = Annotated[str, Depends(branch_of)]
