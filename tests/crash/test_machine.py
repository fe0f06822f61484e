"""Some runs of the state machine at each push; `make model STEPS=100000` runs many."""

import pytest

from narthex._ir.assets import AssetKind, TopicRole, TopicSpec
from narthex_ledger import Moment
from narthex_stores import InMemoryAdapter, TransientError
from tests.crash.history import History
from tests.crash.machine import Counts, run
from tests.crash.points import FaultHook, FaultHookedAdapter, FaultKind, Store
from tests.crash.scenarios import ONE, TWO, deploy
from tests.crash.world import STRAY, World

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SEED = 1
SPEC = TopicSpec(role=TopicRole.DATASET, partitions=1)


def test_no_story_breaks_a_promise(opened: World) -> None:
    counts = Counts()

    run(opened, counts, seeds=[SEED], examples=10, steps=40)

    assert counts.steps >= 200
    assert counts.faults > counts.crashes > 0
    assert counts.did.keys() >= {"commit", "clone", "delete", "undelete", "cancel", "again"}
    assert {"FINALIZED", "ABORTED"} <= counts.ended.keys()


def test_a_destruction_that_comes_too_late_leaves_what_came_after_it() -> None:
    store = Store(InMemoryAdapter(AssetKind.KAFKA_TOPIC))
    fault_hook = FaultHook()
    adapter = FaultHookedAdapter(store, fault_hook, before_destroy=lambda _name: None)
    adapter.create(STRAY, SPEC, asset_id=1, timeout_s=1.0)
    (first,) = adapter.list("", timeout_s=1.0)
    fault_hook.lay(0, FaultKind.LATE_EFFECT)
    with pytest.raises(TransientError):
        adapter.destroy(STRAY, external_id=first.external_id, timeout_s=1.0)
    adapter.destroy(STRAY, external_id=first.external_id, timeout_s=1.0)
    adapter.create(STRAY, SPEC, asset_id=2, timeout_s=1.0)

    store.land()

    assert [one.asset_id for one in adapter.list("", timeout_s=1.0)] == [2]
    assert store.late == []


def test_a_fault_waits_for_a_point_that_can_go_so_wrong() -> None:
    fault_hook = FaultHook()
    fault_hook.lay(0, FaultKind.LATE_EFFECT)

    for moment in Moment:
        fault_hook.transaction("claim", moment)

    assert not fault_hook.hit
    with pytest.raises(TransientError):
        fault_hook.call("call index create", lambda: None, lambda: None)
    assert fault_hook.hit
    assert [point.name for point in fault_hook.passed] == ["claim", "call index create"]


def test_a_wrong_binding_is_reported(world: World) -> None:
    history = History(world)
    foretold = history.foretell_deploy(TWO)
    deploy(1, ONE)(world, world.life())
    history.ended(world.commit_id(1), foretold)

    told = list(history.wrong())

    assert [one.split(" is not")[0] for one in told] == ["head of main", "serving of main"]


def test_readers_that_never_reach_the_head_are_reported(world: World) -> None:
    history = History(world)
    foretold = history.foretell_deploy(ONE)
    world.life().submit(world.request(1, ONE))
    history.ended(world.commit_id(1), foretold)
    before = list(history.wrong(when_quiet=True))
    world.life().recovery.look()

    told = list(history.wrong(when_quiet=True))

    assert before == []
    assert told == ["readers of main never came to its head"]


def test_an_impossible_commit_is_reported(world: World) -> None:
    life, history = world.life(), History(world)
    foretold = history.foretell_rollback("main", to_seq=1)
    deploy(1, ONE)(world, life)

    with pytest.raises(AssertionError, match="could not"):
        history.ended(world.commit_id(1), foretold)
