"""Statements on training sets."""

from collections.abc import Collection
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import TRAINING_SET
from narthex_ledger.model.offline_views import TrainingSetView


def lock_name(connection: Connection, branch: str, name: str) -> None:
    """Let no other transaction store a set of that name until the end of this one."""
    key = sa.func.hashtextextended(f"training_set/{branch}/{name}", 0)
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))


def insert_set(connection: Connection, fresh: TrainingSetView, signature: bytes | None) -> None:
    """Insert a training set, unless its query has one of its name; the database has the clock."""
    connection.execute(
        insert(TRAINING_SET)
        .values(
            training_set_id=fresh.training_set_id,
            branch=fresh.branch,
            name=fresh.name,
            request_id=fresh.request_id,
            commit_id=fresh.commit_id,
            content_sha256=fresh.content_sha256,
            data_sha256=fresh.data_sha256,
            rows=fresh.rows,
            description=fresh.description,
            signature=signature,
        )
        .on_conflict_do_nothing()
    )


def sets_named(connection: Connection, branch: str, name: str) -> tuple[TrainingSetView, ...]:
    """List the training sets of a name, the oldest first; locks nothing."""
    statement = (
        sa.select(TRAINING_SET)
        .where(TRAINING_SET.c.branch == branch, TRAINING_SET.c.name == name)
        .order_by(TRAINING_SET.c.created_at, TRAINING_SET.c.training_set_id)
    )
    return rows_of(TrainingSetView, connection.execute(statement))


def newest_sets(
    connection: Connection, branch: str, limit: int, before: UUID | None
) -> tuple[TrainingSetView, ...]:
    """List the training sets of a branch, the newest first, or those stored before one of them."""
    place = sa.tuple_(TRAINING_SET.c.created_at, TRAINING_SET.c.training_set_id)
    statement = (
        sa.select(TRAINING_SET)
        .where(TRAINING_SET.c.branch == branch)
        .order_by(TRAINING_SET.c.created_at.desc(), TRAINING_SET.c.training_set_id.desc())
        .limit(limit)
    )
    if before is not None:
        other = TRAINING_SET.alias()
        known = sa.select(other.c.created_at, other.c.training_set_id)
        known = known.where(other.c.branch == branch, other.c.training_set_id == before)
        statement = statement.where(place < known.scalar_subquery())
    return rows_of(TrainingSetView, connection.execute(statement))


def delete_set(connection: Connection, training_set_id: UUID) -> bool:
    """Delete a training set; false if there is none of that id."""
    statement = sa.delete(TRAINING_SET).where(TRAINING_SET.c.training_set_id == training_set_id)
    return connection.execute(statement).rowcount == 1


def known_ids(connection: Connection, ids: Collection[UUID]) -> frozenset[UUID]:
    """Return those of the ids that training sets have; locks nothing."""
    statement = sa.select(TRAINING_SET.c.training_set_id).where(
        TRAINING_SET.c.training_set_id.in_(ids)
    )
    return frozenset(connection.execute(statement).scalars())
