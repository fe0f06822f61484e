"""Statements on the server that sends lineage, and on the events that it reads."""

import datetime as dt
from collections.abc import Collection, Mapping
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import (
    AUDIT,
    BRANCH,
    CREATE_LEDGER,
    DEPLOY_COMMIT,
    LEDGER_EVENT,
    LINEAGE_SENDER,
    PROMOTION,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.audit_views import AuditView
from narthex_ledger.model.lineage_views import LineageCommit, LineagePosition, LineageStatus
from narthex_ledger.model.views import EventView

_FORGOTTEN = dt.timedelta(hours=1)
"""How long after the end of a lease lineage is still expected to be sent."""


def change_sender(connection: Connection, owner: str, **values: object) -> bool:
    """Change what is stored about the sending; false for an owner without the lease."""
    mine = sa.and_(LINEAGE_SENDER.c.owner == owner, LINEAGE_SENDER.c.expires_at > NOW)
    return connection.execute(sa.update(LINEAGE_SENDER).where(mine).values(**values)).rowcount == 1


def plain_position(position: LineagePosition) -> dict[str, Json]:
    """Return the columns of a position."""
    return {
        "sent_to": position.sent_to,
        "missing": {str(number): at for number, at in position.missing.items()},
        "backfills": {str(asset_id): epoch for asset_id, epoch in position.backfills.items()},
    }


def read_position(connection: Connection) -> tuple[dt.datetime, LineagePosition]:
    """Read the present time, and how far lineage was sent."""
    row = connection.execute(
        sa.select(
            NOW.label("now"),
            LINEAGE_SENDER.c.sent_to,
            LINEAGE_SENDER.c.missing,
            LINEAGE_SENDER.c.backfills,
        )
    ).one()
    return row.now, LineagePosition(
        sent_to=row.sent_to, missing=_numbers(row.missing), backfills=_numbers(row.backfills)
    )


def events_after(
    connection: Connection, position: LineagePosition, limit: int
) -> tuple[EventView, ...]:
    """Read events that were not sent, in order; those that were missing come first."""
    is_new = LEDGER_EVENT.c.event_id > position.sent_to
    if position.missing:
        is_new = sa.or_(is_new, LEDGER_EVENT.c.event_id.in_(list(position.missing)))
    statement = sa.select(LEDGER_EVENT).where(is_new)
    return rows_of(
        EventView, connection.execute(statement.order_by(LEDGER_EVENT.c.event_id).limit(limit))
    )


def introducers(connection: Connection, asset_ids: Collection[int]) -> dict[int, UUID]:
    """Read which commits introduced assets."""
    if not asset_ids:
        return {}
    statement = sa.select(CREATE_LEDGER.c.asset_id, CREATE_LEDGER.c.introduced_by).where(
        CREATE_LEDGER.c.asset_id.in_(sorted(asset_ids))
    )
    return {row.asset_id: row.introduced_by for row in connection.execute(statement)}


def commits_of(
    connection: Connection, commit_ids: Collection[UUID]
) -> Mapping[UUID, LineageCommit]:
    """Read commits with the names of their branches, by id."""
    if not commit_ids:
        return {}
    statement = (
        sa.select(
            DEPLOY_COMMIT.c.commit_id,
            BRANCH.c.name.label("branch"),
            DEPLOY_COMMIT.c.kind,
            PROMOTION.c.state.label("promotion"),
            DEPLOY_COMMIT.c.manifest_id,
            DEPLOY_COMMIT.c.error,
            DEPLOY_COMMIT.c.cancel_requested_at.is_not(None).label("is_cancelled"),
        )
        .join(BRANCH, BRANCH.c.branch_id == DEPLOY_COMMIT.c.branch_id)
        .outerjoin(PROMOTION, PROMOTION.c.commit_id == DEPLOY_COMMIT.c.commit_id)
        .where(DEPLOY_COMMIT.c.commit_id.in_(sorted(commit_ids)))
    )
    found = rows_of(LineageCommit, connection.execute(statement))
    return {commit.commit_id: commit for commit in found}


def audits_of(connection: Connection, audit_ids: Collection[UUID]) -> Mapping[UUID, AuditView]:
    """Read audits by id, without examples of rows."""
    if not audit_ids:
        return {}
    columns = [column for column in AUDIT.c if column.name != "examples"]
    statement = sa.select(*columns, sa.null().label("examples")).where(
        AUDIT.c.audit_id.in_(sorted(audit_ids))
    )
    return {audit.audit_id: audit for audit in rows_of(AuditView, connection.execute(statement))}


def read_status(connection: Connection) -> LineageStatus:
    """Read how far the sending is behind; without a server that sends, it is behind nothing."""
    oldest = (
        sa.select(LEDGER_EVENT.c.at)
        .where(LEDGER_EVENT.c.event_id > LINEAGE_SENDER.c.sent_to)
        .order_by(LEDGER_EVENT.c.event_id)
        .limit(1)
        .scalar_subquery()
    )
    was_held = LINEAGE_SENDER.c.expires_at > NOW - _FORGOTTEN
    is_sent = sa.and_(LINEAGE_SENDER.c.owner.is_not(None), was_held)
    age = sa.case((is_sent, sa.func.extract("epoch", NOW - oldest)))
    lag = sa.func.coalesce(age, 0)
    row = connection.execute(
        sa.select(lag.label("lag"), LINEAGE_SENDER.c.failures, LINEAGE_SENDER.c.error)
    ).one()
    return LineageStatus(lag_s=max(0.0, float(row.lag)), failures=row.failures, error=row.error)


def _numbers(plain: Mapping[str, int]) -> dict[int, int]:
    return {int(name): number for name, number in plain.items()}
