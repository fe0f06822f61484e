"""Commits: accepted here, carried out step by step by whoever asks, and shown."""

import hashlib
import uuid
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from narthex.records import Json
from narthex_ledger import (
    Accepted,
    AssetView,
    BackfillPolicy,
    CommitRequest,
    CommitState,
    CommitView,
)
from narthex_server.auth import branch_of
from narthex_server.definitions import Proposal, propose
from narthex_server.deploy.executor import Impossible, NotYet, definitions_of
from narthex_server.deploy.summary import render_summary
from narthex_server.routes import PlainRoute
from narthex_server.services import Services

router = APIRouter(route_class=PlainRoute)

_T = TypeVar("_T")

KEY_BYTES = range(8, 201)
"""What the ledger keeps as an idempotency key."""

ENDED = frozenset({CommitState.ABORTED, CommitState.REJECTED, CommitState.ABORTING})


@router.post("/commit")
async def commit(
    request: Request,
    *,
    preview: bool = False,
    incremental: bool = False,
    backfill: bool = True,
) -> JSONResponse:
    """Validate a commit's payload; then plan it (preview), or accept it and let it be driven."""
    body = await request.body()
    return await run_in_threadpool(
        _commit, request, body, preview=preview, incremental=incremental, backfill=backfill
    )


def _commit(
    request: Request, body: bytes, *, preview: bool, incremental: bool, backfill: bool
) -> JSONResponse:
    services: Services = request.app.state.services
    branch = services.ledger.branch(services.tenant, branch_of(request))
    deployed = definitions_of(services.ledger, branch.head_commit_id)
    proposal = propose(body, deployed=deployed, incremental=incremental)
    commit_id = _commit_id(_entropy(request, proposal))
    wish = CommitRequest(
        commit_id=commit_id,
        tenant=branch.tenant_id,
        branch=branch.branch_id,
        idempotency_key=_key(request) or str(commit_id),
        request_sha256=hashlib.sha256(body).digest(),
        actor=request.headers.get("x-narthex-actor", "token"),
        message=proposal.payload.message,
        bundle=proposal.bundle,
        backfill=BackfillPolicy.ALLOWED if backfill else BackfillPolicy.REFUSED,
    )
    if preview:
        plan = services.ledger.preview(
            wish, blueprint=proposal.blueprint, name_of=services.executor.name_of
        )
        summary = render_summary(plan, proposal.changes, proposal.blueprint)
        return JSONResponse({"plan": plan.plain(), "summary": summary})
    outcome = services.ledger.accept(wish)
    if isinstance(outcome, Accepted):
        services.recovery.notice(outcome.commit_id)
    return JSONResponse(
        {
            "commit_id": str(outcome.commit_id),
            "state": services.ledger.commit(outcome.commit_id).state.value,
            "summary": render_summary(None, proposal.changes),
            "airflow_run_url": services.airflow.run_url(str(outcome.commit_id)),
        },
        status_code=202,
    )


def _key(request: Request) -> str:
    key = request.headers.get("idempotency-key", "")
    if key and len(key.encode()) not in KEY_BYTES:
        wanted = f"{KEY_BYTES.start} to {KEY_BYTES.stop - 1} bytes"
        raise HTTPException(
            status_code=400, detail={"err_msg": f"the idempotency key must have {wanted}"}
        )
    return key


def _commit_id(entropy: bytes) -> UUID:
    """Derive an id of version 8, which older Pythons cannot name but can hold."""
    digest = bytearray(hashlib.sha256(entropy).digest()[:16])
    digest[6] = 0x80 | digest[6] & 0x0F
    digest[8] = 0x80 | digest[8] & 0x3F
    return UUID(bytes=bytes(digest))


def _entropy(request: Request, proposal: Proposal) -> bytes:
    key = _key(request)
    seed = key.encode() if key else uuid.uuid4().bytes  # noqa: TID251 - the edge gives the id
    return hashlib.sha256(proposal.bundle).digest() + seed


@router.get("/commits")
def commits(request: Request, limit: int = 50) -> dict[str, Json]:
    """List the newest commits of the branch."""
    services: Services = request.app.state.services
    found = services.ledger.commits(limit=limit)
    return {"commits": [_plain(services, view) for view in found]}


@router.get("/commits/{commit_id}")
def commit_of(commit_id: UUID, request: Request) -> dict[str, Json]:
    """Show one commit whole: its ledger and what happened."""
    services: Services = request.app.state.services
    view = services.ledger.commit(commit_id)
    shown = _plain(services, view)
    shown["plan"] = view.plan
    shown["assets"] = [_asset(asset) for asset in view.assets]
    shown["events"] = [
        {
            "at": event.at.isoformat(),
            "transition": event.transition,
            "asset_id": event.asset_id,
            "actor": event.actor,
            "fence": event.fence,
        }
        for event in services.ledger.events(commit_id)
    ]
    return shown


def _plain(services: Services, view: CommitView) -> dict[str, Json]:
    return {
        "commit_id": str(view.commit_id),
        "kind": view.kind,
        "state": view.state.value,
        "promotion": view.promotion.value if view.promotion else None,
        "message": view.message,
        "actor": view.actor,
        "seq": view.seq,
        "error": view.error,
        "accepted_at": view.accepted_at.isoformat(),
        "committed_at": view.committed_at.isoformat() if view.committed_at else None,
        "finished_at": view.finished_at.isoformat() if view.finished_at else None,
        "airflow_run_url": services.airflow.run_url(str(view.commit_id)),
    }


def _asset(asset: AssetView) -> dict[str, Json]:
    return {
        "asset_id": asset.asset_id,
        "label": asset.label,
        "kind": asset.kind.value,
        "state": asset.state.value,
        "physical_name": asset.physical_name,
        "create_status": asset.create_status.value,
        "attempt": asset.attempt,
        "last_error": asset.last_error,
        "refs": asset.refs,
    }


@router.post("/commits/{commit_id}/cancel")
def cancel(commit_id: UUID, request: Request) -> dict[str, Json]:
    """Ask that a commit not happen; either this or its commit point wins."""
    services: Services = request.app.state.services
    state = services.ledger.cancel(commit_id, actor="token")
    services.recovery.notice(commit_id)
    return {"state": state.value}


@router.get("/commits/{commit_id}/readiness")
def readiness(commit_id: UUID, request: Request) -> dict[str, Json]:
    """Tell which jobs of a commit have not caught up, or that it has ended otherwise."""
    services: Services = request.app.state.services
    view = services.ledger.commit(commit_id)
    if view.state in ENDED:
        return {"ready": False, "ended": view.state.value, "waiting_for": []}
    if view.state not in {CommitState.COMMITTED, CommitState.FINALIZED}:
        return {"ready": False, "waiting_for": [{"job": "commit point", "phase": view.state.value}]}
    found = services.executor.readiness(commit_id)
    return {
        "ready": found.ready,
        "waiting_for": [
            {
                "job": w.label,
                "phase": w.phase.value,
                "lag_ms": w.lag_ms,
                "why": w.why,
                "error": w.error,
            }
            for w in found.waiting_for
        ],
    }


@router.post("/commits/{commit_id}/steps/plan")
def step_plan(commit_id: UUID, request: Request) -> dict[str, Json]:
    """T1; gives the assets that are not live yet, in the order in which they can be."""
    services: Services = request.app.state.services
    services.recovery.driven(commit_id)
    view = services.executor.plan(commit_id)
    _refuse_ended(view)
    due = [a for a in view.assets if a.state.value != "live"]
    return {"assets": [{"asset_id": str(a.asset_id), "label": a.label} for a in due]}


def _refuse_ended(view: CommitView) -> None:
    if view.state in ENDED:
        raise HTTPException(
            status_code=410,
            detail={"err_msg": f"commit {view.commit_id} is {view.state.value}: {view.error}"},
        )


@router.post("/commits/{commit_id}/steps/create/{asset_id}")
def step_create(commit_id: UUID, asset_id: int, request: Request) -> dict[str, Json]:
    """Create one asset."""
    services: Services = request.app.state.services
    services.recovery.driven(commit_id)
    return {"state": _taken(lambda: services.executor.create(commit_id, asset_id))}


@router.post("/commits/{commit_id}/steps/{step}")
def step(commit_id: UUID, step: str, request: Request) -> dict[str, Json]:
    """Take one of the other steps; 409 means: not yet, ask again."""
    services: Services = request.app.state.services
    services.recovery.driven(commit_id)
    executor = services.executor
    if step != "rollback":
        view = services.ledger.commit(commit_id)
        _refuse_ended(view)
        if view.state is CommitState.FINALIZED:
            return {"jobs": []}
    if step == "backfill":
        return {"jobs": list(_taken(lambda: executor.due_backfills(commit_id)))}
    if step == "rollback":
        return {"state": _taken(lambda: services.recovery.roll_back(commit_id))}
    _taken(lambda: _take(services, commit_id, step))
    return {}


def _take(services: Services, commit_id: UUID, step: str) -> None:
    executor = services.executor
    match step:
        case "ready":
            executor.ready(commit_id)
        case "commit":
            executor.commit(commit_id)
        case "backfilled":
            executor.backfilled(commit_id)
        case "promote":
            executor.promote(commit_id)
            services.snapshots.forget()
        case _:
            raise HTTPException(status_code=404, detail={"err_msg": f"no step `{step}`"})


def _taken(take: Callable[[], _T]) -> _T:
    try:
        return take()
    except NotYet as error:
        raise HTTPException(status_code=409, detail={"err_msg": str(error)}) from None
    except Impossible as error:
        raise HTTPException(status_code=410, detail={"err_msg": str(error)}) from None
