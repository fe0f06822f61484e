"""The answers of the routes of alerts."""

from typing_extensions import TypedDict

from narthex_server.web.plain_routes import Id, Instant


class Alert(TypedDict):
    """An alert that fires.

    Attributes:
        rule: The rule that found it.
        branch: The branch that it concerns; empty if it concerns the installation as a whole.
        subject: The dataset, job, commit, token … that it is about.
        severity: `critical`, `warning` or `info`.
        summary: What is wrong.
        remedy: What to do.
        page: The address of a page of the console, from the root of the server.
        silenced: Whether a silence keeps it from being sent.
    """

    rule: str
    branch: str
    subject: str
    severity: str
    summary: str
    remedy: str
    page: str
    started_at: Instant
    silenced: bool


class Silence(TypedDict):
    """Alerts that are not sent until an instant: those that match all three shell patterns."""

    silence_id: Id
    rule: str
    branch: str
    subject: str
    reason: str
    created_by: str
    created_at: Instant | None
    until: Instant


class Delivery(TypedDict):
    """How far a receiver knows the alerts of a rule and a branch.

    Attributes:
        is_pending: Whether a message waits for its delivery.
        attempts: How often that failed.
        error: Why it failed last; empty if it did not.
    """

    receiver: str
    rule: str
    branch: str
    is_pending: bool
    attempts: int
    next_attempt_at: Instant | None
    error: str
    delivered_at: Instant | None


class AlertList(TypedDict):
    """The alerts that the principal may see, and how they are sent.

    Attributes:
        receivers: The names of the receivers. As the deliveries and mistakes, they are empty for
            tokens of some branches or tags.
        mistakes: The mistakes of the alerts file; while it has some, the last valid one applies.
    """

    alerts: list[Alert]
    silences: list[Silence]
    deliveries: list[Delivery]
    receivers: list[str]
    mistakes: list[str]


class EndedSilence(TypedDict):
    """A silence that was ended."""

    silence_id: Id


class TestDelivery(TypedDict):
    """The delivery of a test message; the error is empty if the receiver took it."""

    receiver: str
    delivered: bool
    error: str


class TestDeliveries(TypedDict):
    """The deliveries of a test message."""

    deliveries: list[TestDelivery]


class ReportedFinding(TypedDict):
    """A finding that was reported, and whether it fires."""

    rule: str
    branch: str
    subject: str
    fires: bool
