"""Offline queries: many keys, each as of its own instant; a Spark batch answers them.

The request is a row of the ledger, and a supervisor's driver runs it, so a lost server loses no
query.
"""

import contextlib
import io
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, JsonValue
from typing_extensions import TypedDict

from narthex._base import Json, atomic_write, from_plain, to_plain
from narthex._ir import Definitions
from narthex._query import CodeStep, LookupStep, ReadPlan
from narthex.settings import OFFLINE_SPINE, Settings
from narthex_ledger import NotFound, OfflineView, OutcomeUnknown
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.security.dataset_access import Access, AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import LedgerDep, ServicesDep, SettingsDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import Id, PlainRoute
from narthex_stores import history_path

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DATA)])


class OfflineCall(BaseModel):
    """A spine by column, and the features to compute for it.

    `offsets` names a column that has, for each row, the log offsets to answer at, in the form of
    an online answer with `explain`. `at` has those of the rows without their own, by dataset, log
    and partition, as the status of a query that is done returns them: the same query at the same
    offsets has the same answers. Without them, rows are answered at the offsets that the histories
    contain when the query begins.
    """

    model_config = ConfigDict(extra="ignore")

    inputs: list[str]
    outputs: list[str]
    timestamp_column: str
    data: dict[str, list[object]]
    offsets: str | None = None
    at: dict[str, dict[str, dict[str, int]]] | None = None


class QueuedQuery(TypedDict):
    """The state of an offline query."""

    request_id: Id
    status: str


class QueryStatus(QueuedQuery):
    """The state of an offline query in full.

    Attributes:
        offsets: Once the query is done, the log offsets at which rows without offsets of their own
            were answered: the `at` of a query that is asked again.
        output: The path of the file with the answers, once the query is done. It is kept for a week
            after the end.
    """

    progress: JsonValue
    offsets: JsonValue
    error: JsonValue
    output: str


@router.post("/query_offline")
def query_offline(call: OfflineCall, services: ServicesDep, access: AccessDep) -> QueuedQuery:
    """Queue an offline query, and return its id."""
    snapshot = services.snapshots.serving(access.branch)
    access.require_features(snapshot, [*call.inputs, *call.outputs])
    plan = snapshot.query(call.inputs, call.outputs).plan
    spine = _spine(call)
    request_id = uuid.uuid4()  # noqa: TID251 - the edge gives the id
    directory = services.settings.offline_directory(str(request_id))
    wish: dict[str, Json] = {
        "branch": access.branch,
        "definitions": to_plain(snapshot.definitions),
        "inputs": list(call.inputs),
        "outputs": list(call.outputs),
        "timestamp_column": call.timestamp_column,
        "offsets_column": call.offsets,
        "at": _plain(call.at or {}),
        "datasets": {
            name: {
                "plan": to_plain(snapshot.plans[name]),
                "history": _history(services.settings, snapshot, name),
                "log": snapshot.topic(f"dataset/{name}/log"),
            }
            for name in looked_up(plan)
        },
    }
    with _deleted_unless_queued(directory):
        atomic_write(directory / OFFLINE_SPINE, spine, mode=0o644)
        services.ledger.offline_queries.submit(
            request_id, actor="token", manifest_id=snapshot.manifest_id, request=wish
        )
    return {"request_id": str(request_id), "status": "queued"}


def _plain(offsets: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Json:
    return {
        dataset: {log: dict(partitions) for log, partitions in logs.items()}
        for dataset, logs in offsets.items()
    }


@contextlib.contextmanager
def _deleted_unless_queued(directory: Path) -> Iterator[None]:
    """Create a directory; remove it unless a query was queued, or may have been."""
    directory.mkdir(parents=True)
    try:
        yield
    except OutcomeUnknown:
        raise
    except BaseException:
        shutil.rmtree(directory)
        raise


def _spine(call: OfflineCall) -> bytes:
    """Render the spine as a Parquet file.

    Raises:
        InvalidRequest: the spine is not a table, or lacks a column.
    """
    named = (*call.inputs, call.timestamp_column, *([call.offsets] if call.offsets else []))
    missing = [column for column in named if column not in call.data]
    if missing:
        raise InvalidRequest(f"the spine has no column `{missing[0]}`")
    if any("\0" in column for column in call.data):
        raise InvalidRequest("a column's name has the character NUL")
    target = io.BytesIO()
    try:
        pq.write_table(pa.table(dict(call.data)), target)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise InvalidRequest(f"the spine is not a table: {error}") from None
    return target.getvalue()


def _history(settings: Settings, snapshot: BranchSnapshot, name: str) -> str:
    asset = snapshot.bindings[f"dataset/{name}/history"]
    return history_path(settings.history_dir, asset.physical_name)


def looked_up(plan: ReadPlan) -> tuple[str, ...]:
    """Return the datasets that a plan looks rows up in, by itself or in authors' code."""
    names: dict[str, None] = {}
    for step in plan.steps:
        match step:
            case LookupStep():
                names[step.dataset.name] = None
            case CodeStep():
                names |= dict.fromkeys(step.extractor.datasets)
            case _:
                pass
    return tuple(names)


@router.get("/query_offline/status")
def status(request_id: UUID, settings: SettingsDep, access: AccessDep) -> QueryStatus:
    """Return the state of an offline query and, once it is done, where its answers are."""
    view = _query_of(request_id, access)
    return {
        "request_id": str(request_id),
        "status": view.state.value,
        "progress": view.progress,
        "error": view.error,
        "offsets": view.result.get("offsets") if isinstance(view.result, dict) else None,
        "output": str(_answers(settings, view)),
    }


@router.get("/query_offline/answers", responses=raises(Conflicting))
def answers(
    request_id: UUID, settings: SettingsDep, access: AccessDep
) -> dict[str, list[JsonValue]]:
    """Return the answers of a finished offline query as columns, in the spine's order."""
    view = _query_of(request_id, access)
    if view.state.value != "done":
        raise Conflicting(f"it is {view.state.value}")
    try:
        return pq.read_table(_answers(settings, view)).to_pydict()
    except FileNotFoundError:
        raise Conflicting("its answers were deleted a week after its end; ask again") from None


@router.post("/query_offline/cancel")
def cancel(request_id: UUID, ledger: LedgerDep, access: AccessDep) -> QueuedQuery:
    """Cancel an offline query that has not ended."""
    _query_of(request_id, access)
    state = ledger.offline_queries.cancel(request_id)
    return {"request_id": str(request_id), "status": state.value}


def _answers(settings: Settings, view: OfflineView) -> Path:
    return settings.offline_answers(str(view.request_id), view.epoch)


def _query_of(request_id: UUID, access: Access) -> OfflineView:
    """Return an offline query, if the principal may name its branch and see its outputs.

    Raises:
        NotFound: No query has this id, or it belongs to another branch.
    """
    view = access.ledger.offline_queries.get(request_id)
    wanted = view.request if isinstance(view.request, dict) else {}
    if access.principal.is_narrow and not _is_theirs(access, wanted):
        raise NotFound(f"there is no offline query {request_id}")
    return view


def _is_theirs(access: Access, wanted: dict[str, Json]) -> bool:
    """Return whether the principal may name a query's branch and see its outputs."""
    definitions, outputs = from_plain(wanted.get("definitions")), wanted.get("outputs")
    if not isinstance(definitions, Definitions) or not isinstance(outputs, list):
        return False
    seen = access.visibility(definitions)
    is_named = access.principal.may_name(str(wanted.get("branch", "")))
    return is_named and all(seen.of_output(str(name)) for name in outputs)
