"""Every alert reaches its receiver, whatever happens to messages and to their senders."""

import pytest

from tests.crash.matrix import faults_at, points_of, run
from tests.crash.scenarios import DELIVER, alert, report
from tests.crash.world import World, later

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def test_a_message_that_was_not_taken_is_sent_again(world: World) -> None:
    life = world.life()
    world.inbox.is_down = True
    report("one")(world, life)
    alert(world, life)
    assert world.inbox.messages == []

    world.inbox.is_down = False
    world.wait(later(minutes=10))
    alert(world, life)

    assert world.inbox.firing() == {"one"}


def test_a_message_whose_sender_died_is_sent_by_the_next_server(world: World) -> None:
    first = world.life()
    report("one")(world, first)
    for _ in range(2):
        first.alerts.evaluate()
        world.wait(later(seconds=5))
    assert world.rows("SELECT 1 FROM alert_notice WHERE message IS NOT NULL")
    assert world.inbox.messages == []

    second = world.life()
    second.attempt(second.alerts.turn)
    assert world.inbox.messages == [], "the first one holds the lease"
    world.wait(later(minutes=2))
    alert(world, second)

    assert world.inbox.firing() == {"one"}


def test_alerts_are_delivered_after_each_fault_of_a_message(opened: World) -> None:
    sends = [one for one in points_of(opened, DELIVER) if one.name == "call receiver send"]

    outcomes = [run(opened, DELIVER, fault) for fault in faults_at(sends)]

    assert len(sends) == 3
    assert [one for one in outcomes if one.broken or not one.hit] == []
