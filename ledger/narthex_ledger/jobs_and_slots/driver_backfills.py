"""Backfills in running drivers: one attempt, by one engine, which must begin soon.

A driver is shared by live jobs. So a run that fails there, or whose driver ends, is not tried there
again; its caller repeats it in a Spark of its own. Both may run for a moment: each job is leased to
one of them (`claim_backfill`).
"""

from uuid import UUID

from sqlalchemy.engine import Connection

from narthex_ledger.db.statements import driver_backfills as on_runs
from narthex_ledger.db.statements import jobs as on_jobs
from narthex_ledger.errors import Fenced
from narthex_ledger.model.rows import DriverBackfillRow

_WHY_EXPIRED = {
    "queued": "no driver was ready for it in time",
    "running": "the supervisor of its driver has ended",
}


def request(connection: Connection, commit_id: UUID, wait_s: float) -> None:
    """Queue a run, once."""
    if on_runs.queue_backfill(connection, commit_id, wait_s):
        on_jobs.bump_registry(connection)


def is_in_driver(connection: Connection, commit_id: UUID) -> bool | None:
    """Return whether a driver has the run, or may still get it; None if it was not requested."""
    row = on_runs.lock_backfill(connection, commit_id)
    if row is None:
        return None
    if row.state in _WHY_EXPIRED and not row.is_current:
        on_runs.fail_backfill(connection, commit_id, _WHY_EXPIRED[row.state])
        return False
    return row.state != "failed"


def claim(connection: Connection, owner: str, lease_s: float) -> UUID | None:
    """Lease the oldest queued run; return its commit."""
    row = on_runs.next_backfill(connection)
    if row is None:
        return None
    on_runs.lease_backfill(connection, row.commit_id, owner, lease_s)
    return row.commit_id


def extend(connection: Connection, commit_id: UUID, owner: str, lease_s: float) -> None:
    """Extend the lease of a run."""
    _hold(connection, commit_id, owner)
    on_runs.lease_backfill(connection, commit_id, owner, lease_s)


def end(connection: Connection, commit_id: UUID, owner: str, error: str) -> None:
    """End a run: done, or failed with a reason."""
    if error:
        _hold(connection, commit_id, owner)
        on_runs.fail_backfill(connection, commit_id, error)
    elif on_runs.lock_backfill(connection, commit_id) is not None:
        _hold(connection, commit_id, owner)
        on_runs.delete_backfill(connection, commit_id)


def _hold(connection: Connection, commit_id: UUID, owner: str) -> DriverBackfillRow:
    row = on_runs.lock_backfill(connection, commit_id)
    if row is None or row.state != "running" or row.owner != owner or not row.is_current:
        raise Fenced(f"the backfill of commit `{commit_id}` is not `{owner}`'s any more")
    return row
