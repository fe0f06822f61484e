"""Alerts in the ledger: one evaluator, the findings of its last evaluation, no lost message."""

import datetime as dt
from uuid import UUID

import attrs
import pytest

from narthex_ledger import (
    AlertFinding,
    BrokenConnection,
    Fenced,
    Ledger,
    Moment,
    NotFound,
    NoticeChange,
    NoticeView,
    OutcomeUnknown,
    SilenceView,
)
from tests.ledger.world import LATER, World

pytestmark = pytest.mark.postgres

HOUR = dt.timedelta(hours=1)
ONE, OTHER = "server:a:1", "server:b:2"
MESSAGE = UUID(int=1)


def finding(subject: str = "Orders", *, severity: str = "warning") -> AlertFinding:
    return AlertFinding(
        rule="freshness",
        branch="main",
        subject=subject,
        severity=severity,
        summary="It is stale.",
        remedy="Look.",
        page="console/jobs",
    )


def notice(ledger: Ledger, *, message_id: UUID | None = MESSAGE) -> NoticeView:
    now = ledger.alerts.state().now
    return NoticeView(
        receiver="chat",
        rule="freshness",
        branch="main",
        announced={"Orders": {"severity": "warning"}},
        announced_at=now,
        message_id=message_id,
        message={"firing": []} if message_id else None,
        next_attempt_at=now if message_id else None,
    )


def stored(ledger: Ledger, *findings: AlertFinding, owner: str = ONE) -> None:
    ledger.alerts.store(owner, findings, changes=[], memory=None)


def test_one_server_evaluates_until_its_lease_ends(world: World) -> None:
    alerts = world.ledger.alerts

    assert [alerts.hold(ONE), alerts.hold(OTHER), alerts.hold(ONE)] == [True, False, True]
    later = Ledger(world.dsn, clock_shift=LATER)
    assert later.alerts.hold(OTHER)
    with pytest.raises(Fenced):
        stored(later, finding())
    later.alerts.release(OTHER)
    assert alerts.hold(ONE)
    later.close()


def test_a_server_without_the_lease_stores_and_delivers_nothing(world: World) -> None:
    alerts = world.ledger.alerts
    assert alerts.hold(ONE)
    change = NoticeChange(before=None, after=notice(world.ledger))
    alerts.store(ONE, [finding()], changes=[change], memory=None)

    with pytest.raises(Fenced):
        stored(world.ledger, owner=OTHER)

    assert alerts.due(OTHER) == ()
    assert [one.message_id for one in alerts.due(ONE)] == [MESSAGE]
    assert [one.subject for one in alerts.state().alerts] == ["Orders"]


def test_exactly_the_findings_of_the_last_evaluation_fire(world: World) -> None:
    alerts = world.ledger.alerts
    alerts.hold(ONE)
    stored(world.ledger, finding("Orders"), finding("Users"))
    (first, _) = alerts.state().alerts

    stored(world.ledger, finding("Orders", severity="critical"), finding("Spend"))

    kept, new = alerts.state().alerts
    assert (kept.subject, kept.severity, kept.started_at) == (
        "Orders",
        "critical",
        first.started_at,
    )
    assert (new.subject, new.started_at >= first.started_at) == ("Spend", True)
    alerts.store(ONE, [], changes=[], memory={"newest": {"1": 5}})
    assert (alerts.state().alerts, alerts.state().memory) == ((), {"newest": {"1": 5}})


def test_a_message_is_due_until_it_is_delivered(world: World) -> None:
    alerts = world.ledger.alerts
    alerts.hold(ONE)
    alerts.store(
        ONE, [], changes=[NoticeChange(before=None, after=notice(world.ledger))], memory=None
    )

    alerts.failed(MESSAGE, error="status 500", delay=HOUR)

    (waiting,) = alerts.state().notices
    assert (waiting.attempts, waiting.error) == (1, "status 500")
    assert alerts.due(ONE) == ()
    later = Ledger(world.dsn, clock_shift=HOUR)
    assert later.alerts.hold(ONE)
    assert [one.message_id for one in later.alerts.due(ONE)] == [MESSAGE]
    assert later.alerts.delivered(MESSAGE)
    assert not later.alerts.delivered(MESSAGE)
    (done,) = later.alerts.state().notices
    assert (done.message, done.error, done.delivered_at is not None) == (None, "", True)
    assert later.alerts.due(ONE) == ()
    later.close()


def test_a_message_that_was_delivered_meanwhile_is_not_stored_again(world: World) -> None:
    alerts = world.ledger.alerts
    alerts.hold(ONE)
    first = notice(world.ledger)
    alerts.store(ONE, [], changes=[NoticeChange(before=None, after=first)], memory=None)
    (read,) = alerts.state().notices
    alerts.delivered(MESSAGE)
    second = attrs.evolve(read, message_id=UUID(int=2), announced={})

    alerts.store(ONE, [], changes=[NoticeChange(before=read, after=second)], memory=None)

    (found,) = alerts.state().notices
    assert (found.message, found.announced) == (None, first.announced)


@pytest.mark.parametrize("moment", list(Moment))
def test_a_crash_at_any_moment_loses_no_message(world: World, moment: Moment) -> None:
    crashes = {"store_alerts", "notice_delivered"}

    def crash(name: str, at: Moment) -> None:
        if at is moment and name in crashes:
            crashes.remove(name)
            raise _Crash

    class _Crash(Exception):
        """The process ends."""

    crashing = Ledger(world.dsn, fault_hook=crash)
    crashing.alerts.hold(ONE)
    change = NoticeChange(before=None, after=notice(world.ledger))
    with pytest.raises(_Crash):
        crashing.alerts.store(ONE, [finding()], changes=[change], memory=None)
    # The next evaluation finds the same: whether it was stored before makes no difference.
    known = {one.receiver for one in world.ledger.alerts.state().notices}
    if not known:
        crashing.alerts.store(ONE, [finding()], changes=[change], memory=None)
    (due,) = crashing.alerts.due(ONE)
    assert due.message_id == MESSAGE

    with pytest.raises(_Crash):
        crashing.alerts.delivered(MESSAGE)

    is_sent_again = [one.message_id for one in crashing.alerts.due(ONE)]
    assert is_sent_again == ([] if moment is Moment.AFTER_COMMIT else [MESSAGE])
    crashing.close()


def test_a_lost_answer_causes_one_message(world: World) -> None:
    lost = {"store_alerts"}

    def lose(name: str, at: Moment) -> None:
        if at is Moment.AFTER_COMMIT and name in lost:
            lost.remove(name)
            raise BrokenConnection

    losing = Ledger(world.dsn, fault_hook=lose)
    losing.alerts.hold(ONE)
    change = NoticeChange(before=None, after=notice(world.ledger))
    try:
        losing.alerts.store(ONE, [finding()], changes=[change], memory=None)
    except OutcomeUnknown as error:
        raise AssertionError("it is repeated") from error

    assert len(losing.alerts.due(ONE)) == 1
    losing.close()


def test_a_reported_finding_ends_or_expires(world: World) -> None:
    alerts = world.ledger.alerts
    other = attrs.evolve(finding(), rule="model_age")
    alerts.report(other, lasts=HOUR)
    alerts.report(attrs.evolve(other, severity="critical"), lasts=HOUR)

    assert [one.severity for one in alerts.state().reported] == ["critical"]
    later = Ledger(world.dsn, clock_shift=2 * HOUR)
    assert later.alerts.state().reported == ()
    later.close()
    assert alerts.end_report(other.key)
    assert not alerts.end_report(other.key)
    assert alerts.state().reported == ()


def test_a_silence_ends_by_itself_or_before(world: World) -> None:
    alerts = world.ledger.alerts
    silence = SilenceView(
        silence_id=UUID(int=3),
        rule="*",
        branch="main",
        subject="*",
        reason="planned work",
        created_by="ann",
        until=alerts.state().now + HOUR,
    )
    alerts.silence(silence)
    alerts.silence(silence)

    assert [one.reason for one in alerts.state().silences] == ["planned work"]
    later = Ledger(world.dsn, clock_shift=2 * HOUR)
    assert later.alerts.state().silences == ()
    later.close()
    alerts.end_silence(silence.silence_id)
    assert alerts.state().silences == ()
    with pytest.raises(NotFound):
        alerts.end_silence(silence.silence_id)


def test_ended_alerts_and_findings_are_forgotten(world: World) -> None:
    alerts = world.ledger.alerts
    alerts.hold(ONE)
    known = attrs.evolve(notice(world.ledger, message_id=None), announced={})
    other = attrs.evolve(notice(world.ledger), receiver="gone")
    changes = [NoticeChange(before=None, after=one) for one in (known, other)]
    alerts.store(ONE, [], changes=changes, memory=None)
    alerts.report(finding(), lasts=HOUR)

    alerts.forget(["chat"])
    assert [one.receiver for one in alerts.state().notices] == ["chat"]
    later = Ledger(world.dsn, clock_shift=25 * HOUR)
    later.alerts.forget(["chat"])

    assert later.alerts.state().notices == ()
    later.close()
    assert alerts.state().reported == ()
