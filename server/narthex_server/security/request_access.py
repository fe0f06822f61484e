"""The access of a request to a route of the server."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from narthex_server.security.dataset_access import Access
from narthex_server.security.principals import named_branch
from narthex_server.services.container import services_of


async def access_of(request: Request) -> Access:
    """Return the access of a request that passed the request checks."""
    services = services_of(request)
    access = request.state.access = Access(
        principal=request.state.principal,
        branch=named_branch(request),
        ledger=services.ledger,
        tenant=services.tenant,
        snapshots=services.snapshots,
        shared_sources=services.shared,
    )
    return access


AccessDep: TypeAlias = Annotated[Access, Depends(access_of)]
