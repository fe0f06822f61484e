"""Statements on webhook calls with an idempotency key."""

import datetime as dt

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import row_of
from narthex_ledger.db.schema import WEBHOOK_CALL
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.rows import CallRow


def insert_call(connection: Connection, values: dict[str, object], *, within: dt.timedelta) -> bool:
    """Insert a call that is about to be appended; false when its key is known.

    A second caller of the key waits for the first's transaction, then gets false.
    """
    fresh = insert(WEBHOOK_CALL).values(**values, appending_until=NOW + within)
    return connection.execute(fresh.on_conflict_do_nothing()).rowcount == 1


def lock_call(connection: Connection, topic: str, key: str) -> CallRow:
    """Lock a call FOR UPDATE: only one caller resolves its outcome."""
    statement = sa.select(
        WEBHOOK_CALL, (WEBHOOK_CALL.c.appending_until > NOW).label("is_appending")
    ).where(WEBHOOK_CALL.c.topic == topic, WEBHOOK_CALL.c.key == key)
    return row_of(CallRow, connection.execute(statement.with_for_update()))


def extend_call(connection: Connection, topic: str, key: str, *, within: dt.timedelta) -> None:
    """Extend the time in which an append may take effect; do nothing for an appended call."""
    connection.execute(_unfinished(topic, key).values(appending_until=NOW + within))


def finish_call(
    connection: Connection, topic: str, key: str, *, partition: int, offset: int
) -> None:
    """Store the partition and offset of an appended call."""
    connection.execute(_unfinished(topic, key).values(at_partition=partition, at_offset=offset))


def delete_calls(connection: Connection, older_than: dt.timedelta) -> int:
    """Delete old calls; return how many."""
    gone = sa.delete(WEBHOOK_CALL).where(WEBHOOK_CALL.c.called_at < NOW - older_than)
    return connection.execute(gone).rowcount


def _unfinished(topic: str, key: str) -> sa.Update:
    return sa.update(WEBHOOK_CALL).where(
        WEBHOOK_CALL.c.topic == topic,
        WEBHOOK_CALL.c.key == key,
        WEBHOOK_CALL.c.at_offset.is_(None),
    )
