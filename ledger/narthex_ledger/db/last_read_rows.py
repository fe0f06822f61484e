"""Statements on when entities of branches were last read."""

import datetime as dt
from collections.abc import Collection, Mapping

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.schema import BIG, BRANCH, ID, INSTANT, METADATA, TEXT
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.usage_views import (
    WHOLE_BRANCH,
    LastRead,
    ReadAges,
    ReadEntity,
    ReadKind,
)
from narthex_ledger.model.views import BranchId, TenantId

LAST_READ = sa.Table(
    "last_read",
    METADATA,
    sa.Column("branch_id", BIG, primary_key=True),
    sa.Column("kind", TEXT, primary_key=True),
    sa.Column("name", TEXT, primary_key=True),
    sa.Column("counted_since", INSTANT),
    sa.Column("read_at", INSTANT),
)
_KEY = ("branch_id", "kind", "name")
_ENTITIES = (
    sa.func.unnest(
        sa.cast(sa.bindparam("kinds"), ARRAY(TEXT)), sa.cast(sa.bindparam("names"), ARRAY(TEXT))
    )
    .table_valued(sa.column("kind", TEXT), sa.column("name", TEXT), name="given")
    .render_derived()
)
_READ = (
    sa.func.unnest(
        sa.cast(sa.bindparam("branches"), ARRAY(TEXT)),
        sa.cast(sa.bindparam("kinds"), ARRAY(TEXT)),
        sa.cast(sa.bindparam("names"), ARRAY(TEXT)),
        sa.cast(sa.bindparam("ages"), ARRAY(sa.Interval())),
    )
    .table_valued(
        sa.column("branch", TEXT),
        sa.column("kind", TEXT),
        sa.column("name", TEXT),
        sa.column("age", sa.Interval()),
        name="given",
    )
    .render_derived()
)


def lock_serving(connection: Connection, branch_id: BranchId, commit_id: object) -> bool:
    """Keep an active branch from changing what it serves; return whether it serves a commit.

    Args:
        connection: The connection.
        branch_id: The branch.
        commit_id: The commit; None for a branch that serves nothing.
    """
    serving = BRANCH.c.serving_commit_id.is_not_distinct_from(sa.literal(commit_id, ID))
    statement = sa.select(BRANCH.c.branch_id).where(
        BRANCH.c.branch_id == branch_id, BRANCH.c.state == "active", serving
    )
    return connection.execute(statement.with_for_update(read=True)).first() is not None


def put_entities(
    connection: Connection, branch_id: BranchId, entities: Collection[ReadEntity]
) -> None:
    """Begin to count the reads of those entities of a branch that are new; end the others."""
    given = {"kinds": [kind.value for kind, _ in entities], "names": [name for _, name in entities]}
    rows = sa.select(sa.literal(branch_id, BIG), _ENTITIES.c.kind, _ENTITIES.c.name)
    connection.execute(insert(LAST_READ).from_select([*_KEY], rows).on_conflict_do_nothing(), given)
    is_given = sa.exists().where(
        _ENTITIES.c.kind == LAST_READ.c.kind, _ENTITIES.c.name == LAST_READ.c.name
    )
    connection.execute(
        sa.delete(LAST_READ).where(LAST_READ.c.branch_id == branch_id, sa.not_(is_given)), given
    )


def raise_reads(
    connection: Connection, tenant: TenantId, ages: ReadAges, *, step: dt.timedelta
) -> None:
    """Store when entities of active branches were read, if that is newer by at least a step."""
    # In one order, so that two processes do not wait for each other.
    ordered = sorted(ages.items(), key=lambda one: (one[0][0], one[0][1][0].value, one[0][1][1]))
    now = connection.execute(sa.select(NOW)).scalar_one()  # it goes on within a statement
    at = sa.cast(sa.literal(now, INSTANT) - _READ.c.age, INSTANT)
    rows = (
        sa.select(BRANCH.c.branch_id, _READ.c.kind, _READ.c.name, at, at)
        .join(BRANCH, BRANCH.c.name == _READ.c.branch)
        .where(BRANCH.c.tenant_id == tenant, BRANCH.c.state == "active")
        .order_by(_READ.c.branch, _READ.c.kind, _READ.c.name)
    )
    row = insert(LAST_READ).from_select([*_KEY, "counted_since", "read_at"], rows)
    stored = LAST_READ.c
    # A read may be stored after the entity was first seen, although it came just before.
    least = sa.func.coalesce(stored.read_at + step, stored.counted_since - step, type_=INSTANT)
    newest = sa.func.greatest(row.excluded.read_at, stored.counted_since)
    connection.execute(
        row.on_conflict_do_update(
            index_elements=_KEY, set_={"read_at": newest}, where=row.excluded.read_at >= least
        ),
        {
            "branches": [branch for (branch, _), _ in ordered],
            "kinds": [kind.value for (_, (kind, _)), _ in ordered],
            "names": [name for (_, (_, name)), _ in ordered],
            "ages": [age for _, age in ordered],
        },
    )


def delete_reads(connection: Connection, *, deleted_for: dt.timedelta) -> int:
    """Delete the rows of branches that have been deleted for so long; return how many."""
    is_gone = sa.exists().where(
        BRANCH.c.branch_id == LAST_READ.c.branch_id,
        BRANCH.c.state == "deleted",
        BRANCH.c.deleted_at < NOW - deleted_for,
    )
    return connection.execute(sa.delete(LAST_READ).where(is_gone)).rowcount


def reads_of(connection: Connection, branch_id: BranchId) -> dict[ReadEntity, LastRead]:
    """Read when the entities of a branch were last read."""
    statement = sa.select(LAST_READ).where(LAST_READ.c.branch_id == branch_id)
    return {
        (ReadKind(row.kind), row.name): LastRead(
            counted_since=row.counted_since, read_at=row.read_at
        )
        for row in connection.execute(statement)
    }


def branch_reads(connection: Connection) -> Mapping[BranchId, LastRead]:
    """Read when each branch was last read."""
    statement = sa.select(LAST_READ).where(LAST_READ.c.kind == WHOLE_BRANCH[0].value)
    return {
        BranchId(row.branch_id): LastRead(counted_since=row.counted_since, read_at=row.read_at)
        for row in connection.execute(statement)
    }
