"""A commit that does not happen leaves nothing behind, and takes nothing from others."""

from typing import Protocol

import pytest
import sqlalchemy as sa

from narthex_ledger import (
    AssetState,
    CommitRejected,
    CommitState,
    DestroyOrder,
    Fenced,
    Go,
    LedgerRefused,
    NotNow,
    Waiting,
    WrongState,
)
from tests.ledger.world import LATER, ORDERS, World, blueprint, webhook_dataset

pytestmark = pytest.mark.postgres

USERS = webhook_dataset("users")


class Counter(Protocol):
    def __call__(self, table: str, where: str = "true") -> int: ...


@pytest.fixture
def count(world: World) -> Counter:
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)

    def counted(table: str, where: str = "true") -> int:
        with engine.connect() as connection:
            found = connection.exec_driver_sql(f"SELECT count(*) FROM {table} WHERE {where}")  # noqa: S608
            return int(found.scalar_one())

    return counted


def test_an_aborted_commit_leaves_no_stray_and_no_pin(world: World, count: Counter) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(commit_id, fence)

    assert (
        world.ledger.commits.abort(commit_id, error="too slow", actor="ada") is CommitState.ABORTING
    )
    assert (
        world.ledger.commits.abort(commit_id, error="too slow", actor="ada") is CommitState.ABORTING
    )
    assert world.ledger.commits.aborted(commit_id) is CommitState.ABORTING
    world.collect(world.at(LATER))

    assert world.ledger.commits.aborted(commit_id) is CommitState.ABORTED
    assert world.ledger.commits.aborted(commit_id) is CommitState.ABORTED
    assert world.outside == set()
    assert count("pin") == 0
    assert count("asset", "state <> 'destroyed'") == 0
    assert count("job") == count("job_shard") == 0
    assert world.ledger.branches.get(world.tenant, "main").head_seq == 0


def test_a_planned_asset_is_destroyed_at_once(world: World) -> None:
    commit_id, _ = world.planned(world.request(1), blueprint(ORDERS))

    world.ledger.commits.abort(commit_id, error=None, actor="ada")

    assert set(world.states(commit_id).values()) == {"destroyed"}
    assert world.ledger.commits.aborted(commit_id) is CommitState.ABORTED


def test_a_call_in_flight_is_waited_for_before_its_asset_is_destroyed(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(commit_id).assets}
    log = ids["kafka_topic/orders"]
    world.ledger.assets.intend(log, commit_id, fence, call_timeout_s=20)
    world.ledger.commits.abort(commit_id, error=None, actor="ada")

    order = world.ledger.gc.destroy_intent(log, "collector-1")
    assert isinstance(order, DestroyOrder)
    assert isinstance(world.ledger.gc.destroy_call(log, order.fence, call_timeout_s=5), NotNow)
    with pytest.raises(LedgerRefused):
        world.ledger.gc.destroyed(log, order.fence)
    assert world.ledger.commits.aborted(commit_id) is CommitState.ABORTING

    later = world.at(LATER)
    order = later.gc.destroy_intent(log, "collector-2")
    assert isinstance(order, DestroyOrder)
    assert isinstance(later.gc.destroy_call(log, order.fence, call_timeout_s=5), DestroyOrder)
    later.gc.destroyed(log, order.fence)
    later.gc.destroyed(log, order.fence)
    assert world.ledger.commits.aborted(commit_id) is CommitState.ABORTED


def test_the_branch_is_free_as_soon_as_the_abort_is_decided(world: World) -> None:
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    world.ledger.commits.abort(first, error=None, actor="ada")

    second, _ = world.committed(world.request(2), blueprint(ORDERS))

    assert world.ledger.commits.aborted(first) is CommitState.ABORTED
    assert set(world.states(second).values()) == {"live"}


def test_an_executor_of_an_aborted_commit_is_fenced(world: World) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    asset_id = world.ledger.commits.get(commit_id).assets[0].asset_id
    world.ledger.commits.abort(commit_id, error=None, actor="ada")

    with pytest.raises(Fenced):
        world.ledger.assets.intend(asset_id, commit_id, fence, call_timeout_s=5)


def test_an_asset_shared_with_a_commit_in_flight_survives_its_makers_abort(world: World) -> None:
    dev = world.ledger.branches.ensure(world.tenant, "dev")
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    second, other = world.planned(world.request(2, branch=dev), blueprint(ORDERS, USERS))

    world.ledger.commits.abort(first, error=None, actor="ada")

    assert world.ledger.commits.aborted(first) is CommitState.ABORTED
    world.collect(world.at(LATER))
    world.create(second, other)
    world.ledger.commits.ready(second, other)
    assert world.ledger.commits.commit_point(second, other) == 1
    assert {a.owner_commit_id for a in world.ledger.commits.get(second).assets} == {second}


def test_an_asset_that_another_commit_creates_is_waited_for(world: World) -> None:
    dev = world.ledger.branches.ensure(world.tenant, "dev")
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    second, other = world.planned(world.request(2, branch=dev), blueprint(ORDERS))
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(first).assets}
    log = ids["kafka_topic/orders"]
    world.ledger.assets.intend(log, first, fence, call_timeout_s=5)

    turn = world.ledger.assets.intend(log, second, other, call_timeout_s=5)
    assert turn == Waiting(asset_id=log, owner_commit_id=first)

    world.ledger.commits.release(first, fence)
    assert isinstance(world.ledger.assets.intend(log, second, other, call_timeout_s=5), Go)
    with pytest.raises(WrongState):
        world.ledger.assets.created(log, first, fence, external_id="x")


def test_its_last_user_destroys_what_two_aborted_commits_shared(world: World) -> None:
    dev = world.ledger.branches.ensure(world.tenant, "dev")
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    second, _ = world.planned(world.request(2, branch=dev), blueprint(ORDERS))

    world.ledger.commits.abort(first, error=None, actor="ada")
    world.ledger.commits.abort(second, error=None, actor="ada")
    world.collect(world.at(LATER))

    assert world.ledger.commits.aborted(first) is CommitState.ABORTED
    assert world.ledger.commits.aborted(second) is CommitState.ABORTED
    assert world.outside == set()


def test_a_retiring_asset_is_resurrected(world: World) -> None:
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    world.ledger.commits.abort(first, error=None, actor="ada")
    assert "retiring" in world.states(first).values()

    second, _ = world.planned(world.request(2), blueprint(ORDERS))

    assert set(world.states(second).values()) == {"live"}
    assert {a.incarnation for a in world.ledger.commits.get(second).assets} == {1}
    assert world.at(LATER).gc.due_destroys() == ()


def test_an_asset_that_is_being_destroyed_is_made_anew_under_another_name(world: World) -> None:
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    world.ledger.commits.abort(first, error=None, actor="ada")
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(first).assets}
    later = world.at(LATER)
    assert isinstance(
        later.gc.destroy_intent(ids["index_feed/orders"], "collector-1"), DestroyOrder
    )

    second, _ = world.planned(world.request(2), blueprint(ORDERS))

    made = {a.label: a for a in world.ledger.commits.get(second).assets}
    assert made["index_feed/orders"].incarnation == 2
    assert made["index_feed/orders"].state is AssetState.PLANNED
    assert made["index/orders"].incarnation == 1


def test_a_quarantined_asset_is_neither_shared_nor_made_again(world: World) -> None:
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(first).assets}
    log = ids["kafka_topic/orders"]
    world.ledger.assets.intend(log, first, fence, call_timeout_s=5)
    world.ledger.assets.quarantine(log, first, fence, difference="3 partitions, not 1")
    world.ledger.assets.quarantine(log, first, fence, difference="3 partitions, not 1")
    world.ledger.commits.abort(first, error="mismatch", actor="ada")
    second, other = world.claimed(world.request(2))

    with pytest.raises(CommitRejected, match="quarantined"):
        world.plan(second, other, blueprint(ORDERS))
    assert world.ledger.commits.aborted(first) is CommitState.ABORTING

    world.ledger.gc.force_destroy(log, actor="grace")
    world.collect(world.at(LATER))
    assert world.ledger.commits.aborted(first) is CommitState.ABORTED


def test_replaced_assets_are_hot_then_cold_then_destroyed(world: World, count: Counter) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    second, _ = world.serving(world.request(2), blueprint(USERS))
    soon = world.at(LATER)
    soon.gc.expire_pins()
    assert soon.gc.unpinned() == soon.jobs.pause_cold() == ()

    cold = world.at(LATER * 60)
    cold.gc.expire_pins()
    assert len(cold.jobs.pause_cold()) == 2
    assert cold.gc.unpinned() == ()

    gone = world.at(LATER * 60 * 24 * 7)
    assert len(gone.gc.expire_pins()) == 2
    world.collect(gone)
    world.collect(world.at(LATER * 60 * 24 * 7 + LATER))

    assert count("asset", "state = 'destroyed'") == len(ORDERS)
    assert set(world.states(second).values()) == {"live"}
    assert count("pin") == 2


def test_a_running_job_is_stopped_before_it_is_destroyed(world: World) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    world.serving(world.request(2), blueprint(USERS))
    week = LATER * 60 * 24 * 7
    gone = world.at(week)
    gone.gc.expire_pins()
    jobs = {
        j.asset.asset_id: j
        for j in world.ledger.jobs.all()
        if j.asset.fingerprint == ORDERS[3].fingerprint
    }
    (job,) = jobs
    gone.gc.mark(job)
    collector = world.at(week + LATER)
    slots = collector.slots.claim("supervisor-9", range(4))
    assert len(slots) == 4

    blocked = collector.gc.destroy_intent(job, "collector-1")

    assert isinstance(blocked, NotNow)
    assert "shard 0 is caught_up" in blocked.why
    stopped = {j.asset.asset_id: j.desired for j in world.ledger.jobs.all()}
    assert stopped[job] == "stopped"


def test_two_collectors_do_not_destroy_one_asset(world: World) -> None:
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    world.ledger.commits.abort(first, error=None, actor="ada")
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(first).assets}
    feed = ids["index_feed/orders"]

    mine = world.ledger.gc.destroy_intent(feed, "collector-1")
    again = world.ledger.gc.destroy_intent(feed, "collector-1")
    other = world.ledger.gc.destroy_intent(feed, "collector-2")

    assert mine == again
    assert isinstance(mine, DestroyOrder)
    assert isinstance(other, NotNow)
    taken = world.at(LATER).gc.destroy_intent(feed, "collector-2")
    assert isinstance(taken, DestroyOrder)
    assert taken.fence == mine.fence + 1
    with pytest.raises(Fenced):
        world.ledger.gc.destroyed(feed, mine.fence)


def test_a_failed_destroy_is_tried_again(world: World) -> None:
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    world.ledger.commits.abort(first, error=None, actor="ada")
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(first).assets}
    order = world.ledger.gc.destroy_intent(ids["index_feed/orders"], "collector-1")
    assert isinstance(order, DestroyOrder)

    world.ledger.gc.destroy_failed(order.asset_id, order.fence, error="broker away")

    assert order.asset_id in world.ledger.gc.due_destroys()


def test_an_asset_is_destroyed_after_its_dependents(world: World) -> None:
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    world.ledger.commits.abort(first, error=None, actor="ada")
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(first).assets}

    outcome = world.ledger.gc.destroy_intent(ids["kafka_topic/orders"], "collector-1")

    assert isinstance(outcome, NotNow)
    assert "needs it" in outcome.why


def test_an_asset_that_a_pin_reaches_is_not_retired(world: World) -> None:
    commit_id, _ = world.committed(world.request(1), blueprint(ORDERS))

    marked = [world.ledger.gc.mark(a.asset_id) for a in world.ledger.commits.get(commit_id).assets]

    assert not any(marked)
    assert set(world.states(commit_id).values()) == {"live"}


def test_a_manifest_binds_all_that_its_assets_need(world: World) -> None:
    world.committed(world.request(1), blueprint(ORDERS))
    second, fence = world.claimed(world.request(2))

    with pytest.raises(LedgerRefused, match="needed but not bound"):
        world.plan(second, fence, blueprint(ORDERS[-1:]))
