"""An erasure is certified only when two searches, some time apart, have found nothing."""

from random import Random  # noqa: TID251 (seeded)

import pytest

from narthex_ledger import ErasureState
from tests.crash.matrix import run, singles
from tests.crash.scenarios import (
    ERASABLE,
    ERASABLE_WITH_SINK,
    ERASE,
    ERASE_ON_BRANCHES,
    ERASE_TARGETS,
    ERASURE,
    ask_to_erase,
    begin_erasure,
    deploy,
)
from tests.crash.world import World

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SAMPLED, SEED = 8, 20_261_126


def erased(world: World) -> ErasureState:
    life = world.life()
    deploy(1, ERASABLE)(world, life)
    ask_to_erase(world, life)
    world.topics.residue.append("history part-1")
    begin_erasure(world, life)
    return life.ledger.erasures.get(ERASURE).state


def test_an_erasure_is_not_certified_while_a_search_finds_something(world: World) -> None:
    assert erased(world) is ErasureState.REMOVING
    view = world.supervisor.erasures.get(ERASURE)
    assert "history part-1" in view.waits_for
    assert view.certificate is None

    world.topics.residue.clear()
    world.settle(world.life())

    assert world.supervisor.erasures.get(ERASURE).state is ErasureState.CERTIFIED


def test_a_second_search_follows_before_the_certificate(world: World) -> None:
    assert erased(world) is ErasureState.REMOVING
    world.topics.residue.clear()
    world.wait(120)
    life = world.life()

    life.eraser.look()
    life.eraser.look()

    assert world.supervisor.erasures.get(ERASURE).state is ErasureState.REMOVING
    world.topics.residue.append("a copy that was in flight")
    world.wait(20)
    life.eraser.look()
    assert world.supervisor.erasures.get(ERASURE).state is ErasureState.REMOVING

    world.topics.residue.clear()
    life.eraser.look()
    world.wait(20)
    life.eraser.look()
    assert world.supervisor.erasures.get(ERASURE).state is ErasureState.CERTIFIED


def withdrawing(world: World) -> ErasureState:
    """Take an erasure as far as it comes while the targets of sinks are down."""
    life = world.life()
    deploy(1, ERASABLE_WITH_SINK)(world, life)
    world.topics.are_down = True
    ask_to_erase(world, life)
    begin_erasure(world, life)
    return life.ledger.erasures.get(ERASURE).state


def test_an_erasure_waits_until_its_rows_are_deleted_from_targets(world: World) -> None:
    assert withdrawing(world) is ErasureState.WITHDRAWING
    waits_for = world.supervisor.erasures.get(ERASURE).waits_for
    assert "`kafka:/members_out`, rows of `members`: 2" in waits_for

    world.topics.are_down = False
    world.settle(world.life())

    assert ERASE_TARGETS.wrong_end(world) == []
    found = world.rows("SELECT certificate->'sinks'->0->'is_erased' AS is_erased FROM erasure")
    assert found == [{"is_erased": True}]


def test_rows_end_when_all_writers_of_their_logs_have_stopped(world: World) -> None:
    life = world.life()
    deploy(1, ERASABLE_WITH_SINK)(world, life)
    ask_to_erase(world, life)
    # One turn of the eraser after another, without any of the supervisor in between.
    for _ in range(10):
        world.catch_up()
        life.recovery.look()
        life.eraser.look()
        life.eraser.look()
        world.wait(5.0)

    assert world.topics.wrong == []
    assert world.topics.ended


def test_an_erasure_ends_on_all_branches(opened: World) -> None:
    outcome = run(opened, ERASE_ON_BRANCHES)

    assert outcome.broken == ()


def test_an_erasure_ends_after_each_fault_of_a_sample(opened: World) -> None:
    rng = Random(SEED)  # noqa: S311 (no secret)

    outcomes = [go() for go in rng.sample(list(singles(opened, [ERASE, ERASE_TARGETS])), SAMPLED)]

    assert [one for one in outcomes if one.broken] == []
    assert all(one.hit for one in outcomes)
