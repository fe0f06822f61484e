"""Routes of alerts: the list, silences, test messages, and findings of other processes."""

import datetime as dt
import uuid
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from narthex_ledger import AlertFinding, AlertView, NoticeView, SilenceView
from narthex_server.alerts.configuration import (
    RULES,
    AlertsFile,
    AlertsFileInvalid,
    Severity,
    load_alerts_file,
)
from narthex_server.alerts.evaluator import FILE_RULE, sender_of
from narthex_server.alerts.messages import read_message
from narthex_server.alerts.notices import is_silenced, plain_alert, timing_of
from narthex_server.alerts.receivers import NotDelivered
from narthex_server.alerts.responses import (
    Alert,
    AlertList,
    Delivery,
    EndedSilence,
    ReportedFinding,
    Silence,
    TestDeliveries,
    TestDelivery,
)
from narthex_server.errors import Conflicting, Forbidden, InvalidRequest, Missing
from narthex_server.security.dataset_access import Access
from narthex_server.security.principals import Principal, PrincipalDep
from narthex_server.security.request_access import AccessDep
from narthex_server.security.request_identity import IdentityDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import LedgerDep, ServicesDep, SettingsDep
from narthex_server.web.error_responses import raises
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute)

GREATEST_SILENCE: Final = dt.timedelta(days=90)
GREATEST_REPORT: Final = dt.timedelta(days=30)
OF_DATASETS: Final = frozenset({"broken_expectation", "freshness", "quarantine_rate"})
"""The rules about datasets and featuresets: a token with some tags sees those that it may see."""

_Name = Annotated[str, Field(min_length=1, max_length=200)]


class SilenceCall(BaseModel):
    """A request for a silence: shell patterns, and for how long.

    Attributes:
        minutes: At most 90 days.
        reason: Why, for other people.
    """

    model_config = ConfigDict(extra="forbid")

    rule: str = Field(default="*", min_length=1, max_length=200)
    branch: str = Field(default="*", max_length=200)
    subject: str = Field(default="*", min_length=1, max_length=200)
    minutes: int = Field(ge=1, le=GREATEST_SILENCE // dt.timedelta(minutes=1))
    reason: str = Field(min_length=1, max_length=500)


class TestCall(BaseModel):
    """A request for a test message: to one receiver, or to all."""

    model_config = ConfigDict(extra="forbid")

    receiver: str | None = Field(default=None, max_length=64)


class FindingCall(BaseModel):
    """A finding about the branch in the header, or its end.

    Attributes:
        rule: The name of the rule, such as `dag_failed`; not one that the server evaluates.
        fires: Whether the finding is true now; false ends an earlier one.
        lasts_s: When the alert ends by itself if the finding is not reported again.
    """

    model_config = ConfigDict(extra="forbid")

    rule: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    subject: _Name
    fires: bool = True
    severity: Severity = "warning"
    summary: str = Field(default="", max_length=1000)
    remedy: str = Field(default="", max_length=1000)
    page: str = Field(default="console/alerts", pattern=r"^console(/[A-Za-z0-9._-]+)*$")
    lasts_s: int = Field(default=26 * 3600, ge=60, le=GREATEST_REPORT // dt.timedelta(seconds=1))


@router.get("/alerts", dependencies=[requires(Right.READ_DEFINITIONS, extent=Extent.OWN_BRANCHES)])
def listed(ledger: LedgerDep, settings: SettingsDep, access: AccessDep) -> AlertList:
    """List the alerts that fire, the silences, and the deliveries to receivers."""
    state = ledger.alerts.state()
    principal = access.principal
    sees_all = not principal.is_narrow
    file = AlertsFile()
    mistakes: list[str] = []
    try:
        file = load_alerts_file(settings.alerts_file)
    except AlertsFileInvalid as error:
        mistakes = [*error.mistakes]
    return {
        "alerts": [
            _alert(alert, silenced=is_silenced(alert, state.silences))
            for alert in state.alerts
            if _is_visible(access, alert)
        ],
        "silences": [
            _silence(one)
            for one in state.silences
            if sees_all or (one.branch and principal.may_name(one.branch))
        ],
        "deliveries": [_delivery(notice) for notice in state.notices] if sees_all else [],
        "receivers": [receiver.name for receiver in file.receivers] if sees_all else [],
        "mistakes": mistakes if sees_all else [],
    }


def _is_visible(access: Access, alert: AlertView) -> bool:
    principal = access.principal
    if not principal.is_narrow:
        return True
    if not alert.branch or not principal.may_name(alert.branch):
        return False
    if principal.tags == ("*",):
        return True
    if alert.rule == "drift":
        return access.sees_feature(alert.branch, alert.subject)
    return alert.rule in OF_DATASETS and access.sees_entity(alert.branch, alert.subject)


@router.post(
    "/alerts/silences",
    dependencies=[requires(Right.WRITE_DEFINITIONS, extent=Extent.OWN_BRANCHES)],
)
def silence(
    call: SilenceCall, ledger: LedgerDep, principal: PrincipalDep, caller: IdentityDep
) -> Silence:
    """Keep alerts from being sent until an instant; a token of some branches names one of them."""
    _require_branch(principal, call.branch)
    silence_id = uuid.uuid4()  # noqa: TID251 - the edge gives the id
    stored = SilenceView(
        silence_id=silence_id,
        rule=call.rule,
        branch=call.branch,
        subject=call.subject,
        reason=call.reason,
        created_by=caller.actor,
        until=ledger.alerts.state().now + dt.timedelta(minutes=call.minutes),
    )
    ledger.alerts.silence(stored)
    return _silence(stored)


@router.delete(
    "/alerts/silences/{silence_id}",
    dependencies=[requires(Right.WRITE_DEFINITIONS, extent=Extent.OWN_BRANCHES)],
)
def unsilence(silence_id: UUID, ledger: LedgerDep, principal: PrincipalDep) -> EndedSilence:
    """End a silence: alerts that still fire are sent."""
    known = {one.silence_id: one for one in ledger.alerts.state().silences}
    found = known.get(silence_id)
    if found is None:
        raise Missing(f"there is no silence `{silence_id}`")
    _require_branch(principal, found.branch)
    ledger.alerts.end_silence(silence_id)
    return {"silence_id": str(silence_id)}


def _require_branch(principal: Principal, branch: str) -> None:
    """Refuse a pattern of branches to principals of some branches or tags, unless it is a branch.

    Raises:
        Forbidden: The principal may not silence it.
    """
    if not principal.is_narrow:
        return
    is_pattern = any(character in branch for character in "*?[")
    if not branch or is_pattern or principal.tags != ("*",) or not principal.may_name(branch):
        raise Forbidden


@router.post(
    "/alerts/test",
    dependencies=[requires(Right.ADMINISTER, extent=Extent.INSTALLATION)],
    responses=raises(Missing, Conflicting),
)
def send_test(call: TestCall, services: ServicesDep, caller: IdentityDep) -> TestDeliveries:
    """Send a test message to one receiver or to all, now, and return the outcomes."""
    try:
        file = load_alerts_file(services.settings.alerts_file)
    except AlertsFileInvalid as error:
        raise Conflicting("the alerts file has mistakes", errors=error.mistakes) from None
    chosen = [one for one in file.receivers if call.receiver in {None, one.name}]
    if not chosen:
        which = f"named `{call.receiver}`" if call.receiver else "at all"
        raise Missing(f"the alerts file has no receiver {which}")
    now = services.ledger.alerts.state().now
    alert = AlertView(
        rule="test",
        branch="",
        subject="test",
        severity="info",
        summary=f"This is a test message, which {caller.actor} asked for.",
        remedy="Nothing is to do.",
        page="console/alerts",
        started_at=now,
    )
    message = read_message(
        {"rule": "test", "branch": "", "firing": [plain_alert(alert)], "resolved": []},
        message_id=uuid.uuid4(),  # noqa: TID251 - the edge gives the id
        install_id=services.settings.install_id,
        console_url=file.console_url or services.settings.server_url,
    )
    sender, outcomes = sender_of(services), []
    for receiver in chosen:
        outcome: TestDelivery = {"receiver": receiver.name, "delivered": True, "error": ""}
        try:
            repeat_every = timing_of(file, receiver).repeat_every
            sender.send(receiver, message, repeat_every=repeat_every)
        except NotDelivered as error:
            outcome |= {"delivered": False, "error": str(error)}
        outcomes.append(outcome)
    return {"deliveries": outcomes}


@router.post("/alerts/findings", dependencies=[requires(Right.STEP)])
def report(call: FindingCall, ledger: LedgerDep, access: AccessDep) -> ReportedFinding:
    """Report a finding of another process than the server, or its end.

    The server fires it as an alert at its next evaluation, as it does its own findings.
    """
    if call.rule in {*RULES, FILE_RULE}:
        raise InvalidRequest(f"the server itself evaluates the rule `{call.rule}`")
    key = call.rule, access.branch, call.subject
    if call.fires:
        if not (call.summary and call.remedy):
            raise InvalidRequest("a finding that fires has a `summary` and a `remedy`")
        ledger.alerts.report(
            AlertFinding(
                rule=call.rule,
                branch=access.branch,
                subject=call.subject,
                severity=call.severity,
                summary=call.summary,
                remedy=call.remedy,
                page=call.page,
            ),
            lasts=dt.timedelta(seconds=call.lasts_s),
        )
    else:
        ledger.alerts.end_report(key)
    return {"rule": key[0], "branch": key[1], "subject": key[2], "fires": call.fires}


def _alert(alert: AlertView, *, silenced: bool) -> Alert:
    return {
        "rule": alert.rule,
        "branch": alert.branch,
        "subject": alert.subject,
        "severity": alert.severity,
        "summary": alert.summary,
        "remedy": alert.remedy,
        "page": alert.page,
        "started_at": alert.started_at.isoformat(),
        "silenced": silenced,
    }


def _silence(silence: SilenceView) -> Silence:
    return {
        "silence_id": str(silence.silence_id),
        "rule": silence.rule,
        "branch": silence.branch,
        "subject": silence.subject,
        "reason": silence.reason,
        "created_by": silence.created_by,
        "created_at": silence.created_at.isoformat() if silence.created_at else None,
        "until": silence.until.isoformat(),
    }


def _delivery(notice: NoticeView) -> Delivery:
    return {
        "receiver": notice.receiver,
        "rule": notice.rule,
        "branch": notice.branch,
        "is_pending": notice.message is not None,
        "attempts": notice.attempts,
        "next_attempt_at": notice.next_attempt_at.isoformat() if notice.next_attempt_at else None,
        "error": notice.error,
        "delivered_at": notice.delivered_at.isoformat() if notice.delivered_at else None,
    }
