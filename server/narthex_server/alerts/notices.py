"""Grouping and repetition: pure functions from alerts to what each receiver gets next.

The alerts of one rule and branch are one message, so that a hundred broken datasets are not a
hundred messages. A receiver gets a message when the set of these alerts changes, and again after a
while as long as they fire. The last message about an alert says that it is resolved.
"""

import datetime as dt
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from uuid import UUID

import attrs

from narthex._base import Json
from narthex_ledger import AlertState, AlertView, NoticeChange, NoticeView, SilenceView
from narthex_server.alerts.configuration import URGENCY, AlertsFile, ReceiverTable

FIRING, RESOLVED = "firing", "resolved"


@attrs.frozen(kw_only=True)
class Timing:
    """How long messages about the alerts of one rule and branch wait."""

    group_wait: dt.timedelta
    group_interval: dt.timedelta
    repeat_every: dt.timedelta


def timing_of(file: AlertsFile, receiver: ReceiverTable) -> Timing:
    """Return the timing of a receiver's messages."""
    return Timing(
        group_wait=file.group_wait,
        group_interval=file.group_interval,
        repeat_every=receiver.repeat_every or file.repeat_every,
    )


def is_silenced(alert: AlertView, silences: Iterable[SilenceView]) -> bool:
    """Return whether one of the silences matches an alert."""
    return any(
        fnmatch.fnmatchcase(alert.rule, silence.rule)
        and fnmatch.fnmatchcase(alert.branch, silence.branch)
        and fnmatch.fnmatchcase(alert.subject, silence.subject)
        for silence in silences
    )


def next_changes(
    state: AlertState, alerts: Sequence[AlertView], file: AlertsFile, ids: Iterable[UUID]
) -> list[NoticeChange]:
    """Return the notices that change, for all receivers.

    Args:
        state: The stored state, of which the silences and notices count.
        alerts: The alerts that fire now.
        file: The receivers, and the timing.
        ids: Ids of new messages, as many as needed.
    """
    fresh = iter(ids)
    known = {(one.receiver, one.rule, one.branch): one for one in state.notices}
    found = []
    for receiver in file.receivers:
        mine = sorted((a for a in alerts if receiver.gets(a)), key=lambda a: a.key)
        groups = {key: [*group] for key, group in groupby(mine, lambda a: (a.rule, a.branch))}
        named = {key[1:] for key in known if key[0] == receiver.name}
        for rule, branch in sorted(groups.keys() | named):
            before = known.get((receiver.name, rule, branch))
            after = next_notice(
                before
                or NoticeView(receiver=receiver.name, rule=rule, branch=branch, announced={}),
                groups.get((rule, branch), []),
                silences=state.silences,
                now=state.now,
                timing=timing_of(file, receiver),
                ids=fresh,
            )
            if after is not None:
                found.append(NoticeChange(before=before, after=after))
    return found


def next_notice(
    notice: NoticeView,
    alerts: Sequence[AlertView],
    *,
    silences: Sequence[SilenceView],
    now: dt.datetime,
    timing: Timing,
    ids: Iterable[UUID],
) -> NoticeView | None:
    """Return a receiver's notice with its next message; None if it stays as it is.

    Alerts that are silenced before they were announced are not. An announced alert that is silenced
    is not repeated, and its end is announced.

    Args:
        notice: What the receiver knows of the alerts of this rule and branch.
        alerts: Those of them that fire now.
        silences: The silences that apply now.
        now: The instant of the ledger's clock.
        timing: How long messages wait.
        ids: Ids of new messages, of which the first is used for a new one.
    """
    firing = {alert.subject: alert for alert in alerts}
    loud = {s: alert for s, alert in firing.items() if not is_silenced(alert, silences)}
    ended = {s: one for s, one in notice.announced.items() if s not in firing}
    news = [s for s, alert in loud.items() if _severity(notice.announced.get(s)) != alert.severity]
    is_due = _is_due(notice, [loud[s] for s in news], now=now, timing=timing)
    repeats = bool(loud.keys() & notice.announced.keys()) and _is_past(
        notice.announced_at, timing.repeat_every, now
    )
    if not ((news or ended) and is_due) and not repeats:
        return None
    announced: dict[str, Json] = {
        subject: plain_alert(alert)
        for subject, alert in firing.items()
        if subject in loud or subject in notice.announced
    }
    resolved = {**_resolved_before(notice.message), **ended}
    message = _message(
        notice,
        firing=[one for subject, one in announced.items() if subject in loud],
        resolved=[
            {**one, "ended_at": one.get("ended_at", now.isoformat())}
            for subject, one in sorted(resolved.items())
            if subject not in firing and isinstance(one, dict)
        ],
        news=news,
    )
    return attrs.evolve(
        notice,
        announced=announced,
        announced_at=now,
        message=message,
        message_id=next(iter(ids)),
        # While a receiver cannot be reached, a newer message waits as long as the one it replaces.
        attempts=notice.attempts,
        next_attempt_at=notice.next_attempt_at or now,
    )


def _is_due(
    notice: NoticeView, news: Sequence[AlertView], *, now: dt.datetime, timing: Timing
) -> bool:
    """Return whether a changed set of alerts may be announced now."""
    if not _is_past(notice.announced_at, timing.group_interval, now):
        return False
    if notice.announced or not news:
        return True
    return now - min(alert.started_at for alert in news) >= timing.group_wait


def _is_past(at: dt.datetime | None, span: dt.timedelta, now: dt.datetime) -> bool:
    return at is None or now - at >= span


def _severity(plain: Json) -> Json:
    return plain.get("severity") if isinstance(plain, dict) else None


def _resolved_before(message: Json) -> dict[str, Json]:
    """Return the alerts of a message that a receiver has not got, as it never heard their end.

    Those that fired in it count too: if they do not fire any more, they have ended.
    """
    if not isinstance(message, dict):
        return {}
    listed = [*_listed(message.get("resolved")), *_listed(message.get("firing"))]
    return {str(one["subject"]): one for one in listed}


def _listed(plain: Json) -> list[dict[str, Json]]:
    return [one for one in plain if isinstance(one, dict)] if isinstance(plain, list) else []


def _message(
    notice: NoticeView,
    *,
    firing: Sequence[Json],
    resolved: Sequence[dict[str, Json]],
    news: Sequence[str],
) -> Json:
    return {
        "rule": notice.rule,
        "branch": notice.branch,
        "status": FIRING if firing else RESOLVED,
        "firing": sorted(firing, key=_urgency),
        "resolved": [*resolved],
        "new": [*sorted(news)],
    }


def _urgency(plain: Json) -> tuple[int, str]:
    alert: Mapping[str, Json] = plain if isinstance(plain, dict) else {}
    severity = str(alert.get("severity"))
    place = URGENCY.index(severity) if severity in URGENCY else len(URGENCY)
    return place, str(alert.get("subject"))


def plain_alert(alert: AlertView) -> dict[str, Json]:
    """Render an alert as JSON."""
    return {
        "subject": alert.subject,
        "severity": alert.severity,
        "summary": alert.summary,
        "remedy": alert.remedy,
        "page": alert.page,
        "started_at": alert.started_at.isoformat(),
    }
