"""`GET /log/progress`: whether the indexes of a branch contain rows that were logged before."""

from typing import Annotated

from fastapi import APIRouter, Query
from typing_extensions import TypedDict

from narthex._formats import GREATEST_POSITIONS_LENGTH, render_positions
from narthex._ir import IndexSpec
from narthex_server.errors import IndexUnavailable, SnapshotTooOld
from narthex_server.reads.contained_rows import ContainedRows, positions_of
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import ServicesDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DATA)])


class RowProgress(TypedDict):
    """How far logged rows have come.

    Attributes:
        waits_for: The dataset whose index does not contain the rows yet, and how many records are
            before them; null once all indexes that the rows reach contain them.
        after: The text for the next call, so that it does not wait for rows that came later.
    """

    waits_for: str | None
    after: str


@router.get("/log/progress", responses=raises(IndexUnavailable, SnapshotTooOld))
def row_progress(
    after: Annotated[str, Query(max_length=GREATEST_POSITIONS_LENGTH)],
    services: ServicesDep,
    access: AccessDep,
) -> RowProgress:
    """Return what the rows before `after` wait for, in the indexes that the token may read."""
    positions = positions_of(after)
    snapshot = services.snapshots.serving(access.branch)
    seen = access.visibility(snapshot.definitions)
    indexed = [
        dataset.name
        for dataset in snapshot.definitions.datasets
        if seen.of_dataset(dataset.name)
        and (asset := snapshot.bindings.get(f"dataset/{dataset.name}/index")) is not None
        and isinstance(asset.spec, IndexSpec)
    ]
    progress_of, ends_of = services.ledger.jobs.progress, services.ends.ends
    contained = ContainedRows(snapshot, positions, progress_of, ends_of)
    missing = contained.missing(indexed)
    shown = {one.physical_name for path, one in snapshot.bindings.items() if seen.of_path(path)}
    shown |= positions.keys()
    known = render_positions({topic: at for topic, at in contained.known.items() if topic in shown})
    # With a text that is too long, the next call begins anew.
    return {
        "waits_for": missing or None,
        "after": known if len(known) <= GREATEST_POSITIONS_LENGTH else after,
    }
