"""An erasure is certified only when two searches, some time apart, have found nothing."""

import pytest

from narthex_ledger import ErasureState
from tests.crash.scenarios import ERASABLE, ERASURE, ask_to_erase, begin_erasure, deploy
from tests.crash.world import World

pytestmark = pytest.mark.postgres


def erased(world: World) -> ErasureState:
    life = world.life()
    deploy(1, ERASABLE)(world, life)
    ask_to_erase(world, life)
    world.topics.residue.append("history part-1")
    begin_erasure(world, life)
    return life.ledger.erasures.get(ERASURE).state


def test_what_a_search_finds_keeps_an_erasure_from_its_end(world: World) -> None:
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
    world.topics.residue.append("a copy that was under way")
    world.wait(20)
    life.eraser.look()
    assert world.supervisor.erasures.get(ERASURE).state is ErasureState.REMOVING

    world.topics.residue.clear()
    life.eraser.look()
    world.wait(20)
    life.eraser.look()
    assert world.supervisor.erasures.get(ERASURE).state is ErasureState.CERTIFIED
