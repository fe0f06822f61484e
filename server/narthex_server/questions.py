"""Questions answered online: features now or as of an instant, and rows of one dataset."""

import datetime as dt
import json
from collections.abc import Sequence

import attrs
from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict

from narthex.assets import DatasetPlan
from narthex.coerce import MistypedError, coerce
from narthex.evaluate.query import execute, whole_columns, whole_rows
from narthex.facts import Cell
from narthex.readplan import ReadPlan
from narthex.records import Json
from narthex.rendered_cells import render_cells
from narthex.times import to_micros
from narthex.types import Datetime
from narthex_server.auth import branch_of
from narthex_server.routes import PlainRoute, plain_response
from narthex_server.services import Services
from narthex_server.sight import require_dataset, require_seen
from narthex_server.snapshot import Snapshot
from narthex_stores import Found

router = APIRouter(route_class=PlainRoute)


class QueryCall(BaseModel):
    """Which features, given which; columns of equal length."""

    model_config = ConfigDict(extra="ignore")

    inputs: list[str]
    outputs: list[str]
    data: dict[str, list[object]] | list[dict[str, object]]
    as_of: str | int | None = None


class LookupCall(BaseModel):
    """Rows of a dataset by key."""

    model_config = ConfigDict(extra="forbid")

    keys: list[dict[str, object]]
    fields: list[str] = []
    timestamps: list[str | int] | None = None


@attrs.define
class Reading:
    """The lookups of one request, and the log offsets that their answers contain."""

    snapshot: Snapshot
    offsets: dict[str, dict[str, dict[str, int]]] = attrs.field(factory=dict)

    def lookup(
        self,
        plan: DatasetPlan,
        keys: Sequence[tuple[Cell, ...]],
        as_of: Sequence[int],
    ) -> list[Found | None]:
        """Answer all lookups of one dataset from one consistent state of its index."""
        with self.snapshot.index(plan.name).read() as reader:
            found = reader.lookup(keys, as_of)
            read: dict[str, dict[str, int]] = {}
            for (topic, partition), offset in reader.offsets.items():
                read.setdefault(topic, {})[str(partition)] = offset
        self.offsets[plan.name] = read
        return found


@router.post("/query")
def query(call: QueryCall, request: Request) -> Response:
    """Answer features as columns; the header `x-narthex-read` says what was read."""
    services: Services = request.app.state.services
    snapshot = services.snapshots.serving(branch_of(request))
    require_seen(request, snapshot, [*call.inputs, *call.outputs])
    plan = snapshot.read_plan(tuple(call.inputs), tuple(call.outputs))
    columns, rows = _columns(call, plan)
    as_of = _instant(call.as_of)
    reading = Reading(snapshot=snapshot)
    answers = execute(
        plan,
        columns,
        lookup=reading.lookup,
        workers=services.workers,
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
    return plain_response(
        {name: render_cells(answers[name], plan.types[name]) for name in plan.outputs},
        headers={"x-narthex-read": read},
    )


def _columns(call: QueryCall, plan: ReadPlan) -> tuple[dict[str, list[Cell]], int]:
    raw = _by_column(call.data)
    missing = [name for name in call.inputs if name not in raw]
    lengths = {len(raw[name]) for name in call.inputs if name in raw}
    if missing or len(lengths) > 1:
        what = f"no column for {', '.join(missing)}" if missing else "columns differ in length"
        raise HTTPException(status_code=400, detail={"err_msg": what})
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
        raise HTTPException(status_code=400, detail={"err_msg": "\n".join(problems)})
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
        raise HTTPException(status_code=400, detail={"err_msg": f"as_of: {error}"}) from None
    if not isinstance(instant, int):
        raise HTTPException(status_code=400, detail={"err_msg": "as_of is no instant"})
    return instant


@router.post("/dataset/{name}/lookup")
def lookup(name: str, call: LookupCall, request: Request) -> Response:
    """Give rows of a dataset by key, as of now or of an instant each."""
    services: Services = request.app.state.services
    snapshot = services.snapshots.serving(branch_of(request))
    require_dataset(request, snapshot, name)
    plan = snapshot.dataset(name)
    keys = [_key(plan, row, number) for number, row in enumerate(call.keys)]
    if call.timestamps is not None and len(call.timestamps) != len(keys):
        raise HTTPException(
            status_code=400, detail={"err_msg": "keys and timestamps differ in length"}
        )
    as_of = [_instant(t) for t in call.timestamps or [None] * len(keys)]  # type: ignore[list-item]
    columns = {column.name: place for place, column in enumerate(whole_columns(plan))}
    unknown = [field for field in call.fields if field not in columns]
    if unknown:
        raise HTTPException(
            status_code=400, detail={"err_msg": f"`{name}` has no field `{unknown[0]}`"}
        )
    rows = whole_rows(plan, keys, as_of, lookup=Reading(snapshot=snapshot).lookup)
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
        raise HTTPException(status_code=400, detail={"err_msg": f"row {number}: {error}"}) from None
