"""The content of messages: one JSON document, and its forms for people and for Alertmanager."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import attrs

from narthex._base import Json
from narthex_server.alerts.configuration import URGENCY
from narthex_server.alerts.notices import FIRING, RESOLVED

MOST_LISTED: Final = 20
"""How many alerts a text for people lists; the page of the console has all."""

GREATEST_TEXT: Final = 500
"""How many characters of a sentence a text for people has."""


@attrs.frozen(kw_only=True)
class ListedAlert:
    """An alert of a message."""

    status: str
    subject: str
    severity: str
    summary: str
    remedy: str
    link: str
    started_at: str
    ended_at: str | None


@attrs.frozen(kw_only=True)
class AlertMessage:
    """A message about the alerts of one rule and branch.

    Attributes:
        message_id: The same each time that its delivery is tried.
        install_id: The installation that it comes from.
        new: The subjects of alerts that the receiver did not know.
    """

    message_id: UUID
    install_id: str
    rule: str
    branch: str
    alerts: tuple[ListedAlert, ...]
    new: frozenset[str]

    @property
    def firing(self) -> tuple[ListedAlert, ...]:
        """The alerts that fire, the most urgent first."""
        return tuple(one for one in self.alerts if one.status == FIRING)

    @property
    def resolved(self) -> tuple[ListedAlert, ...]:
        """The alerts that have ended."""
        return tuple(one for one in self.alerts if one.status == RESOLVED)

    @property
    def status(self) -> str:
        """`firing`, or `resolved` if no alert fires any more."""
        return FIRING if self.firing else RESOLVED

    @property
    def severity(self) -> str:
        """The most urgent severity of the alerts that fire; otherwise of those that ended."""
        severities = [one.severity for one in self.firing or self.alerts]
        return next((one for one in URGENCY if one in severities), URGENCY[-1])

    @property
    def title(self) -> str:
        """A line for people."""
        rule = self.rule.replace("_", " ")
        where = f" on branch {self.branch}" if self.branch else ""
        shown = self.firing or self.resolved
        what = shown[0].subject if len(shown) == 1 else f"{len(shown)} alerts"
        state = self.severity.upper() if self.firing else "RESOLVED"
        return _line(f"[{state}] {rule}{where}: {what}")

    def plain(self) -> Json:
        """Render as the JSON of webhooks."""
        return {
            "id": str(self.message_id),
            "installation": self.install_id,
            "status": self.status,
            "severity": self.severity,
            "rule": self.rule,
            "branch": self.branch,
            "title": self.title,
            "alerts": [
                {
                    "status": one.status,
                    "is_new": one.status == FIRING and one.subject in self.new,
                    "subject": one.subject,
                    "severity": one.severity,
                    "summary": one.summary,
                    "remedy": one.remedy,
                    "link": one.link,
                    "started_at": one.started_at,
                    "ended_at": one.ended_at,
                }
                for one in self.alerts
            ],
        }


def read_message(
    content: Json, *, message_id: UUID, install_id: str, console_url: str
) -> AlertMessage:
    """Build a message from the content of a notice, as `narthex_server.alerts.notices` makes it."""
    plain = content if isinstance(content, dict) else {}
    rule, branch = str(plain.get("rule")), str(plain.get("branch"))
    listed = [
        _alert(one, status, branch=branch, console_url=console_url)
        for status in (FIRING, RESOLVED)
        for one in _dicts(plain.get(status))
    ]
    new = plain.get("new")
    return AlertMessage(
        message_id=message_id,
        install_id=install_id,
        rule=rule,
        branch=branch,
        alerts=tuple(listed),
        new=frozenset(str(one) for one in new) if isinstance(new, list) else frozenset(),
    )


def _dicts(plain: Json) -> list[dict[str, Json]]:
    return [one for one in plain if isinstance(one, dict)] if isinstance(plain, list) else []


def _alert(plain: Mapping[str, Json], status: str, *, branch: str, console_url: str) -> ListedAlert:
    ended_at = plain.get("ended_at")
    return ListedAlert(
        status=status,
        subject=str(plain.get("subject")),
        severity=str(plain.get("severity")),
        summary=str(plain.get("summary")),
        remedy=str(plain.get("remedy")),
        link=link_to(console_url, str(plain.get("page")), branch),
        started_at=str(plain.get("started_at")),
        ended_at=str(ended_at) if ended_at and status == RESOLVED else None,
    )


def link_to(console_url: str, page: str, branch: str) -> str:
    """Return the address of a page of the console."""
    query = f"?{urlencode({'branch': branch})}" if branch else ""
    return f"{console_url.rstrip('/')}/{page}{query}"


def slack_text(message: AlertMessage) -> str:
    """Render for Slack: its characters with a meaning are escaped, so that none is a mention."""
    lines = [f"*{_escaped(message.title)}*", *_sentences(message, slack=True)]
    return "\n".join(lines)


def email_of(
    message: AlertMessage, *, sender: str, to: Sequence[str], sent_at: dt.datetime
) -> EmailMessage:
    """Render as an e-mail; mail programs put the messages of one rule and branch together."""
    mail = EmailMessage()
    mail["Subject"] = message.title
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Date"] = format_datetime(sent_at)
    domain = sender.rpartition("@")[2]
    mail["Message-ID"] = f"<{message.message_id}@{domain}>"
    thread = urlencode({"rule": message.rule, "branch": message.branch})
    mail["References"] = f"<{message.install_id}.{thread}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n".join([message.title, "", *_sentences(message, slack=False)]) + "\n")
    return mail


def _sentences(message: AlertMessage, *, slack: bool) -> Iterator[str]:
    shown = message.alerts[:MOST_LISTED]
    for one in shown:
        state = "resolved: " if one.status == RESOLVED else f"{one.severity}: "
        if slack:
            yield f"• {_escaped(state + _line(one.summary))}"
            if one.status == FIRING:
                yield f"   {_escaped(_line(one.remedy))} <{_escaped(one.link)}|Open>"
        else:
            yield f"- {state}{_line(one.summary)}"
            if one.status == FIRING:
                yield f"  {_line(one.remedy)}"
                yield f"  {one.link}"
    more = len(message.alerts) - len(shown)
    if more:
        yield f"… and {more} more"


def _line(text: str) -> str:
    """Return a text on one line, without control characters, and cut to a length."""
    plain = "".join(one if one.isprintable() else " " for one in text)
    return plain if len(plain) <= GREATEST_TEXT else f"{plain[:GREATEST_TEXT]}…"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def alertmanager_alerts(message: AlertMessage, *, until: dt.datetime) -> Json:
    """Render as the body of Alertmanager's `POST /api/v2/alerts`.

    Args:
        message: The message.
        until: When Alertmanager ends an alert that is not posted again.
    """
    return [
        {
            "labels": {
                "alertname": message.rule,
                "severity": one.severity,
                "branch": message.branch,
                "subject": one.subject,
                "installation": message.install_id,
            },
            "annotations": {"summary": one.summary, "description": one.remedy},
            "startsAt": one.started_at,
            "endsAt": one.ended_at or until.isoformat(),
            "generatorURL": one.link,
        }
        for one in message.alerts
    ]
