"""Statements on diffs of values between what readers read and a commit."""

import datetime as dt
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import VALUE_DIFF
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.audit_views import ValueDiffView


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


def delete_examples(connection: Connection, older_than: dt.timedelta) -> int:
    """Delete the examples of old diffs; return of how many."""
    is_old = VALUE_DIFF.c.at < NOW - older_than
    old = sa.update(VALUE_DIFF).where(VALUE_DIFF.c.examples.is_not(None), is_old)
    return connection.execute(old.values(examples=None)).rowcount
