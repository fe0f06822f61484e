"""The input and output values of alerts: frozen values, never rows."""

import datetime as dt
from typing import TypeAlias
from uuid import UUID

import attrs

from narthex._base import Json

AlertKey: TypeAlias = tuple[str, str, str]
"""The rule, the branch and the subject of an alert."""


@attrs.frozen(kw_only=True)
class AlertFinding:
    """A condition that a person should know of, as a rule finds it.

    Attributes:
        rule: The rule that found it.
        branch: The branch that it concerns; empty if it concerns the installation as a whole.
        subject: The dataset, job, commit, token … that it is about.
        severity: `critical`, `warning` or `info`.
        summary: A sentence on what is wrong.
        remedy: A sentence on what to do.
        page: The address of a page below the console's root, such as `console/jobs`.
    """

    rule: str
    branch: str
    subject: str
    severity: str
    summary: str
    remedy: str
    page: str

    @property
    def key(self) -> AlertKey:
        """The identity of the alert."""
        return self.rule, self.branch, self.subject


@attrs.frozen(kw_only=True)
class AlertView(AlertFinding):
    """A finding that fires, and since when."""

    started_at: dt.datetime


@attrs.frozen(kw_only=True)
class SilenceView:
    """Alerts that are not sent until an instant.

    Attributes:
        rule: A shell pattern for the rule.
        branch: A shell pattern for the branch; the installation's own alerts have an empty one.
        subject: A shell pattern for the subject.
    """

    silence_id: UUID
    rule: str
    branch: str
    subject: str
    reason: str
    created_by: str
    until: dt.datetime
    created_at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class NoticeView:
    """The alerts of one rule and branch as one receiver knows them.

    Attributes:
        announced: The alerts that fire by the newest message, by subject.
        announced_at: When that message was made.
        message: The message that the receiver has not got yet; None if it got all.
        message_id: Its id; another message has another id.
        attempts: How often its delivery failed.
        next_attempt_at: When its delivery is tried.
        error: Why the last delivery failed; empty after one that succeeded.
        delivered_at: When the receiver last got a message.
    """

    receiver: str
    rule: str
    branch: str
    announced: dict[str, Json]
    announced_at: dt.datetime | None = None
    message_id: UUID | None = None
    message: Json = None
    attempts: int = 0
    next_attempt_at: dt.datetime | None = None
    error: str = ""
    delivered_at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class AlertState:
    """All that is stored about alerts, at one instant of the database's clock.

    Attributes:
        reported: The findings of other processes that have not ended.
        silences: The silences that have not ended.
        memory: What the evaluator remembers from its previous evaluation.
    """

    now: dt.datetime
    alerts: tuple[AlertView, ...]
    reported: tuple[AlertFinding, ...]
    silences: tuple[SilenceView, ...]
    notices: tuple[NoticeView, ...]
    memory: Json


@attrs.frozen(kw_only=True)
class EndedCommitView:
    """A deployment that has ended, or is being undone.

    Attributes:
        is_broken: Whether its history broke a critical expectation.
        is_cancelled: Whether a person cancelled it.
    """

    commit_id: UUID
    branch: str
    state: str
    promotion: str | None
    error: Json
    is_broken: bool
    is_cancelled: bool
