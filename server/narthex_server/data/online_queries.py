"""Online queries: features now or as of an instant, and rows of one dataset."""

import contextlib
import datetime as dt
import json
from collections.abc import Sequence
from typing import Any, Final

import attrs
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue
from typing_extensions import TypedDict, override

from narthex._base import NOWHERE, Json, to_micros
from narthex._formats import MistypedError, coerce, render_cells
from narthex._ir import Cell, DatasetPlan, Datetime
from narthex._query import LoggedQuery, ReadPlan, execute, whole_columns, whole_rows
from narthex.errors import HistoryExpired, SandboxUnavailable, UserCodeError
from narthex_server.errors import IndexUnavailable, InvalidRequest
from narthex_server.security.dataset_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.compartments import BranchCalls
from narthex_server.services.container import ServicesDep, SnapshotsDep
from narthex_server.services.query_log import is_drawn
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import PlainRoute, plain_response
from narthex_stores import IndexMissingError, IndexReader, LookupResult

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DATA)])


class QueryCall(BaseModel):
    """The wanted features, and the given inputs; columns have equal length.

    Attributes:
        log: Whether the answer is logged, for training and for proofs.
        workflow: The principal's name for this use; it is logged with the answer.
        sampling_rate: The share of answers that is logged.
    """

    model_config = ConfigDict(extra="ignore")

    inputs: list[str]
    outputs: list[str]
    data: dict[str, list[object]] | list[dict[str, object]]
    as_of: str | int | None = None
    log: bool = False
    workflow: str | None = Field(default=None, max_length=200)
    sampling_rate: float | None = Field(default=None, ge=0.0, le=1.0)


class LookupCall(BaseModel):
    """Rows of a dataset by key."""

    model_config = ConfigDict(extra="forbid")

    keys: list[dict[str, object]]
    fields: list[str] = []
    timestamps: list[str | int] | None = None


class FoundRows(TypedDict):
    """Rows of a dataset, one for each key, in the order of the keys.

    Attributes:
        found: Whether the key has a row.
        data: The values by field; null where the key has no row.
    """

    found: list[bool]
    data: dict[str, list[JsonValue]]


_ANSWER: Final[dict[str, Any]] = {
    "model": dict[str, list[JsonValue]],
    "headers": {
        "x-narthex-read": {
            "description": "The commit and the log offsets that the answer was read at, as JSON.",
            "schema": {"type": "string"},
        }
    },
}


@attrs.define
class ReadSession(contextlib.AbstractContextManager["ReadSession"]):
    """The lookups of one request, and the log offsets that their answers include.

    Each index is read in one snapshot, from the first lookup to the end.
    """

    snapshot: BranchSnapshot
    offsets: dict[str, dict[str, dict[str, int]]] = attrs.field(factory=dict)
    _states: dict[str, IndexReader] = attrs.field(factory=dict)
    _open: contextlib.ExitStack = attrs.field(factory=contextlib.ExitStack)

    @override
    def __exit__(self, *_: object) -> None:
        self._open.close()

    def lookup(
        self,
        plan: DatasetPlan,
        keys: Sequence[tuple[Cell, ...]],
        as_of: Sequence[int],
    ) -> list[LookupResult | None]:
        """Answer lookups of one dataset.

        Raises:
            IndexUnavailable: The index is missing; it may disappear between two lookups.
            InvalidRequest: The dataset has no index.
            HistoryExpired: Its index has deleted rows that a lookup as of that instant needs.
        """
        try:
            return self._state(plan.name).lookup(keys, as_of)
        except IndexMissingError:
            raise IndexUnavailable(plan.name) from None
        except HistoryExpired as error:
            raise error.located(NOWHERE, subject=f"dataset `{plan.name}`") from None

    def _state(self, dataset: str) -> IndexReader:
        if dataset not in self._states:
            state = self._open.enter_context(self.snapshot.index(dataset).read())
            read: dict[str, dict[str, int]] = {}
            for (topic, partition), offset in state.offsets.items():
                read.setdefault(topic, {})[str(partition)] = offset
            self._states[dataset], self.offsets[dataset] = state, read
        return self._states[dataset]


@router.post(
    "/query",
    responses={200: _ANSWER, **raises(UserCodeError, SandboxUnavailable, IndexUnavailable)},
)
def query(call: QueryCall, services: ServicesDep, access: AccessDep) -> Response:
    """Return features as columns; the header `x-narthex-read` has the log offsets read."""
    snapshot = services.snapshots.serving(access.branch)
    access.require_features(snapshot, [*call.inputs, *call.outputs])
    plan = snapshot.read_plan(tuple(call.inputs), tuple(call.outputs))
    columns, rows = _columns(call, plan)
    as_of = _instant(call.as_of)
    with ReadSession(snapshot=snapshot) as reading:
        answers = execute(
            plan,
            columns,
            lookup=reading.lookup,
            workers=BranchCalls(services.workers, access.branch, snapshot),
            as_of=[as_of] * rows,
        )
    read = json.dumps(
        {
            "commit_id": str(snapshot.commit_id),
            "serving_seq": snapshot.seq,
            "as_of": as_of,
            "offsets": reading.offsets,
        },
        separators=(",", ":"),
    )
    outputs = {name: render_cells(answers[name], plan.types[name]) for name in plan.outputs}
    if call.log:
        answer = LoggedQuery(
            tenant=str(services.tenant),
            branch=access.branch,
            commit_id=str(snapshot.commit_id),
            as_of=as_of,
            workflow=call.workflow or "",
            inputs={name: render_cells(columns[name], plan.types[name]) for name in plan.inputs},
            outputs=outputs,
            offsets=reading.offsets,
        ).encoded()
        if is_drawn(answer, call.sampling_rate):
            is_logged = services.answers.keep(answer)
            services.meters.kept.add(durable=str(is_logged).lower())
    return plain_response({**outputs}, headers={"x-narthex-read": read})


def _columns(call: QueryCall, plan: ReadPlan) -> tuple[dict[str, list[Cell]], int]:
    raw = _by_column(call.data)
    missing = [name for name in call.inputs if name not in raw]
    lengths = {len(raw[name]) for name in call.inputs if name in raw}
    if missing or len(lengths) > 1:
        what = f"missing columns {', '.join(missing)}" if missing else "columns differ in length"
        raise InvalidRequest(what)
    columns: dict[str, list[Cell]] = {}
    problems: list[str] = []
    for name in call.inputs:
        columns[name] = []
        for number, value in enumerate(raw[name]):
            try:
                columns[name].append(coerce(value, plan.types[name]))
            except MistypedError as error:
                problems.append(f"row {number}, `{name}`: {error}")
    if problems:
        raise InvalidRequest("\n".join(problems))
    return columns, lengths.pop() if lengths else 0


def _by_column(
    data: dict[str, list[object]] | list[dict[str, object]],
) -> dict[str, list[object]]:
    if isinstance(data, dict):
        return data
    names = {name for row in data for name in row}
    return {name: [row.get(name) for row in data] for name in names}


def _instant(given: str | int | None) -> int:
    if given is None:
        return to_micros(dt.datetime.now(dt.UTC))
    try:
        instant = coerce(given, Datetime())
    except MistypedError as error:
        raise InvalidRequest(f"as_of: {error}") from None
    if not isinstance(instant, int):
        raise InvalidRequest("as_of is not an instant")
    return instant


@router.post(
    "/dataset/{name}/lookup", responses={200: {"model": FoundRows}, **raises(IndexUnavailable)}
)
def lookup(name: str, call: LookupCall, snapshots: SnapshotsDep, access: AccessDep) -> Response:
    """Look up rows of a dataset by key, each as of now or of an instant."""
    snapshot = snapshots.serving(access.branch)
    access.require_dataset(snapshot, name)
    plan = snapshot.dataset(name)
    keys = [_key(plan, row, number) for number, row in enumerate(call.keys)]
    if call.timestamps is not None and len(call.timestamps) != len(keys):
        raise InvalidRequest("keys and timestamps differ in length")
    as_of = [_instant(t) for t in call.timestamps or [None] * len(keys)]  # type: ignore[list-item]
    columns = {column.name: place for place, column in enumerate(whole_columns(plan))}
    unknown = [field for field in call.fields if field not in columns]
    if unknown:
        raise InvalidRequest(f"`{name}` has no field `{unknown[0]}`")
    with ReadSession(snapshot=snapshot) as reading:
        rows = whole_rows(plan, keys, as_of, lookup=reading.lookup)
    types = plan.schema.columns
    data: dict[str, Json] = {
        field: render_cells([row.values[columns[field]] for row in rows], types[field])
        for field in call.fields or types
    }
    return plain_response({"found": [row.is_found for row in rows], "data": data})


def _key(plan: DatasetPlan, row: dict[str, object], number: int) -> tuple[Cell, ...]:
    try:
        return tuple(coerce(row.get(c.name), c.type) for c in plan.schema.keys)
    except MistypedError as error:
        raise InvalidRequest(f"row {number}: {error}") from None
