"""Statements on offline queries and the installation."""

import datetime as dt
from collections.abc import Collection
from typing import Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.mapper import find_row, row_of, rows_of
from narthex_ledger.db.schema import INSTALL, OFFLINE_QUERY
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.errors import NotFound
from narthex_ledger.model.rows import OfflineQueryRow

_QUEUE_LOCK: Final = 0x6F66666C
"""The advisory lock of the queue of offline queries."""

_BRANCH: Final = OFFLINE_QUERY.c.request["branch"].astext


def lock_queue(connection: Connection) -> None:
    """Wait until no other transaction adds a query of a limited number, or chooses the next one."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_QUEUE_LOCK)))


def count_open(connection: Connection, actor: str) -> int:
    """Count the queries of an actor that wait or run."""
    statement = sa.select(sa.func.count()).where(
        OFFLINE_QUERY.c.state.in_(["queued", "running"]), OFFLINE_QUERY.c.actor == actor
    )
    return connection.execute(statement).scalar_one()


def insert_query(  # noqa: PLR0913 - a query has these parts
    connection: Connection,
    *,
    request_id: UUID,
    manifest_id: UUID,
    pin_id: int,
    actor: str,
    request: Json,
    signature: bytes | None,
) -> bool:
    """Queue an offline query; false when its id is taken: a second caller waits, then sees it."""
    row = (
        insert(OFFLINE_QUERY)
        .values(
            request_id=request_id,
            state="queued",
            manifest_id=manifest_id,
            pin_id=pin_id,
            actor=actor,
            request=request,
            signature=signature,
        )
        .on_conflict_do_nothing()
    )
    return connection.execute(row).rowcount == 1


def read_query(connection: Connection, request_id: UUID) -> OfflineQueryRow:
    """Read an offline query; locks nothing."""
    statement = sa.select(OFFLINE_QUERY).where(OFFLINE_QUERY.c.request_id == request_id)
    return _one(connection, statement, request_id)


def find_query(connection: Connection, request_id: UUID) -> OfflineQueryRow | None:
    """Find an offline query; locks nothing."""
    statement = sa.select(OFFLINE_QUERY).where(OFFLINE_QUERY.c.request_id == request_id)
    return find_row(OfflineQueryRow, connection.execute(statement))


def newest_queries(
    connection: Connection, branch: str, limit: int, before: UUID | None
) -> tuple[OfflineQueryRow, ...]:
    """List the queries of a branch, the newest first, or those queued before one of them."""
    place = sa.tuple_(OFFLINE_QUERY.c.submitted_at, OFFLINE_QUERY.c.request_id)
    statement = (
        sa.select(OFFLINE_QUERY)
        .where(OFFLINE_QUERY.c.request["branch"].astext == branch)
        .order_by(OFFLINE_QUERY.c.submitted_at.desc(), OFFLINE_QUERY.c.request_id.desc())
        .limit(limit)
    )
    if before is not None:
        other = OFFLINE_QUERY.alias()
        known = sa.select(other.c.submitted_at, other.c.request_id)
        known = known.where(other.c.request_id == before)
        statement = statement.where(place < known.scalar_subquery())
    return rows_of(OfflineQueryRow, connection.execute(statement))


def find_sound(connection: Connection, branch: str, part: Json) -> UUID | None:
    """Find the newest query of a branch whose request contains a part, and that did not fail."""
    statement = (
        sa.select(OFFLINE_QUERY.c.request_id)
        .where(
            OFFLINE_QUERY.c.request["branch"].astext == branch,
            OFFLINE_QUERY.c.state.in_(["queued", "running", "done"]),
            OFFLINE_QUERY.c.request.contains(part),
        )
        .order_by(OFFLINE_QUERY.c.submitted_at.desc())
        .limit(1)
    )
    return connection.execute(statement).scalar_one_or_none()


def lock_query(connection: Connection, request_id: UUID) -> OfflineQueryRow:
    """Lock an offline query FOR UPDATE: its engine and a cancel exclude each other."""
    statement = sa.select(OFFLINE_QUERY).where(OFFLINE_QUERY.c.request_id == request_id)
    return _one(connection, statement.with_for_update(), request_id)


def next_query(
    connection: Connection, owner: str, most_of_token: int | None, most_of_branch: int | None
) -> OfflineQueryRow | None:
    """Lock the next query that is queued or whose engine's lease expired; skips locked ones.

    Tokens take turns, and the branches of a token: it is the oldest query of the one that was
    served least recently. The queue must be locked, so that every engine sees what was served.

    Args:
        connection: A transaction.
        owner: The engine that asks.
        most_of_token: How many queries of one token this engine may hold; None for any number.
        most_of_branch: The same of one branch.
    """
    served, held = OFFLINE_QUERY.alias("served"), OFFLINE_QUERY.alias("held")
    is_held = sa.and_(
        held.c.state == "running", held.c.lease_expires_at >= NOW, held.c.owner == owner
    )
    statement = sa.select(OFFLINE_QUERY).where(_waits())
    last_served = []
    branches = served.c.request["branch"].astext, held.c.request["branch"].astext
    for own, of_served, of_held, most in (
        (OFFLINE_QUERY.c.actor, served.c.actor, held.c.actor, most_of_token),
        (_BRANCH, *branches, most_of_branch),
    ):
        newest = sa.select(sa.func.max(served.c.started_at)).where(of_served == own)
        last_served.append(newest.scalar_subquery())
        if most is not None:
            count = sa.select(sa.func.count()).where(is_held, of_held == own)
            statement = statement.where(count.scalar_subquery() < most)
    statement = statement.order_by(
        *(one.nulls_first() for one in last_served),
        OFFLINE_QUERY.c.submitted_at,
        OFFLINE_QUERY.c.request_id,
    )
    statement = statement.limit(1).with_for_update(skip_locked=True, of=OFFLINE_QUERY)
    return find_row(OfflineQueryRow, connection.execute(statement))


def lease_query(
    connection: Connection, request_id: UUID, owner: str, lease_s: float
) -> OfflineQueryRow:
    """Lease a locked query to an engine, with a greater epoch.

    If another engine ran it until its lease expired, that time counts as run.
    """
    leased = (
        sa.update(OFFLINE_QUERY)
        .where(OFFLINE_QUERY.c.request_id == request_id)
        .values(
            state="running",
            owner=owner,
            epoch=OFFLINE_QUERY.c.epoch + 1,
            lease_expires_at=NOW + dt.timedelta(seconds=lease_s),
            started_at=sa.func.coalesce(
                NOW - (OFFLINE_QUERY.c.lease_expires_at - OFFLINE_QUERY.c.started_at), NOW
            ),
        )
        .returning(OFFLINE_QUERY)
    )
    return row_of(OfflineQueryRow, connection.execute(leased))


def ran_longer(connection: Connection, request_id: UUID, within_s: float) -> bool:
    """Return whether a query that runs has run for longer than some seconds."""
    began = OFFLINE_QUERY.c.started_at + dt.timedelta(seconds=within_s)
    statement = sa.select(began < NOW).where(OFFLINE_QUERY.c.request_id == request_id)
    return connection.execute(statement).scalar_one() is True


def kept_queries(
    connection: Connection, ids: Collection[UUID], keep: dt.timedelta
) -> frozenset[UUID]:
    """Return which queries have not ended, or ended less than `keep` ago; locks nothing."""
    finished_at = OFFLINE_QUERY.c.finished_at
    statement = sa.select(OFFLINE_QUERY.c.request_id).where(
        OFFLINE_QUERY.c.request_id.in_(ids),
        sa.or_(finished_at.is_(None), finished_at > NOW - keep),
    )
    return frozenset(connection.execute(statement).scalars())


def change_query(connection: Connection, request_id: UUID, **values: object) -> None:
    """Change columns of a query that is locked."""
    connection.execute(
        sa.update(OFFLINE_QUERY).where(OFFLINE_QUERY.c.request_id == request_id).values(**values)
    )


def put_install(connection: Connection, install_id: str) -> None:
    """Insert the installation's identity; the first one is kept."""
    connection.execute(
        insert(INSTALL).values(one=True, install_id=install_id).on_conflict_do_nothing()
    )


def _one(
    connection: Connection, statement: sa.Select[tuple[object, ...]], request_id: UUID
) -> OfflineQueryRow:
    row = find_row(OfflineQueryRow, connection.execute(statement))
    if row is None:
        raise NotFound(f"there is no offline query {request_id}")
    return row


def _waits() -> sa.ColumnElement[bool]:
    return sa.or_(
        OFFLINE_QUERY.c.state == "queued",
        sa.and_(OFFLINE_QUERY.c.state == "running", OFFLINE_QUERY.c.lease_expires_at < NOW),
    )
