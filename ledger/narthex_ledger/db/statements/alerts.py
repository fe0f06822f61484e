"""Statements on alerts, on their findings, silences and notices, and on their evaluator."""

import datetime as dt
from collections.abc import Collection, Sequence
from uuid import UUID

import attrs
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.engine import Connection

from narthex._base import Json
from narthex_ledger.db.mapper import rows_of
from narthex_ledger.db.schema import (
    ALERT,
    ALERT_EVALUATOR,
    ALERT_FINDING,
    ALERT_NOTICE,
    ALERT_SILENCE,
    AUDIT,
    BRANCH,
    DEPLOY_COMMIT,
    PROMOTION,
)
from narthex_ledger.db.statements.commits import NOW
from narthex_ledger.model.alert_views import (
    AlertFinding,
    AlertKey,
    AlertState,
    AlertView,
    EndedCommitView,
    NoticeView,
    SilenceView,
)
from narthex_ledger.model.states import CommitKind, CommitState

_KEY = ("rule", "branch", "subject")
_GROUP = ("receiver", "rule", "branch")
_ALERT_KEY = sa.tuple_(ALERT.c.rule, ALERT.c.branch, ALERT.c.subject)


def holds_evaluation(connection: Connection, owner: str, *, lock: bool) -> bool:
    """Return whether an owner has the lease; with `lock`, it keeps it for this transaction."""
    statement = sa.select(ALERT_EVALUATOR.c.one).where(
        ALERT_EVALUATOR.c.owner == owner, ALERT_EVALUATOR.c.expires_at > NOW
    )
    found = connection.execute(statement.with_for_update() if lock else statement)
    return found.scalar_one_or_none() is not None


def put_memory(connection: Connection, memory: Json) -> None:
    """Store what the evaluator remembers."""
    connection.execute(sa.update(ALERT_EVALUATOR).values(memory=memory))


def read_state(connection: Connection) -> AlertState:
    """Read all alerts, the findings and silences that have not ended, and all notices."""
    now: dt.datetime = connection.execute(sa.select(NOW)).scalar_one()
    reported = sa.select(ALERT_FINDING).where(ALERT_FINDING.c.expires_at > NOW)
    silences = sa.select(ALERT_SILENCE).where(ALERT_SILENCE.c.until > NOW)
    order = ALERT_SILENCE.c.until, ALERT_SILENCE.c.silence_id
    alerts = sa.select(ALERT).order_by(*(ALERT.c[name] for name in _KEY))
    notices = sa.select(ALERT_NOTICE).order_by(*(ALERT_NOTICE.c[name] for name in _GROUP))
    return AlertState(
        now=now,
        alerts=rows_of(AlertView, connection.execute(alerts)),
        reported=rows_of(
            AlertFinding,
            connection.execute(reported.order_by(*(ALERT_FINDING.c[name] for name in _KEY))),
        ),
        silences=rows_of(SilenceView, connection.execute(silences.order_by(*order))),
        notices=rows_of(NoticeView, connection.execute(notices)),
        memory=connection.execute(sa.select(ALERT_EVALUATOR.c.memory)).scalar_one(),
    )


def put_alerts(connection: Connection, findings: Sequence[AlertFinding]) -> None:
    """Insert alerts, or change those that fire already; these keep their start."""
    if not findings:
        return
    row = insert(ALERT).values([attrs.asdict(finding) for finding in findings])
    changed = {name: row.excluded[name] for name in ("severity", "summary", "remedy", "page")}
    connection.execute(row.on_conflict_do_update(index_elements=_KEY, set_=changed))


def delete_alerts(connection: Connection, keys: Collection[AlertKey]) -> None:
    """Delete alerts that have ended."""
    if keys:
        connection.execute(sa.delete(ALERT).where(_ALERT_KEY.in_(sorted(keys))))


def put_finding(connection: Connection, finding: AlertFinding, lasts: dt.timedelta) -> None:
    """Insert a finding of another process, or repeat it."""
    values = {**attrs.asdict(finding), "expires_at": NOW + lasts}
    row = insert(ALERT_FINDING).values(**values)
    connection.execute(row.on_conflict_do_update(index_elements=_KEY, set_=values))


def delete_finding(connection: Connection, key: AlertKey) -> bool:
    """Delete a finding of another process; false if there is none."""
    place = sa.tuple_(ALERT_FINDING.c.rule, ALERT_FINDING.c.branch, ALERT_FINDING.c.subject)
    return connection.execute(sa.delete(ALERT_FINDING).where(place == key)).rowcount == 1


def put_silence(connection: Connection, silence: SilenceView) -> None:
    """Insert a silence; the same id changes nothing."""
    values = attrs.asdict(silence)
    del values["created_at"]
    connection.execute(insert(ALERT_SILENCE).values(**values).on_conflict_do_nothing())


def delete_silence(connection: Connection, silence_id: UUID) -> bool:
    """Delete a silence; false if there is none of that id."""
    statement = sa.delete(ALERT_SILENCE).where(ALERT_SILENCE.c.silence_id == silence_id)
    return connection.execute(statement).rowcount == 1


def put_notice(connection: Connection, before: NoticeView | None, notice: NoticeView) -> None:
    """Insert a notice, or change it if its message is still the one that was read before."""
    values = attrs.asdict(notice)
    row = insert(ALERT_NOTICE).values(**values)
    if before is None:
        connection.execute(row.on_conflict_do_nothing())
        return
    same = ALERT_NOTICE.c.message_id.is_not_distinct_from(before.message_id)
    place = (ALERT_NOTICE.c[name] == values[name] for name in _GROUP)
    connection.execute(sa.update(ALERT_NOTICE).where(*place, same).values(**values))


def due_notices(connection: Connection) -> tuple[NoticeView, ...]:
    """List the notices with a message whose delivery is due, the longest waiting first."""
    statement = sa.select(ALERT_NOTICE).where(ALERT_NOTICE.c.next_attempt_at <= NOW)
    order = (ALERT_NOTICE.c.next_attempt_at, *(ALERT_NOTICE.c[name] for name in _GROUP))
    return rows_of(NoticeView, connection.execute(statement.order_by(*order)))


def note_delivery(connection: Connection, message_id: UUID) -> bool:
    """Record that a receiver got a message; false if a newer one has replaced it."""
    statement = sa.update(ALERT_NOTICE).where(ALERT_NOTICE.c.message_id == message_id)
    delivered = statement.values(
        message_id=None,
        message=None,
        attempts=0,
        next_attempt_at=None,
        error="",
        delivered_at=NOW,
    )
    return connection.execute(delivered).rowcount == 1


def note_failure(connection: Connection, message_id: UUID, error: str, delay: dt.timedelta) -> None:
    """Record why a message was not delivered, and when to try again."""
    statement = sa.update(ALERT_NOTICE).where(ALERT_NOTICE.c.message_id == message_id)
    connection.execute(
        statement.values(
            attempts=ALERT_NOTICE.c.attempts + 1, next_attempt_at=NOW + delay, error=error
        )
    )


def delete_old(
    connection: Connection, receivers: Collection[str], older_than: dt.timedelta
) -> None:
    """Delete ended findings and silences, notices of no use, and those of other receivers."""
    connection.execute(sa.delete(ALERT_FINDING).where(ALERT_FINDING.c.expires_at < NOW))
    old = ALERT_SILENCE.c.until < NOW - older_than
    connection.execute(sa.delete(ALERT_SILENCE).where(old))
    is_idle = sa.and_(
        ALERT_NOTICE.c.announced == {},
        ALERT_NOTICE.c.message.is_(None),
        ALERT_NOTICE.c.announced_at < NOW - older_than,
    )
    is_gone = ALERT_NOTICE.c.receiver.not_in(sorted(receivers))
    connection.execute(sa.delete(ALERT_NOTICE).where(sa.or_(is_idle, is_gone)))


def newest_ended_commits(
    connection: Connection, within: dt.timedelta
) -> tuple[EndedCommitView, ...]:
    """List the deployment of each branch that ended last, or is being undone."""
    since = sa.select(NOW - within).scalar_subquery()
    ended_at = sa.func.coalesce(DEPLOY_COMMIT.c.finished_at, NOW)
    is_broken = (
        sa.select(AUDIT.c.audit_id)
        .where(AUDIT.c.commit_id == DEPLOY_COMMIT.c.commit_id, AUDIT.c.is_critical)
        .exists()
    )
    statement = (
        sa.select(
            DEPLOY_COMMIT.c.commit_id,
            BRANCH.c.name.label("branch"),
            DEPLOY_COMMIT.c.state,
            PROMOTION.c.state.label("promotion"),
            DEPLOY_COMMIT.c.error,
            is_broken.label("is_broken"),
            DEPLOY_COMMIT.c.cancel_requested_at.is_not(None).label("is_cancelled"),
        )
        .join(BRANCH, BRANCH.c.branch_id == DEPLOY_COMMIT.c.branch_id)
        .outerjoin(PROMOTION, PROMOTION.c.commit_id == DEPLOY_COMMIT.c.commit_id)
        .where(
            DEPLOY_COMMIT.c.kind == CommitKind.DEPLOY.value,
            sa.or_(
                DEPLOY_COMMIT.c.finished_at > since,
                DEPLOY_COMMIT.c.state == CommitState.ABORTING.value,
            ),
            BRANCH.c.state == "active",
        )
        .ext(distinct_on(BRANCH.c.name))
        .order_by(BRANCH.c.name, ended_at.desc())
    )
    return rows_of(EndedCommitView, connection.execute(statement))
