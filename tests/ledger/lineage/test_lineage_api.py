"""Events for lineage: each is read until it was sent, even one that becomes visible late."""

import datetime as dt
from uuid import UUID

import pytest
import sqlalchemy as sa

from narthex_ledger import AuditView, Fenced, LineageBatch, LineagePosition
from narthex_ledger.db.statements.commits import insert_event
from narthex_ledger.model.lineage_views import MISSING_FOR
from tests.ledger.world import LATER, World

pytestmark = pytest.mark.postgres

FIRST, SECOND = "server:one:1", "server:two:2"
NONE: dict[int, int] = {}
MINUTES_US = 60 * 1_000_000


def numbers(batch: LineageBatch) -> list[int]:
    return [event.event_id for event in batch.events]


def send_all(world: World) -> list[int]:
    batch = world.ledger.lineage.unsent(100)
    after = batch.position.after(
        numbers(batch), batch.position.backfills, now_us=int(batch.now.timestamp() * 1e6)
    )
    world.ledger.lineage.advance(FIRST, after)
    return numbers(batch)


def test_an_event_is_read_until_it_was_sent(world: World) -> None:
    assert world.ledger.lineage.hold(FIRST)
    world.ledger.audits.record(audit(1))
    world.ledger.audits.record(audit(1))
    world.ledger.audits.record(audit(2))

    first = world.ledger.lineage.unsent(100)
    again = send_all(world)

    assert numbers(first) == again
    assert [found.dataset for found in first.audits.values()] == ["d", "d"]
    assert [event.transition for event in first.events if event.transition == "audited"] == [
        "audited",
        "audited",
    ]
    assert all(found.examples is None for found in first.audits.values())
    assert send_all(world) == []


def test_an_event_that_becomes_visible_after_later_ones_is_sent_then(world: World) -> None:
    world.ledger.lineage.hold(FIRST)
    send_all(world)
    engine = sa.create_engine(world.dsn)
    with engine.connect() as slow, engine.connect() as rolled_back:
        insert_event(slow, "slow", actor="tests")
        insert_event(rolled_back, "never", actor="tests")
        rolled_back.rollback()
        world.ledger.audits.record(audit(1))
        (later,) = send_all(world)
        slow.commit()
    engine.dispose()
    (late,) = world.ledger.lineage.unsent(100).events

    assert late.transition == "slow"
    assert late.event_id == later - 2
    assert send_all(world) == [late.event_id]
    position = world.ledger.lineage.unsent(100).position
    assert (position.sent_to, [*position.missing]) == (later, [later - 1])
    assert send_all(world) == []


def test_missing_numbers_are_forgotten_after_a_while() -> None:
    start = LineagePosition(sent_to=1).after([2, 5], NONE, now_us=MINUTES_US)
    wait_us = MISSING_FOR // dt.timedelta(microseconds=1)
    kept = start.after([6], NONE, now_us=wait_us)
    forgotten = start.after([6, 8], NONE, now_us=MINUTES_US + wait_us)

    assert start == LineagePosition(sent_to=5, missing={3: MINUTES_US, 4: MINUTES_US})
    assert kept.missing == start.missing
    assert forgotten == LineagePosition(sent_to=8, missing={7: MINUTES_US + wait_us})
    assert start.after([3], NONE, now_us=0) == LineagePosition(sent_to=5, missing={4: MINUTES_US})


def test_one_server_sends_until_its_lease_ends(world: World) -> None:
    lineage = world.ledger.lineage
    assert lineage.hold(FIRST)
    assert lineage.hold(FIRST)
    assert not lineage.hold(SECOND)
    with pytest.raises(Fenced):
        lineage.advance(SECOND, LineagePosition(sent_to=9))
    with pytest.raises(Fenced):
        lineage.failed(SECOND, error="away", failures=1)
    later = world.at(LATER)
    assert later.lineage.hold(SECOND)
    with pytest.raises(Fenced):
        later.lineage.advance(FIRST, LineagePosition(sent_to=9))
    later.lineage.release(SECOND)
    assert lineage.hold(FIRST)
    assert lineage.unsent(1).position.sent_to == 0


def test_the_status_has_the_age_of_the_oldest_event_and_the_last_error(world: World) -> None:
    world.ledger.audits.record(audit(1))
    assert world.at(LATER).lineage.status().lag_s == 0
    world.ledger.lineage.hold(FIRST)
    world.ledger.lineage.failed(FIRST, error="away", failures=3)

    behind = world.at(LATER).lineage.status()
    assert LATER.total_seconds() <= behind.lag_s < LATER.total_seconds() + 60
    assert (behind.failures, behind.error) == (3, "away")
    world.ledger.lineage.delivered(FIRST)
    send_all(world)
    status = world.ledger.lineage.status()
    assert (status.lag_s, status.failures, status.error) == (0, 0, "")


def audit(number: int) -> AuditView:
    return AuditView(
        audit_id=UUID(int=number),
        dataset="d",
        branch="main",
        from_us=0,
        to_us=1,
        result={},
        success=True,
        examples=[["a row"]],
    )
