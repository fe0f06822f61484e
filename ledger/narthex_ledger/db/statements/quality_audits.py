"""Statements on quality audits, of which gates of commits are some, and on diffs of values."""

import datetime as dt
from collections.abc import Collection
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import AUDIT, VALUE_DIFF
from narthex_ledger.db.statements.commits import NOW, insert_event
from narthex_ledger.model.audit_views import AuditView, ValueDiffView


def put_audit(connection: Connection, audit: AuditView) -> None:
    """Insert an audit's outcome and an event of it, which names no one.

    The same id, or a second outcome of a gate, changes nothing.
    """
    inserted = connection.execute(
        insert(AUDIT)
        .values(
            audit_id=audit.audit_id,
            dataset=audit.dataset,
            branch=audit.branch,
            from_us=audit.from_us,
            to_us=audit.to_us,
            result=audit.result,
            success=audit.success,
            commit_id=audit.commit_id,
            is_critical=audit.is_critical,
            examples=audit.examples,
        )
        .on_conflict_do_nothing()
    )
    if inserted.rowcount == 1:
        insert_event(
            connection, "audited", actor="ledger", detail={"audit_id": str(audit.audit_id)}
        )


def audit_rows(
    connection: Connection, limit: int, branches: Collection[str] | None, dataset: str | None
) -> tuple[AuditView, ...]:
    """List audits, the newest first, optionally those of some branches or of one dataset only."""
    statement = sa.select(AUDIT).order_by(AUDIT.c.at.desc()).limit(limit)
    if dataset is not None:
        statement = statement.where(AUDIT.c.dataset == dataset)
    if branches is not None:
        statement = statement.where(AUDIT.c.branch.in_(branches))
    return rows_of(AuditView, connection.execute(statement))


def gate_rows(connection: Connection, commit_id: UUID) -> tuple[AuditView, ...]:
    """List the outcomes of a commit's gates, by dataset; they never change."""
    statement = sa.select(AUDIT).where(AUDIT.c.commit_id == commit_id).order_by(AUDIT.c.dataset)
    return rows_of(AuditView, connection.execute(statement))


def newest_of_datasets(connection: Connection, within: dt.timedelta) -> tuple[AuditView, ...]:
    """List the newest audits of each dataset of what readers read, if they are young enough.

    There is one of each time by which rows are chosen, so that none hides another.
    """
    # As a sub-select, the instant is computed once, so that the index applies.
    since = sa.select(NOW - within).scalar_subquery()
    by = AUDIT.c.result["by"].astext
    statement = (
        sa.select(AUDIT)
        .where(AUDIT.c.commit_id.is_(None), AUDIT.c.at > since)
        .ext(distinct_on(AUDIT.c.branch, AUDIT.c.dataset, by))
        .order_by(AUDIT.c.branch, AUDIT.c.dataset, by, AUDIT.c.at.desc())
    )
    return rows_of(AuditView, connection.execute(statement))


def delete_examples(connection: Connection, older_than: dt.timedelta) -> int:
    """Delete the examples of old audits; return of how many."""
    old = sa.update(AUDIT).where(AUDIT.c.examples.is_not(None), AUDIT.c.at < NOW - older_than)
    return connection.execute(old.values(examples=None)).rowcount


def put_diff(connection: Connection, diff: ValueDiffView) -> None:
    """Insert the diff of a dataset; a second one of the same commit changes nothing."""
    connection.execute(
        insert(VALUE_DIFF)
        .values(
            commit_id=diff.commit_id,
            dataset=diff.dataset,
            result=diff.result,
            examples=diff.examples,
        )
        .on_conflict_do_nothing()
    )


def diff_rows(connection: Connection, commit_id: UUID) -> tuple[ValueDiffView, ...]:
    """List the diffs of a commit, by dataset."""
    of_commit = VALUE_DIFF.c.commit_id == commit_id
    statement = sa.select(VALUE_DIFF).where(of_commit).order_by(VALUE_DIFF.c.dataset)
    return rows_of(ValueDiffView, connection.execute(statement))


def delete_diff_examples(connection: Connection, older_than: dt.timedelta) -> int:
    """Delete the examples of old diffs; return of how many."""
    is_old = VALUE_DIFF.c.at < NOW - older_than
    old = sa.update(VALUE_DIFF).where(VALUE_DIFF.c.examples.is_not(None), is_old)
    return connection.execute(old.values(examples=None)).rowcount
