"""Statements on backfills that a running driver carries out."""

import datetime as dt
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import find_row
from narthex_ledger.db.schema import DRIVER_BACKFILL
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.rows import DriverBackfillRow

_ROWS = sa.select(DRIVER_BACKFILL, (DRIVER_BACKFILL.c.expires_at > NOW).label("is_current"))


def queue_backfill(connection: Connection, commit_id: UUID, wait_s: float) -> bool:
    """Queue the backfill of a commit for a limited time; false if it was queued before."""
    queued = (
        insert(DRIVER_BACKFILL)
        .values(
            commit_id=commit_id,
            state="queued",
            expires_at=NOW + dt.timedelta(seconds=wait_s),
        )
        .on_conflict_do_nothing()
    )
    return connection.execute(queued).rowcount == 1


def lock_backfill(connection: Connection, commit_id: UUID) -> DriverBackfillRow | None:
    """Lock the run of a commit FOR UPDATE, if one was requested and is not done."""
    statement = _ROWS.where(DRIVER_BACKFILL.c.commit_id == commit_id).with_for_update()
    return find_row(DriverBackfillRow, connection.execute(statement))


def next_backfill(connection: Connection) -> DriverBackfillRow | None:
    """Lock the oldest run that still waits for a driver; skips locked ones."""
    statement = (
        _ROWS.where(DRIVER_BACKFILL.c.state == "queued", DRIVER_BACKFILL.c.expires_at > NOW)
        .order_by(DRIVER_BACKFILL.c.requested_at, DRIVER_BACKFILL.c.commit_id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    return find_row(DriverBackfillRow, connection.execute(statement))


def lease_backfill(connection: Connection, commit_id: UUID, owner: str, lease_s: float) -> None:
    """Lease a locked run to an engine, or extend its lease."""
    connection.execute(
        sa.update(DRIVER_BACKFILL)
        .where(DRIVER_BACKFILL.c.commit_id == commit_id)
        .values(state="running", owner=owner, expires_at=NOW + dt.timedelta(seconds=lease_s))
    )


def fail_backfill(connection: Connection, commit_id: UUID, error: str) -> None:
    """Note why a locked run was not carried out."""
    connection.execute(
        sa.update(DRIVER_BACKFILL)
        .where(DRIVER_BACKFILL.c.commit_id == commit_id)
        .values(state="failed", error=error)
    )


def delete_backfill(connection: Connection, commit_id: UUID) -> None:
    """Delete a run that is done, or is not needed any more."""
    connection.execute(sa.delete(DRIVER_BACKFILL).where(DRIVER_BACKFILL.c.commit_id == commit_id))
