"""Statements on summaries of features and columns, pinned windows and results of drift."""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.engine import Connection

from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import (
    ANSWER_OFFSET,
    FEATURE_DRIFT,
    FEATURE_SUMMARY,
    PINNED_WINDOW,
    TEXT,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.drift_views import DriftView, WindowView

HourKey = tuple[str, str, dt.datetime]
"""A branch, a feature and an hour."""


def answer_offsets(connection: Connection) -> dict[int, int]:
    """Read up to where logged queries have been summarized, by partition; locks nothing."""
    statement = sa.select(ANSWER_OFFSET.c.partition, ANSWER_OFFSET.c.next_offset)
    return {int(partition): int(offset) for partition, offset in connection.execute(statement)}


def lock_answer_offsets(connection: Connection) -> None:
    """Let one transaction at a time move the offsets, also those of new partitions."""
    connection.execute(sa.text("LOCK TABLE answer_offset IN SHARE ROW EXCLUSIVE MODE"))


def put_answer_offsets(connection: Connection, ends: Mapping[int, int]) -> None:
    """Set the offsets of some partitions."""
    if ends:
        rows = [{"partition": p, "next_offset": offset} for p, offset in sorted(ends.items())]
        statement = insert(ANSWER_OFFSET).values(rows)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["partition"],
                set_={"next_offset": statement.excluded.next_offset},
            )
        )


def summaries_at(connection: Connection, keys: Sequence[HourKey]) -> dict[HourKey, bytes]:
    """Read the stored summaries of some hours."""
    place = sa.tuple_(FEATURE_SUMMARY.c.branch, FEATURE_SUMMARY.c.feature, FEATURE_SUMMARY.c.hour)
    statement = sa.select(FEATURE_SUMMARY).where(place.in_(keys))
    return {
        (row.branch, row.feature, row.hour): bytes(row.summary)
        for row in connection.execute(statement)
    }


def put_summaries(connection: Connection, summaries: Mapping[HourKey, bytes]) -> None:
    """Store summaries of hours, over those that are stored."""
    rows = [
        {"branch": branch, "feature": feature, "hour": hour, "summary": summary}
        for (branch, feature, hour), summary in summaries.items()
    ]
    if rows:
        statement = insert(FEATURE_SUMMARY).values(rows)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["branch", "feature", "hour"],
                set_={"summary": statement.excluded.summary},
            )
        )


def summaries_between(
    connection: Connection,
    branch: str,
    span: tuple[dt.datetime, dt.datetime],
    features: Collection[str] | None,
) -> list[tuple[str, bytes]]:
    """Read the summaries of a branch's features in [start, end), with their features, by hour."""
    start, end = span
    columns = FEATURE_SUMMARY.c
    statement = (
        sa.select(columns.feature, columns.summary)
        .where(columns.branch == branch, columns.hour >= start, columns.hour < end)
        .order_by(columns.feature, columns.hour)
    )
    if features is not None:
        statement = statement.where(columns.feature.in_(features))
    return [(row.feature, bytes(row.summary)) for row in connection.execute(statement)]


def newest_summaries(connection: Connection) -> dict[tuple[str, str], dt.datetime]:
    """Read the newest hour with a summary, by branch and dataset or featureset."""
    columns = FEATURE_SUMMARY.c
    entity = _entity(columns.feature).label("entity")
    statement = sa.select(columns.branch, entity, sa.func.max(columns.hour).label("hour"))
    found = connection.execute(statement.group_by(columns.branch, entity))
    return {(row.branch, row.entity): row.hour for row in found}


def delete_old(connection: Connection, older_than: dt.timedelta) -> int:
    """Delete old summaries and results; return how many."""
    summaries = sa.delete(FEATURE_SUMMARY).where(FEATURE_SUMMARY.c.hour < NOW - older_than)
    results = sa.delete(FEATURE_DRIFT).where(FEATURE_DRIFT.c.at < NOW - older_than)
    return sum(connection.execute(statement).rowcount for statement in (summaries, results))


def entities(connection: Connection) -> frozenset[str]:
    """Return the datasets and featuresets with summaries or pinned windows."""
    found: set[str] = set()
    for table in (FEATURE_SUMMARY, PINNED_WINDOW):
        found.update(connection.execute(sa.select(_entity(table.c.feature)).distinct()).scalars())
    return frozenset(found)


def delete_of(connection: Connection, names: Collection[str]) -> int:
    """Delete the summaries and the pinned windows of datasets or featuresets; return how many."""
    deleted = 0
    for table in (FEATURE_SUMMARY, PINNED_WINDOW):
        statement = sa.delete(table).where(_entity(table.c.feature).in_(sorted(names)))
        deleted += connection.execute(statement).rowcount
    return deleted


def _entity(feature: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    return sa.func.split_part(feature, ".", 1)


def insert_window(
    connection: Connection,
    branch: str,
    name: str,
    span: tuple[dt.datetime, dt.datetime],
    summaries: Mapping[str, bytes],
) -> bool:
    """Insert a window with at least one feature; false if the branch has one of that name."""
    known = sa.select(PINNED_WINDOW.c.name).where(
        PINNED_WINDOW.c.branch == branch, PINNED_WINDOW.c.name == name
    )
    if connection.execute(known.limit(1)).first() is not None:
        return False
    start, end = span
    rows = [
        {
            "branch": branch,
            "name": name,
            "feature": feature,
            "from_at": start,
            "to_at": end,
            "summary": summary,
        }
        for feature, summary in summaries.items()
    ]
    connection.execute(insert(PINNED_WINDOW).values(rows))
    return True


def windows(connection: Connection, branch: str) -> tuple[WindowView, ...]:
    """List the windows of a branch, by name."""
    columns = PINNED_WINDOW.c
    statement = (
        sa.select(
            columns.name,
            columns.from_at,
            columns.to_at,
            sa.func.array_agg(sa.cast(columns.feature, TEXT)).label("features"),
        )
        .where(columns.branch == branch)
        .group_by(columns.name, columns.from_at, columns.to_at)
        .order_by(columns.name)
    )
    return tuple(
        WindowView(
            name=row.name,
            from_at=row.from_at,
            to_at=row.to_at,
            features=tuple(sorted(row.features)),
        )
        for row in connection.execute(statement)
    )


def window_summaries(connection: Connection, branch: str, name: str) -> dict[str, bytes]:
    """Read the summaries of a window by feature; empty without one of that name."""
    statement = sa.select(PINNED_WINDOW.c.feature, PINNED_WINDOW.c.summary).where(
        PINNED_WINDOW.c.branch == branch, PINNED_WINDOW.c.name == name
    )
    return {row.feature: bytes(row.summary) for row in connection.execute(statement)}


def delete_window(connection: Connection, branch: str, name: str) -> bool:
    """Delete a window; false if there is none of that name."""
    statement = sa.delete(PINNED_WINDOW).where(
        PINNED_WINDOW.c.branch == branch, PINNED_WINDOW.c.name == name
    )
    return connection.execute(statement).rowcount > 0


def put_drift(connection: Connection, found: Sequence[DriftView]) -> None:
    """Store results, over those of the same feature, reference and hours."""
    rows = [
        {
            "branch": one.branch,
            "feature": one.feature,
            "reference_kind": one.reference_kind.value,
            "reference": one.reference,
            "from_at": one.from_at,
            "to_at": one.to_at,
            "rows": one.rows,
            "reference_rows": one.reference_rows,
            "is_compared": one.is_compared,
            "severity": None if one.severity is None else one.severity.value,
            "metrics": one.metrics,
        }
        for one in found
    ]
    if not rows:
        return
    statement = insert(FEATURE_DRIFT).values(rows)
    changed = ("rows", "reference_rows", "is_compared", "severity", "metrics")
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[column.name for column in FEATURE_DRIFT.primary_key],
            set_={name: statement.excluded[name] for name in changed} | {"at": NOW},
        )
    )


def newest_drift(
    connection: Connection, limit: int, branches: Collection[str] | None
) -> tuple[DriftView, ...]:
    """List results, the newest first, optionally those of some branches only."""
    columns = FEATURE_DRIFT.c
    statement = (
        sa.select(FEATURE_DRIFT)
        .order_by(columns.at.desc(), columns.to_at.desc(), columns.branch, columns.feature)
        .limit(limit)
    )
    if branches is not None:
        statement = statement.where(columns.branch.in_(branches))
    return rows_of(DriftView, connection.execute(statement))


def current_drift(
    connection: Connection, within: dt.timedelta, branches: Collection[str] | None
) -> tuple[DriftView, ...]:
    """List the newest compared result of each feature and reference, if it is a finding.

    Results that were stored before `within` do not count.
    """
    columns = FEATURE_DRIFT.c
    key = (columns.branch, columns.feature, columns.reference_kind, columns.reference)
    newest = (
        sa.select(FEATURE_DRIFT)
        .ext(distinct_on(*key))
        .where(columns.is_compared, columns.at > NOW - within)
        .order_by(*key, columns.to_at.desc(), columns.from_at.desc())
        .subquery()
    )
    statement = (
        sa.select(newest)
        .where(newest.c.severity.is_not(None))
        .order_by(newest.c.severity, newest.c.branch, newest.c.feature)
    )
    if branches is not None:
        statement = statement.where(newest.c.branch.in_(branches))
    return rows_of(DriftView, connection.execute(statement))
