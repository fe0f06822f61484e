"""An erasure is certified only when two searches, some time apart, have found nothing."""

from random import Random  # noqa: TID251 (seeded)

import pytest

from narthex_ledger import ErasureState
from tests.crash.matrix import run, singles
from tests.crash.scenarios import (
    ERASABLE,
    ERASE,
    ERASE_ON_BRANCHES,
    ERASURE,
    ask_to_erase,
    begin_erasure,
    deploy,
)
from tests.crash.world import World

pytestmark = pytest.mark.postgres

SAMPLED, SEED = 6, 20_261_126


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


def test_an_erasure_ends_on_all_branches(opened: World) -> None:
    outcome = run(opened, ERASE_ON_BRANCHES)

    assert outcome.broken == ()


def test_an_erasure_ends_after_each_fault_of_a_sample(opened: World) -> None:
    rng = Random(SEED)  # noqa: S311 (no secret)

    outcomes = [go() for go in rng.sample(list(singles(opened, [ERASE])), SAMPLED)]

    assert [one for one in outcomes if one.broken] == []
    assert all(one.hit for one in outcomes)
