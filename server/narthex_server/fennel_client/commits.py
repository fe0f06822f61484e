"""`POST /commit` of Fennel's client: translated to our definitions, then committed as they are.

The client expects the status 200 when the commit is done, and prints the lines of its summary.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool

from narthex._formats.wire import CommitPayload, encode_commit
from narthex.compat.wire import FennelCommit, read_commit
from narthex_ledger import CommitState, CommitView, PromotionState
from narthex_server.commits.commits import ENDED, Terms, commit_payload, terms_of
from narthex_server.deploy.executor import definitions_of
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.fennel_client.matching import FennelRoute
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep, RequestIdentity
from narthex_server.security.route_rights import Body, Right, requires
from narthex_server.services.container import Services, ServicesDep
from narthex_server.web.plain_routes import plain_response

router = APIRouter(route_class=FennelRoute)

WAIT_S: Final = 240.0
"""How long a call waits for its commit; the client gives up after 300 s."""

LOOK_EVERY_S: Final = 0.25
_OUT: Final = frozenset({CommitState.COMMITTED, CommitState.FINALIZED})


@router.post("/commit", dependencies=[requires(Right.WRITE_DEFINITIONS, body=Body.DELIMITED)])
async def commit(
    request: Request,
    terms: Annotated[Terms, Depends(terms_of)],
    services: ServicesDep,
    access: AccessDep,
    caller: IdentityDep,
) -> Response:
    """Commit definitions, and wait until readers read them."""
    return await _commit(
        await request.body(), terms, services=services, access=access, caller=caller
    )


async def _commit(
    body: bytes, terms: Terms, *, services: Services, access: Access, caller: RequestIdentity
) -> Response:
    read = await run_in_threadpool(_read, body, terms, services, access)
    payload = encode_commit(
        CommitPayload(
            message=read.message,
            definitions=read.definitions,
            preview=terms.preview,
            incremental=terms.incremental,
            backfill=terms.backfill,
        )
    )
    answer = await run_in_threadpool(
        commit_payload, payload, terms, services=services, access=access, caller=caller
    )
    lines = [*answer["summary"], *_replaced(read)]
    commit_id = answer.get("commit_id")
    if not isinstance(commit_id, str):  # a preview
        return _summary(lines)
    view = await _wait(services, UUID(commit_id))
    if view.state in ENDED:
        raise Conflicting(f"commit {view.commit_id} is {view.state.value}: {view.error}")
    services.snapshots.notice(view, branch=access.branch)
    return _summary([*lines, _outcome(view)])


def _read(body: bytes, terms: Terms, services: Services, access: Access) -> FennelCommit:
    if not body:
        # An empty body is a valid protobuf message, which would remove everything.
        raise InvalidRequest("the commit is empty")
    deployed = None
    if terms.incremental:
        branch = services.ledger.branches.get(services.tenant, access.branch)
        deployed = definitions_of(services.ledger, branch.head_commit_id)
    return read_commit(body, deployed=deployed)


def _replaced(read: FennelCommit) -> Iterable[str]:
    return (
        f"the secret `{name}` replaces a credential that was sent as text" for name in read.replaced
    )


async def _wait(services: Services, commit_id: UUID) -> CommitView:
    """Return a commit once readers read it or it has ended; after a while, as it is."""
    branches = services.ledger.branches
    ends_at = time.monotonic() + WAIT_S
    while True:
        view = await run_in_threadpool(services.ledger.commits.get, commit_id)
        is_done = view.state in ENDED or (
            view.state in _OUT and view.promotion is not PromotionState.PENDING
        )
        if is_done or time.monotonic() > ends_at:
            return view
        if view.state in _OUT:
            branch = await run_in_threadpool(branches.get_by_id, view.branch_id)
            if branch.is_protected:  # a person decides when readers flip
                return view
        await asyncio.sleep(LOOK_EVERY_S)


def _outcome(view: CommitView) -> str:
    if view.state not in _OUT:
        return f"commit {view.commit_id} is {view.state.value}; it goes on by itself"
    if view.promotion is PromotionState.PENDING:
        return f"commit {view.commit_id} is done; readers still read the one before"
    return f"commit {view.commit_id} is done"


def _summary(lines: Iterable[str]) -> Response:
    return plain_response({"summary": [f"{line}\n" for line in lines]})
