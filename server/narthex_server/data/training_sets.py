"""Training sets: the rows and the answers of an offline query, kept under a name.

A set never changes: a request for the same set returns it, another request with its name is
refused. To a caller who does not see a set, its name is free; of several sets with one name, a
caller works with the oldest one that it sees. The rows of a set are a file beside those of offline
queries. The ledger has its hash, and the commit, the log offsets and the statistics of its
features.
"""

import hashlib
import io
import shutil
import uuid
from collections.abc import Mapping
from typing import Annotated, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints
from typing_extensions import TypedDict

from narthex._base import Json, atomic_write
from narthex._formats import coercion, parse_cell
from narthex._formats.arrow import array_of
from narthex._ir import DataType, Datetime
from narthex._training import SET_NAME, content_sha256, statistics_of
from narthex.settings import OFFLINE_SPINE, Settings
from narthex_ledger import (
    NotFound,
    OfflineState,
    OfflineView,
    TooManyOfflineQueries,
    TrainingSetView,
)
from narthex_server.data.offline_queries import (
    MOST_LISTED,
    OfflineCall,
    answers_file,
    is_visible,
    kept_files,
    query_of,
    queue,
    rendered,
    request_of,
    stored_types,
    texts_of,
    types_of,
)
from narthex_server.errors import Conflicting, InvalidRequest
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import ServicesDep, SettingsDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import Id, Instant, PlainRoute

SetName: TypeAlias = Annotated[str, Path(pattern=f"^{SET_NAME}$")]

READS = [requires(Right.READ_DATA)]
router = APIRouter(route_class=PlainRoute)


class TrainingSetCall(OfflineCall):
    """The name of a training set, and the offline query whose answers it keeps."""

    name: Annotated[str, StringConstraints(pattern=f"^{SET_NAME}$")]


class StoreCall(BaseModel):
    """The offline query whose answers are stored as a training set."""

    model_config = ConfigDict(extra="ignore")

    request_id: UUID


class TrainingSetEntry(TypedDict):
    """A training set in a list.

    Attributes:
        commit_id: The commit whose features it has.
        request_id: The offline query that answered it.
        features: The features, by their full names.
        data_sha256: The hash of the file of its rows.
    """

    name: str
    rows: int
    features: list[str]
    commit_id: Id
    request_id: Id
    data_sha256: str
    created_at: Instant


class TrainingSetEntries(TypedDict):
    """Training sets, the newest first."""

    training_sets: list[TrainingSetEntry]


class TrainingSetDetails(TrainingSetEntry):
    """A training set in full.

    Attributes:
        inputs: The given features.
        columns: All columns in their order: those of the spine, then the features.
        types: The types of inputs and features, by full name.
        dtypes: The dtypes of the columns of the spine in the program that sent it.
        offsets: The log offsets at which rows without offsets of their own were answered.
        statistics: The statistics of each feature.
    """

    inputs: list[str]
    timestamp_column: str
    columns: list[str]
    types: JsonValue
    dtypes: JsonValue
    offsets: JsonValue
    statistics: JsonValue


class TrainingSetRequest(TypedDict):
    """A request for a training set.

    Attributes:
        status: `stored`, or `queued` if its offline query has to be waited for and then stored.
        request_id: Its offline query.
    """

    name: str
    status: str
    request_id: Id


class DeletedTrainingSet(TypedDict):
    """The name of a training set that was deleted."""

    name: str


@router.post(
    "/training_sets", responses=raises(Conflicting, TooManyOfflineQueries), dependencies=READS
)
def ask(call: TrainingSetCall, services: ServicesDep, access: AccessDep) -> TrainingSetRequest:
    """Queue the offline query of a training set, unless the set is stored, or was asked for."""
    content = content_sha256(
        call.data,
        inputs=call.inputs,
        features=call.outputs,
        timestamp_column=call.timestamp_column,
        at=call.at,
    )
    stored = _seen(call.name, access)
    if stored is not None:
        _require_same(stored, content)
        return {"name": call.name, "status": "stored", "request_id": str(stored.request_id)}
    wanted: Json = {"name": call.name, "content_sha256": content.hex()}
    asked = services.ledger.offline_queries.for_set(access.branch, wanted)
    if asked is not None and _is_answered_for(services.settings, access, asked):
        return {"name": call.name, "status": "queued", "request_id": str(asked)}
    if call.offsets is not None:
        raise InvalidRequest("a training set has no rows with offsets of their own; use `at`")
    queued = queue(call, services, access, for_set=wanted)
    return {"name": call.name, "status": "queued", "request_id": queued["request_id"]}


@router.post("/training_sets/{name}", responses=raises(Conflicting), dependencies=READS)
def store(
    name: SetName, call: StoreCall, services: ServicesDep, access: AccessDep
) -> TrainingSetDetails:
    """Store the answers of the offline query of a training set, once it is done."""
    view = query_of(call.request_id, access)
    wanted = request_of(view)
    match wanted.get("training_set"):
        case {"name": str(named), "content_sha256": str(content)} if named == name:
            pass
        case _:
            raise Conflicting(f"offline query {call.request_id} is not for training set `{name}`")
    if wanted.get("branch") != access.branch:
        raise Conflicting(f"offline query {call.request_id} is of another branch")
    if view.state is not OfflineState.DONE:
        raise Conflicting(f"its offline query is {view.state.value}")
    stored = _seen(name, access)
    if stored is None:
        stored = _stored(services.settings, access, view, name=name, content=content)
    _require_same(stored, bytes.fromhex(content))
    return _details(stored)


@router.get("/training_sets", dependencies=READS)
def newest(
    access: AccessDep,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 20,
    before: Annotated[str | None, Query(pattern=f"^{SET_NAME}$")] = None,
) -> TrainingSetEntries:
    """List the branch's training sets, the newest first, optionally those before another one.

    The list can be shorter than `limit`, because it has only sets that the caller may see.
    """
    last = None if before is None else set_of(before, access).training_set_id
    found = access.ledger.training_sets.newest(access.branch, limit=limit, before=last)
    return {"training_sets": [_entry(view) for view in found if is_visible_set(access, view)]}


@router.get("/training_sets/{name}", dependencies=READS)
def show(name: SetName, access: AccessDep) -> TrainingSetDetails:
    """Return a training set without its rows."""
    return _details(set_of(name, access))


@router.get("/training_sets/{name}/rows", responses=raises(Conflicting), dependencies=READS)
def rows(name: SetName, settings: SettingsDep, access: AccessDep) -> dict[str, list[JsonValue]]:
    """Return the rows of a training set as columns, in the order of its spine."""
    view = set_of(name, access)
    try:
        content = settings.training_set_file(view.training_set_id).read_bytes()
    except FileNotFoundError:
        content = b""
    if hashlib.sha256(content).digest() != view.data_sha256:
        raise Conflicting(f"the file of training set `{name}` is missing, or was changed")
    told = _description(view)
    types = {**stored_types(told.get("types")), str(told.get("timestamp_column")): Datetime()}
    return rendered(pq.read_table(pa.BufferReader(content)), types)


@router.delete("/training_sets/{name}", dependencies=[requires(Right.WRITE_DEFINITIONS)])
def delete(name: SetName, settings: SettingsDep, access: AccessDep) -> DeletedTrainingSet:
    """Delete a training set with its rows and the files of its query, so that its name is free."""
    view = set_of(name, access)
    # Without these files, a request for the same set is answered anew.
    shutil.rmtree(settings.offline_directory(str(view.request_id)), ignore_errors=True)
    access.ledger.training_sets.delete(view.training_set_id)
    settings.training_set_file(view.training_set_id).unlink(missing_ok=True)
    return {"name": name}


def _is_answered_for(settings: Settings, access: Access, request_id: UUID) -> bool:
    """Return whether the principal may store the answers of a query, now or once it is done."""
    view = access.ledger.offline_queries.get(request_id)
    is_kept = view.state is not OfflineState.DONE or answers_file(settings, view).exists()
    return is_kept and is_visible(access, view)


def _stored(
    settings: Settings, access: Access, view: OfflineView, *, name: str, content: str
) -> TrainingSetView:
    with kept_files():
        spine = pq.read_table(settings.offline_directory(str(view.request_id)) / OFFLINE_SPINE)
        answers = pq.read_table(answers_file(settings, view))
    wanted, types = request_of(view), types_of(view)
    timestamp_column = str(wanted["timestamp_column"])
    table = _table(spine, answers, {**types, timestamp_column: Datetime()})
    target = io.BytesIO()
    pq.write_table(table, target)
    data = target.getvalue()
    training_set_id = uuid.uuid4()  # noqa: TID251 - the edge gives the id
    file = settings.training_set_file(training_set_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(file, data, mode=0o644)
    # A file without a set, left by a failure here, is deleted a day later.
    stored = _stored_beside_hidden(
        access,
        TrainingSetView(
            training_set_id=training_set_id,
            branch=access.branch,
            name=name,
            request_id=view.request_id,
            commit_id=UUID(str(wanted["commit_id"])),
            content_sha256=bytes.fromhex(content),
            data_sha256=hashlib.sha256(data).digest(),
            rows=table.num_rows,
            description=_described(view, answers, table.column_names, types),
            created_at=view.submitted_at,
        ),
    )
    if stored.training_set_id != training_set_id:
        file.unlink()
    return stored


def _stored_beside_hidden(access: Access, fresh: TrainingSetView) -> TrainingSetView:
    """Store a set, unless the principal sees one of its name: then return that one."""
    hidden: set[UUID] = set()
    while True:
        stored = access.ledger.training_sets.store(fresh, beside=hidden)
        is_ours = stored.training_set_id == fresh.training_set_id
        if is_ours or is_visible_set(access, stored):
            return stored
        hidden.add(stored.training_set_id)


def _table(spine: pa.Table, answers: pa.Table, types: Mapping[str, DataType]) -> pa.Table:
    """Return the columns of a spine, with those of known types as such, then the features."""
    table = spine
    for place, name in enumerate(spine.column_names):
        if name in types:
            cells = [*map(coercion(types[name]), spine.column(name).to_pylist())]
            table = table.set_column(place, name, array_of(cells, types[name]))
    for name in answers.column_names:
        if name not in spine.column_names:
            table = table.append_column(name, answers.column(name))
    return table


def _described(
    view: OfflineView, answers: pa.Table, columns: list[str], types: Mapping[str, DataType]
) -> dict[str, Json]:
    wanted = request_of(view)
    defaults = found if isinstance(found := wanted.get("defaults"), dict) else {}
    result = view.result if isinstance(view.result, dict) else {}
    statistics: dict[str, Json] = {}
    for name in answers.column_names:
        default = parse_cell(defaults[name], types[name]) if name in defaults else None
        statistics[name] = statistics_of(answers.column(name), types[name], default).plain()
    return {
        "inputs": wanted["inputs"],
        "features": [*answers.column_names],
        "timestamp_column": wanted["timestamp_column"],
        "columns": [*columns],
        "types": wanted["types"],
        "dtypes": wanted["dtypes"],
        "offsets": result.get("offsets"),
        "statistics": statistics,
    }


def set_of(name: str, access: Access) -> TrainingSetView:
    """Return a training set, if the principal sees its features.

    Raises:
        NotFound: The branch has none of that name.
    """
    view = _seen(name, access)
    if view is None:
        raise NotFound(f"there is no training set `{name}`")
    return view


def _seen(name: str, access: Access) -> TrainingSetView | None:
    """Return the oldest set of a name that the principal sees."""
    named = access.ledger.training_sets.named(access.branch, name)
    return next((view for view in named if is_visible_set(access, view)), None)


def statistics_by_feature(view: TrainingSetView) -> dict[str, Json]:
    """Return the statistics of the features of a training set, by their full names."""
    found = _description(view).get("statistics")
    return found if isinstance(found, dict) else {}


def is_visible_set(access: Access, view: TrainingSetView) -> bool:
    """Return whether the principal sees a set's features, then and as they are deployed now."""
    if not access.principal.is_narrow:
        return True
    told = _description(view)
    names = (*texts_of(told.get("inputs")), *texts_of(told.get("features")))
    now = access.visibility_of(access.branch)
    asked = access.ledger.offline_queries.get(view.request_id)
    return is_visible(access, asked) and all(map(now.of_output, names))


def _require_same(view: TrainingSetView, content: bytes) -> None:
    if view.content_sha256 != content:
        raise Conflicting(
            f"training set `{view.name}` exists with another spine, other features or other "
            "offsets; choose another name, or delete it first"
        )


def _description(view: TrainingSetView) -> dict[str, Json]:
    return view.description if isinstance(view.description, dict) else {}


def _entry(view: TrainingSetView) -> TrainingSetEntry:
    return {
        "name": view.name,
        "rows": view.rows,
        "features": texts_of(_description(view).get("features")),
        "commit_id": str(view.commit_id),
        "request_id": str(view.request_id),
        "data_sha256": view.data_sha256.hex(),
        "created_at": view.created_at.isoformat(),
    }


def _details(view: TrainingSetView) -> TrainingSetDetails:
    told = _description(view)
    return {
        **_entry(view),
        "inputs": texts_of(told.get("inputs")),
        "timestamp_column": str(told.get("timestamp_column")),
        "columns": texts_of(told.get("columns")),
        "types": told.get("types"),
        "dtypes": told.get("dtypes"),
        "offsets": told.get("offsets"),
        "statistics": told.get("statistics"),
    }
