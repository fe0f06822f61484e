"""Leases of work that one server of an installation does; each table of them has one row."""

import datetime as dt
from typing import Final, Literal, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from narthex_ledger.db.schema import ALERT_EVALUATOR, LINEAGE_SENDER
from narthex_ledger.db.statements.commits import NOW

SingleWork: TypeAlias = Literal["alerts", "lineage"]

_TABLES: Final = {"alerts": ALERT_EVALUATOR, "lineage": LINEAGE_SENDER}


def claim(connection: Connection, work: SingleWork, owner: str, lease_s: float) -> bool:
    """Lease the work to an owner, or extend its lease; false if another one has it."""
    table = _TABLES[work]
    is_free = sa.or_(table.c.owner.is_(None), table.c.owner == owner, table.c.expires_at < NOW)
    leased = sa.update(table).where(is_free)
    ends_at = NOW + dt.timedelta(seconds=lease_s)
    return connection.execute(leased.values(owner=owner, expires_at=ends_at)).rowcount == 1


def release(connection: Connection, work: SingleWork, owner: str) -> None:
    """Free the work if an owner has it."""
    table = _TABLES[work]
    statement = sa.update(table).where(table.c.owner == owner)
    connection.execute(statement.values(owner=None, expires_at=None))
