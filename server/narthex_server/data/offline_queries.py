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
from typing import Annotated, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints
from typing_extensions import TypedDict

from narthex._base import Json, atomic_write, from_plain, to_plain
from narthex._formats import render_cell, render_cells
from narthex._formats.arrow import cells_of
from narthex._ir import DataType, Definitions
from narthex._query import CodeStep, LookupStep, ReadPlan, report_of, spine_problems
from narthex.settings import OFFLINE_SPINE, Settings
from narthex_ledger import (
    NotFound,
    OfflineState,
    OfflineView,
    OutcomeUnknown,
    TooManyOfflineQueries,
)
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import LedgerDep, Services, ServicesDep, SettingsDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import Id, Instant, PlainRoute
from narthex_stores import history_path

DTYPE: Final = r"^[ -~]{0,64}$"
MOST_LISTED: Final = 100

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DATA)])


class OfflineCall(BaseModel):
    """A spine by column, and the features to compute for it.

    `offsets` names a column that has, for each row, the log offsets to answer at, in the form of
    an online answer with `explain`. `at` has those of the rows without their own, by dataset, log
    and partition, as the status of a query that is done returns them: the same query at the same
    offsets has the same answers. Without them, rows are answered at the offsets that the histories
    contain when the query begins. `dtypes` has names of the dtypes of the columns in the caller's
    program; they are stored, and returned with the spine.
    """

    model_config = ConfigDict(extra="ignore")

    inputs: list[str]
    outputs: list[str]
    timestamp_column: str
    data: dict[str, list[object]]
    offsets: str | None = None
    at: dict[str, dict[str, dict[str, int]]] | None = None
    dtypes: dict[str, Annotated[str, StringConstraints(pattern=DTYPE)]] = Field(
        default_factory=dict
    )


class QueuedQuery(TypedDict):
    """The state of an offline query."""

    request_id: Id
    status: str


class QueryStatus(QueuedQuery):
    """The state of an offline query in full; its answers are kept for a week after its end.

    Attributes:
        rows: The number of rows of its spine.
        share: The share of the query that is done, from 0 to 1, as its run measures it: of the
            steps that compute all rows at once, or, if rows are computed in groups, of the rows.
        types: The types of its inputs and outputs, by full name.
        offsets: Once the query is done, the log offsets at which rows without offsets of their own
            were answered: the `at` of a query that is asked again.
    """

    inputs: list[str]
    outputs: list[str]
    rows: int
    share: float
    progress: JsonValue
    types: JsonValue
    offsets: JsonValue
    error: JsonValue
    submitted_at: Instant
    finished_at: Instant | None


class QueryStatuses(TypedDict):
    """Offline queries, the newest first."""

    queries: list[QueryStatus]


class QuerySpine(TypedDict):
    """The spine of an offline query, as it was sent."""

    columns: dict[str, list[JsonValue]]
    timestamp_column: str
    dtypes: dict[str, str]


@router.post("/query_offline", responses=raises(TooManyOfflineQueries))
def query_offline(call: OfflineCall, services: ServicesDep, access: AccessDep) -> QueuedQuery:
    """Queue an offline query, and return its id."""
    return queue(call, services, access)


def queue(
    call: OfflineCall,
    services: Services,
    access: Access,
    *,
    for_set: Json = None,
) -> QueuedQuery:
    """Queue an offline query, and return its id.

    Args:
        call: The query.
        services: The services of the server.
        access: The access of the request.
        for_set: The training set that the answers are for.

    Raises:
        DefinitionErrors: A feature is unknown, or is not extracted.
        InvalidRequest: The spine cannot be answered for; the message has all problems.
        TooManyOfflineQueries: As many queries of the token wait or run as may.
    """
    snapshot = services.snapshots.serving(access.branch)
    access.require_features(snapshot, [*call.inputs, *call.outputs])
    query = snapshot.query(call.inputs, call.outputs)
    plan = query.plan
    spine = _spine(call, plan)
    request_id = uuid.uuid4()  # noqa: TID251 - the edge gives the id
    directory = services.settings.offline_directory(str(request_id))
    wish: dict[str, Json] = {
        "branch": access.branch,
        "definitions": to_plain(snapshot.definitions),
        "inputs": list(call.inputs),
        "outputs": list(call.outputs),
        "rows": len(call.data[call.timestamp_column]),
        "types": {name: to_plain(plan.types[name]) for name in (*plan.inputs, *plan.outputs)},
        "dtypes": {name: of for name, of in call.dtypes.items() if name in call.data},
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
        "commit_id": str(snapshot.commit_id),
        "defaults": {
            name: render_cell(cell, plan.types[name]) for name, cell in plan.unseen_values().items()
        },
        "training_set": for_set,
    }
    with _deleted_unless_queued(directory):
        atomic_write(directory / OFFLINE_SPINE, spine, mode=0o644)
        services.ledger.offline_queries.submit(
            request_id,
            actor=access.principal.token,
            manifest_id=snapshot.manifest_id,
            request=wish,
            most_of_actor=services.settings.offline_queries_per_token,
        )
    services.meters.reads.note(access.branch, query.reads)
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


def _spine(call: OfflineCall, plan: ReadPlan) -> bytes:
    """Render the spine as a Parquet file.

    Raises:
        InvalidRequest: The spine cannot be answered for; the message has all problems.
    """
    problems = spine_problems(
        call.data, call.inputs, timestamp_column=call.timestamp_column, types=plan.types
    )
    if call.offsets and call.offsets not in call.data:
        problems.append(f"there is no column `{call.offsets}`, which should have the offsets")
    if any("\0" in column for column in call.data):
        problems.append("a column's name has the character NUL")
    if problems:
        raise InvalidRequest(report_of(problems))
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


@router.get("/offline_queries")
def newest(
    access: AccessDep,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 20,
    before: UUID | None = None,
) -> QueryStatuses:
    """List the branch's offline queries, the newest first, optionally those before another one.

    The list can be shorter than `limit`, because it has only queries that the caller may see.
    """
    if before is not None:
        query_of(before, access)
    found = access.ledger.offline_queries.newest(access.branch, limit=limit, before=before)
    return {"queries": [_status(view) for view in found if is_visible(access, view)]}


@router.get("/query_offline/status")
def status(request_id: UUID, access: AccessDep) -> QueryStatus:
    """Return the state of an offline query."""
    return _status(query_of(request_id, access))


def _status(view: OfflineView) -> QueryStatus:
    wanted = request_of(view)
    return {
        "request_id": str(view.request_id),
        "status": view.state.value,
        "inputs": texts_of(wanted.get("inputs")),
        "outputs": texts_of(wanted.get("outputs")),
        "rows": rows if isinstance(rows := wanted.get("rows"), int) else 0,
        "share": _share(view),
        "progress": view.progress,
        "types": wanted.get("types"),
        "error": view.error,
        "offsets": view.result.get("offsets") if isinstance(view.result, dict) else None,
        "submitted_at": view.submitted_at.isoformat(),
        "finished_at": view.finished_at.isoformat() if view.finished_at else None,
    }


def _share(view: OfflineView) -> float:
    if view.state is OfflineState.DONE:
        return 1.0
    share = view.progress.get("share") if isinstance(view.progress, dict) else None
    return float(share) if isinstance(share, int | float) else 0.0


@router.get("/query_offline/spine", responses=raises(Conflicting))
def spine(request_id: UUID, settings: SettingsDep, access: AccessDep) -> QuerySpine:
    """Return the spine of an offline query."""
    view = query_of(request_id, access)
    wanted, file = request_of(view), settings.offline_directory(str(request_id)) / OFFLINE_SPINE
    dtypes = wanted.get("dtypes")
    with kept_files():
        return {
            "columns": pq.read_table(file).to_pydict(),
            "timestamp_column": str(wanted.get("timestamp_column")),
            "dtypes": {c: str(d) for c, d in dtypes.items()} if isinstance(dtypes, dict) else {},
        }


@router.get("/query_offline/answers", responses=raises(Conflicting))
def answers(
    request_id: UUID, settings: SettingsDep, access: AccessDep
) -> dict[str, list[JsonValue]]:
    """Return the answers of a finished offline query as columns, in the spine's order."""
    view = query_of(request_id, access)
    if view.state is not OfflineState.DONE:
        raise Conflicting(f"it is {view.state.value}")
    with kept_files():
        return rendered(pq.read_table(answers_file(settings, view)), types_of(view))


@contextlib.contextmanager
def kept_files() -> Iterator[None]:
    """Refuse what needs files of a query that were deleted.

    Raises:
        Conflicting: They were.
    """
    try:
        yield
    except FileNotFoundError:
        raise Conflicting("its answers were deleted a week after its end; ask again") from None


def rendered(table: pa.Table, types: Mapping[str, DataType]) -> dict[str, list[JsonValue]]:
    """Return a table as columns of JSON; columns of known types as answers of queries have them."""
    return {
        name: render_cells(cells_of(column, types[name]), types[name])
        if name in types
        else column.to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


@router.post("/query_offline/cancel")
def cancel(request_id: UUID, ledger: LedgerDep, access: AccessDep) -> QueuedQuery:
    """Cancel an offline query that has not ended."""
    query_of(request_id, access)
    state = ledger.offline_queries.cancel(request_id)
    return {"request_id": str(request_id), "status": state.value}


def answers_file(settings: Settings, view: OfflineView) -> Path:
    """Return the file of a query's answers."""
    return settings.offline_answers(str(view.request_id), view.epoch)


def query_of(request_id: UUID, access: Access) -> OfflineView:
    """Return an offline query, if the principal may name its branch and see its features.

    Raises:
        NotFound: No query has this id, or it belongs to another branch.
    """
    view = access.ledger.offline_queries.get(request_id)
    if not is_visible(access, view):
        raise NotFound(f"there is no offline query {request_id}")
    return view


def is_visible(access: Access, view: OfflineView) -> bool:
    """Return whether the principal may name a query's branch and see its features."""
    if not access.principal.is_narrow:
        return True
    wanted = request_of(view)
    definitions = from_plain(wanted.get("definitions"))
    if not isinstance(definitions, Definitions):
        return False
    seen = access.visibility(definitions)
    is_named = access.principal.may_name(str(wanted.get("branch", "")))
    names = (*texts_of(wanted.get("inputs")), *texts_of(wanted.get("outputs")))
    return is_named and all(map(seen.of_output, names))


def request_of(view: OfflineView) -> dict[str, Json]:
    """Return the request of a query, as it was stored."""
    return view.request if isinstance(view.request, dict) else {}


def types_of(view: OfflineView) -> dict[str, DataType]:
    """Return the types of the inputs and outputs of a query, by full name."""
    return stored_types(request_of(view).get("types"))


def stored_types(types: Json) -> dict[str, DataType]:
    """Return types that a request stored, by name."""
    found = {n: from_plain(of) for n, of in types.items()} if isinstance(types, dict) else {}
    return {name: of for name, of in found.items() if isinstance(of, DataType)}


def texts_of(items: Json) -> list[str]:
    """Return a list of texts of a stored request; empty for anything else."""
    return [str(item) for item in items] if isinstance(items, list) else []
