"""Alerts, notices and times for tests of alerts."""

import datetime as dt
import itertools
from collections.abc import Iterator
from uuid import UUID

from narthex_ledger import AlertState, AlertView, NoticeView, SilenceView

NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
HOUR = dt.timedelta(hours=1)


def ids() -> Iterator[UUID]:
    return (UUID(int=number) for number in itertools.count(1))


def alert(
    subject: str = "Orders",
    *,
    rule: str = "freshness",
    branch: str = "main",
    severity: str = "warning",
    started_at: dt.datetime = NOON,
) -> AlertView:
    return AlertView(
        rule=rule,
        branch=branch,
        subject=subject,
        severity=severity,
        summary=f"`{subject}` is stale.",
        remedy="Look at its source.",
        page="console/jobs",
        started_at=started_at,
    )


def silence(**patterns: str) -> SilenceView:
    every = {"rule": "*", "branch": "*", "subject": "*"}
    return SilenceView(
        silence_id=UUID(int=99),
        reason="a test",
        created_by="ann",
        until=NOON + HOUR,
        **(every | patterns),
    )


def state(
    *,
    now: dt.datetime = NOON,
    alerts: tuple[AlertView, ...] = (),
    notices: tuple[NoticeView, ...] = (),
    silences: tuple[SilenceView, ...] = (),
) -> AlertState:
    return AlertState(
        now=now, alerts=alerts, reported=(), silences=silences, notices=notices, memory=None
    )
