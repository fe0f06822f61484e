"""The deadlines of the recovery loop, the executor and the collector."""

import threading
import time
from collections.abc import Callable

import attrs
import pytest
from typing_extensions import override

from narthex._ir.assets import AssetKind
from narthex_ledger import CommitState, Moment
from narthex_server.deploy.executor import StepDeferred
from tests.crash.points import Fault, FaultHook, FaultKind, Point
from tests.crash.scenarios import ONE, TWO, acts, begin, cancel, deploy
from tests.crash.world import ServerProcess, World

pytestmark = pytest.mark.postgres


class CallsOnRead(FaultHook):
    """Does something whenever a commit is read."""

    def __init__(self) -> None:
        super().__init__()
        self.notice: Callable[[], None] = lambda: None

    @override
    def transaction(self, name: str, moment: Moment) -> None:
        super().transaction(name, moment)
        if name == "commit" and moment is Moment.BEFORE_BEGIN:
            self.notice()


class BreaksOn(FaultHook):
    """Raises an error that no part foresees, at the first transactions of a name."""

    def __init__(self, name: str, times: int) -> None:
        super().__init__()
        self._name = name
        self._left = times
        self.has_broken = threading.Event()

    @override
    def transaction(self, name: str, moment: Moment) -> None:
        super().transaction(name, moment)
        if name == self._name and moment is Moment.BEFORE_BEGIN and self._left:
            self._left -= 1
            if not self._left:
                self.has_broken.set()
            raise ZeroDivisionError


def state_of(life: ServerProcess, number: int, world: World) -> CommitState:
    return life.ledger.commits.get(world.commit_id(number)).state


def test_past_the_commit_point_no_deadline_turns_a_commit_back(world: World) -> None:
    life = world.life()
    life.submit(world.request(1, ONE))
    life.recovery.look()
    assert state_of(life, 1, world) is CommitState.COMMITTED

    world.wait(2 * 86_400)
    world.settle(world.life())

    assert state_of(life, 1, world) is CommitState.FINALIZED
    main = life.ledger.branches.get(world.tenant, "main")
    assert (main.head_commit_id, main.serving_commit_id) == (world.commit_id(1),) * 2


def test_a_commit_that_another_supersedes_ends_although_its_jobs_never_catch_up(
    world: World,
) -> None:
    life = world.life()
    for number, wanted in ((1, ONE), (2, TWO)):
        life.submit(world.request(number, wanted))
        life.recovery.look()

    life.recovery.look()

    assert state_of(life, 1, world) is CommitState.FINALIZED
    assert state_of(life, 2, world) is CommitState.COMMITTED


def test_a_process_that_was_stopped_after_its_claim_calls_no_store(world: World) -> None:
    life = world.life()
    begin(1, ONE)(world, life)
    commit_id = world.commit_id(1)
    topic = next(
        a for a in life.ledger.commits.get(commit_id).assets if a.kind is AssetKind.KAFKA_TOPIC
    )
    times = iter([0.0, 20.0])
    slow = attrs.evolve(life.executor, clock=lambda: next(times))

    with pytest.raises(StepDeferred, match="claimed again"):
        slow.create(commit_id, topic.asset_id)

    assert world.there() == {}
    assert life.executor.create(commit_id, topic.asset_id) == "live"


def test_a_call_that_had_no_effect_is_not_believed(world: World) -> None:
    life = world.life()
    begin(1, ONE)(world, life)
    commit_id = world.commit_id(1)
    index = next(a for a in life.ledger.commits.get(commit_id).assets if a.kind is AssetKind.INDEX)
    call = Point(len(life.fault_hook.passed) + 2, "call index create")
    life.fault_hook.fault = Fault(call, FaultKind.NO_ANSWER_NO_EFFECT)

    with pytest.raises(StepDeferred, match="does not exist yet"):
        life.executor.create(commit_id, index.asset_id)

    assert life.fault_hook.hit
    assert life.executor.create(commit_id, index.asset_id) == "live"
    assert len(world.there()) == 1


def test_a_topic_counts_as_gone_when_it_was_looked_for_twice(world: World) -> None:
    life = world.life()
    acts(begin(1, ONE, create=2), cancel(1))(world, life)
    life.recovery.look()
    world.wait(31)
    asked = "SELECT state FROM asset WHERE kind = 'kafka_topic'"

    for _ in range(3):
        life.recovery.look()
    assert not any("kafka_topic" in name for name in world.there())
    assert [row["state"] for row in world.rows(asked)] == ["destroying"]

    world.wait(6)
    life.recovery.look()
    assert [row["state"] for row in world.rows(asked)] == ["destroyed"]


def test_a_server_that_dies_hands_on_what_it_drove_when_its_lease_is_over(world: World) -> None:
    dead, heir = world.life(), world.life()
    begin(1, ONE, create=1)(world, dead)

    heir.recovery.look()
    assert state_of(heir, 1, world) is CommitState.APPLYING

    world.wait(31)
    world.settle(heir)
    assert state_of(heir, 1, world) is CommitState.FINALIZED


def test_a_commit_that_arrives_during_a_look_is_handled_in_the_next(world: World) -> None:
    other = world.request(2, TWO, branch="dev")
    world.supervisor.commits.accept(other)
    fault_hook = CallsOnRead()
    life = world.life(fault_hook)
    life.submit(world.request(1, ONE))
    fault_hook.notice = lambda: life.recovery.notice(other.commit_id)

    life.recovery.look()
    world.settle(life)

    assert state_of(life, 1, world) is state_of(life, 2, world) is CommitState.FINALIZED


def test_a_retiring_asset_can_be_reused_within_its_grace(world: World) -> None:
    life = world.life()
    acts(deploy(1, ONE), deploy(2, TWO))(world, life)
    names = set(world.there())
    world.wait(8 * 86_400)

    assert len(life.collector.sweep()) == 3
    life.collector.collect(None)
    assert set(world.there()) == names

    deploy(3, ONE)(world, life)
    assert set(world.there()) == names


@pytest.mark.parametrize("name", ["claimable", "plan"])
def test_an_unforeseen_error_ends_one_round_only(world: World, name: str) -> None:
    broken = BreaksOn(name, times=2)
    life = world.life(broken)
    life.submit(world.request(1, ONE))

    life.recovery.start()
    try:
        assert broken.has_broken.wait(30)
        life.recovery.notice(world.commit_id(1))
        deadline = time.monotonic() + 30
        while (state := state_of(life, 1, world)) is not CommitState.COMMITTED:
            assert time.monotonic() < deadline, state
            time.sleep(0.05)
    finally:
        life.recovery.stop()


def test_a_commit_that_fails_without_a_foreseen_reason_holds_up_no_other(world: World) -> None:
    life = world.life(BreaksOn("plan", times=1))
    life.submit(world.request(1, ONE))
    life.submit(world.request(2, TWO, branch="dev"))

    life.recovery.look()

    assert state_of(life, 1, world) is CommitState.QUEUED
    assert state_of(life, 2, world) is CommitState.COMMITTED
