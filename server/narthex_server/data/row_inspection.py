"""Routes for the rows that are not in a dataset because they were rejected, and for late rows.

They show rows, so they require the right to read data, and hide datasets as lookups do. A replay or
a discard changes what every branch with the same log reads, so it also requires that the principal
may name all of these branches.
"""

from collections.abc import Mapping
from typing import Annotated, NotRequired

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, JsonValue
from typing_extensions import TypedDict

from narthex._base import Json, to_plain
from narthex._ir import ResolvedAsset, SourceJobSpec
from narthex_server.errors import Conflicting, Forbidden, InvalidRequest, Missing, TooManyRequests
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.branch_snapshots import BranchSnapshot
from narthex_server.services.container import SettingsDep
from narthex_server.services.row_inspections import inspect_rows
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import Instant, Number, PlainRoute

router = APIRouter(route_class=PlainRoute)
READS = [requires(Right.READ_DATA)]
CHANGES = [requires(Right.WRITE_DATA, is_recorded=True)]
ERRORS = raises(Conflicting, TooManyRequests)

MOST_LISTED = 1000
Name = Annotated[str, Path(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]
_CURSOR = r"^\d{1,18}(\.\d{1,18}){2}$"


class QuarantineEntry(TypedDict):
    """A row in quarantine.

    Attributes:
        row: Its name, by which it is shown, replayed and discarded.
        reason: Why it is not in the dataset.
        expectations: The enforced expectations that it breaks.
        source: Its source, or its pipeline.
        kind: The form of the payload: `row`, a JSON object; `text`; or `base64`, bytes.
        payload: The row as it arrived, or as the pipeline computed it; in a list, its beginning.
        is_cut: Whether a list shows only the beginning of the payload.
        partition: With `offset` and `ordinal`, its position in its source.
        field: The field for which a source rejected it.
        pipeline: The pipeline that computed it.
        step: The step of the pipeline that failed, in `line` of the author's `file`.
        together: How many rows failed together.
    """

    row: str
    rejected_at: Instant
    reason: str
    expectations: list[str]
    source: str
    kind: str
    payload: str
    is_cut: NotRequired[bool]
    partition: NotRequired[int]
    offset: NotRequired[int]
    ordinal: NotRequired[int]
    field: NotRequired[str | None]
    pipeline: NotRequired[str]
    row_id: NotRequired[str]
    step: NotRequired[str]
    file: NotRequired[str]
    line: NotRequired[int]
    together: NotRequired[int]


class QuarantinedRows(TypedDict):
    """Rows in quarantine, newest first.

    Attributes:
        total: How many rows are in quarantine.
        next: The value of `before` for the next page; null on the last one.
    """

    rows: list[QuarantineEntry]
    total: int
    next: str | None


class LateRowEntry(TypedDict):
    """A row that arrived later than its source's disorder; it is in the dataset.

    Attributes:
        values: Its values; null if it ended a row.
        late_s: How many seconds beyond the disorder it came.
        partition: With `offset` and `ordinal`, its position in its source.
        arrived_at: When the log received it.
        changed_from: With `changed_until`, the instants as of which it changed what is read.
        changed_datasets: The datasets that are computed from it.
    """

    key: dict[str, JsonValue]
    values: dict[str, JsonValue] | None
    event_time: Instant
    arrived_at: Instant
    late_s: float
    alive: bool
    source: str
    partition: int
    offset: int
    ordinal: int
    row_id: str
    log_partition: int
    log_offset: int
    changed_from: Instant
    changed_until: Instant | None
    changed_datasets: list[str]


class LateRows(TypedDict):
    """Late rows, newest first.

    Attributes:
        total: How many rows came late.
        next: The value of `before` for the next page; null on the last one.
    """

    rows: list[LateRowEntry]
    total: int
    next: str | None


class RowOutcome(TypedDict):
    """The outcome of a row.

    Attributes:
        outcome: `accepted`: it is in the dataset now. `filtered`: the source leaves it out.
            `rejected`: it stays in quarantine. `discarded`: it was removed from the quarantine.
        reason: Why it is still rejected; null otherwise.
    """

    row: str
    outcome: str
    reason: str | None


class RowOutcomes(TypedDict):
    """The outcomes of rows, in the order of the call."""

    rows: list[RowOutcome]


class ReplayCall(BaseModel):
    """Rows to validate again; all of the quarantine if `rows` is missing and `every` is true.

    Attributes:
        payload: Replaces the payload of a single row.
    """

    model_config = ConfigDict(extra="forbid")

    rows: list[str] | None = None
    every: bool = False
    payload: dict[str, JsonValue] | None = None


class DiscardCall(BaseModel):
    """Rows to remove from the quarantine."""

    model_config = ConfigDict(extra="forbid")

    rows: list[str]


@router.get("/datasets/{name}/quarantine", responses=ERRORS, dependencies=READS)
def quarantined(
    name: Name,
    access: AccessDep,
    settings: SettingsDep,
    limit: Limit = 100,
    before: Number | None = None,
) -> QuarantinedRows:
    """List the rows in a dataset's quarantine, newest first."""
    topic = _quarantine(_snapshot(access, name), name).physical_name
    asked: dict[str, Json] = {"operation": "quarantined", "topic": topic, "limit": limit}
    asked |= {"before": before}
    return inspect_rows(settings, asked, branch=access.branch)  # type: ignore[return-value]


@router.get("/datasets/{name}/quarantine/{row}", responses=ERRORS, dependencies=READS)
def quarantined_row(
    name: Name, row: Name, access: AccessDep, settings: SettingsDep
) -> QuarantineEntry:
    """Return one row in quarantine, with its whole payload."""
    topic = _quarantine(_snapshot(access, name), name).physical_name
    asked: dict[str, Json] = {"operation": "row", "topic": topic, "row": row}
    return inspect_rows(settings, asked, branch=access.branch)  # type: ignore[return-value]


@router.post("/datasets/{name}/quarantine/replay", responses=ERRORS, dependencies=CHANGES)
def replay(name: Name, call: ReplayCall, access: AccessDep, settings: SettingsDep) -> RowOutcomes:
    """Validate rows that a source rejected again, each at its position.

    An accepted or filtered row leaves the quarantine. Replaying a row twice changes nothing. A row
    of a pipeline is not replayed: a new version of its dataset computes it.
    """
    if call.every == (call.rows is not None):
        raise InvalidRequest("give either the names of `rows`, or `every`")
    snapshot = _snapshot(access, name)
    quarantine = _quarantine(snapshot, name)
    _require_branches_of(access, quarantine)
    asked: dict[str, Json] = {
        "operation": "replay",
        "topic": quarantine.physical_name,
        "sources": [to_plain(asset) for asset in _sources(snapshot, name)],
        "rows": [*call.rows] if call.rows is not None else None,
        "payload": call.payload,
    }
    return inspect_rows(settings, asked, branch=access.branch)  # type: ignore[return-value]


@router.post("/datasets/{name}/quarantine/discard", responses=ERRORS, dependencies=CHANGES)
def discard(name: Name, call: DiscardCall, access: AccessDep, settings: SettingsDep) -> RowOutcomes:
    """Remove rows from a dataset's quarantine; they are in no dataset, and nothing else changes."""
    quarantine = _quarantine(_snapshot(access, name), name)
    _require_branches_of(access, quarantine)
    topic = quarantine.physical_name
    asked: dict[str, Json] = {"operation": "discard", "topic": topic, "rows": [*call.rows]}
    return inspect_rows(settings, asked, branch=access.branch)  # type: ignore[return-value]


@router.get("/datasets/{name}/late", responses=ERRORS, dependencies=READS)
def late(
    name: Name,
    access: AccessDep,
    settings: SettingsDep,
    limit: Limit = 100,
    before: Annotated[str | None, Query(pattern=_CURSOR)] = None,
) -> LateRows:
    """List the rows of a dataset that arrived later than its source's disorder, newest first."""
    snapshot = _snapshot(access, name)
    disorder = {
        asset.spec.source_id: asset.spec.source.disorder_us
        for asset in _sources(snapshot, name)
        if isinstance(asset.spec, SourceJobSpec)
    }
    if not disorder:
        raise InvalidRequest(
            f"`{name}` has no source; name the dataset that it is derived from, because only rows "
            "of sources come late"
        )
    asked: dict[str, Json] = {
        "operation": "late",
        "topic": snapshot.topic(f"dataset/{name}/log"),
        "log": to_plain(snapshot.plans[name].log),
        "disorder_us": {**disorder},
        "limit": limit,
        "before": None if before is None else [int(part) for part in before.split(".")],
    }
    found: LateRows = inspect_rows(settings, asked, branch=access.branch)  # type: ignore[assignment]
    visibility = access.visibility(snapshot.definitions)
    changed = [one for one in _made_from(snapshot.bindings, name) if visibility.of_dataset(one)]
    for row in found["rows"]:
        row["changed_datasets"] = changed
    return found


def _snapshot(access: Access, name: str) -> BranchSnapshot:
    # Rows may be rejected before readers flip to the first commit.
    snapshot = access.snapshots.serving_or_head(access.branch)
    access.require_dataset(snapshot, name)
    snapshot.dataset(name)
    return snapshot


def _quarantine(snapshot: BranchSnapshot, name: str) -> ResolvedAsset:
    asset = snapshot.bindings.get(f"dataset/{name}/quarantine")
    if asset is None:
        raise Missing(
            f"`{name}` has no quarantine: no source feeds it, no step of its pipeline can fail on "
            "a row, and no expectation quarantines rows"
        )
    return asset


def _sources(snapshot: BranchSnapshot, name: str) -> tuple[ResolvedAsset, ...]:
    begin = f"job/{name}/source/"
    return tuple(
        asset
        for path, asset in snapshot.bindings.items()
        if path.startswith(begin) and isinstance(asset.spec, SourceJobSpec)
    )


def _require_branches_of(access: Access, asset: ResolvedAsset) -> None:
    """Refuse a principal that may not name every branch that has an asset.

    Raises:
        Forbidden: There is such a branch.
    """
    if access.principal.branches == ("*",):
        return
    others = [
        view.name
        for view in access.ledger.branches.all(access.tenant)
        if not access.principal.may_name(view.name)
    ]
    if others and asset.asset_id in access.ledger.assets.held_paths(access.tenant, others):
        raise Forbidden


def _made_from(bindings: Mapping[str, ResolvedAsset], dataset: str) -> tuple[str, ...]:
    """Return the datasets that jobs derive from a dataset, directly or indirectly."""
    reads: dict[str, set[str]] = {}
    for path, asset in bindings.items():
        match path.split("/"):
            case ["job", name, "pipeline", _]:
                roles = [need.role.partition(":") for need in asset.needs]
                reads[name] = {of for kind, _, of in roles if kind in {"input", "right"}}
            case _:
                pass
    found = {dataset}
    while new := {name for name, read in reads.items() if read & found} - found:
        found |= new
    return tuple(sorted(found - {dataset}))
