"""Routes of the runs of Airflow's DAG `commit`: the commit that a run makes for a person."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from narthex_ledger import CommitView, NotFound
from narthex_server.commits.commits import PAYLOAD, Terms, commit_payload, plain_commit, terms_of
from narthex_server.commits.responses import AcceptedCommit, Commit, CommitPreview
from narthex_server.deploy.airflow_approvals import has_asked_to_commit
from narthex_server.deploy.airflow_client import RUN_KEY, key_of_run
from narthex_server.errors import Conflicting, Missing
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import KEY_BYTES, IdentityDep, RequestIdentity
from narthex_server.security.route_rights import Body, Right, requires
from narthex_server.services.container import Services, ServicesDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

RunId = Annotated[str, Path(min_length=1, max_length=KEY_BYTES.stop - 1 - len(RUN_KEY))]


@router.post(
    "/runs/{run_id}/commit",
    dependencies=[requires(Right.SPEAK_FOR, body=Body.DELIMITED)],
    responses={200: {"model": CommitPreview}, 202: {"model": AcceptedCommit}},
    openapi_extra=PAYLOAD,
)
async def commit_for_run(
    run_id: RunId,
    request: Request,
    terms: Annotated[Terms, Depends(terms_of)],
    services: ServicesDep,
    access: AccessDep,
    caller: IdentityDep,
) -> JSONResponse:
    """Commit for the person who has triggered a run in Airflow; the run drives the commit.

    A run makes one commit, however often it asks. The server asks Airflow who has triggered the
    run, and for which branch. `X-Narthex-Actor` names the person.
    """
    own = RequestIdentity(actor=caller.actor, sent_key=key_of_run(run_id))
    body = await request.body()
    answer = await run_in_threadpool(
        _commit, run_id, body, terms, services=services, access=access, caller=own
    )
    return JSONResponse(answer, status_code=200 if terms.preview else 202)


def _commit(
    run_id: str,
    body: bytes,
    terms: Terms,
    *,
    services: Services,
    access: Access,
    caller: RequestIdentity,
) -> CommitPreview | AcceptedCommit:
    if not has_asked_to_commit(
        services.airflow, run_id, who=caller.actor, branch=access.branch, preview=terms.preview
    ):
        raise Conflicting(
            f"Airflow has no run `{run_id}` of the DAG `commit` that `{caller.actor}` has "
            f"triggered for branch `{access.branch}`; trigger the DAG with its form"
        )
    return commit_payload(body, terms, services=services, access=access, caller=caller)


@router.get("/runs/{run_id}/commit", dependencies=[requires(Right.READ_DEFINITIONS)])
def commit_of_run(run_id: RunId, services: ServicesDep, access: AccessDep) -> Commit:
    """Return the commit that a run of the DAG `commit` has made, or carries out."""
    view = _find(services, run_id)
    branch = "" if view is None else services.ledger.branches.get_by_id(view.branch_id).name
    if view is None or not access.principal.may_name(branch):
        raise Missing(f"run `{run_id}` has made no commit")
    return plain_commit(services, view, branch=branch)


def _find(services: Services, run_id: str) -> CommitView | None:
    try:
        return services.ledger.commits.get_by_key(services.tenant, key_of_run(run_id))
    except NotFound:
        pass
    try:
        # The platform starts the run of a commit with the commit's id.
        return services.ledger.commits.get(UUID(run_id))
    except (NotFound, ValueError):
        return None
