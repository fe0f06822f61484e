"""The races of the ledger on real connections: the order of locks, and the rows after a wait."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import UUID

import pytest
import sqlalchemy as sa

from narthex_ledger import (
    AlreadyCommitted,
    CommitCancelled,
    CommitInProgress,
    CommitState,
    DestroyOrder,
    Ledger,
    Moment,
    NotNow,
    NotPinned,
)
from tests.ledger.world import LATER, ORDERS, World, blueprint, name_of, webhook_dataset

pytestmark = pytest.mark.postgres

WAIT_S = 20.0


class Race:
    """Runs one transaction up to its COMMIT, lets others meet it, then lets it go."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pool = ThreadPoolExecutor(4)
        self._engine = sa.create_engine(
            world.dsn, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT"
        )

    def hold(
        self, work: Callable[[Ledger], object], *, shift: float = 0
    ) -> tuple[Future[object], threading.Event]:
        """Start the work, and return when it has reached its COMMIT."""
        arrived, go = threading.Event(), threading.Event()

        def fault_hook(_name: str, moment: Moment) -> None:
            if moment is Moment.BEFORE_COMMIT:
                arrived.set()
                go.wait(WAIT_S)

        ledger = Ledger(self._world.dsn, fault_hook=fault_hook, clock_shift=LATER * shift)
        self._world.opened.append(ledger)
        future = self._pool.submit(work, ledger)
        assert arrived.wait(WAIT_S)
        return future, go

    def meet(self, work: Callable[[], object]) -> Future[object]:
        """Start the work, and return when the database reports that it is blocked."""
        future = self._pool.submit(work)
        blocked = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        with self._engine.connect() as connection:
            while not connection.exec_driver_sql(blocked).scalar_one():
                assert not future.done(), "it did not wait"
        return future

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def race(world: World) -> Iterator[Race]:
    made = Race(world)
    yield made
    made.close()


@pytest.fixture
def retiring(world: World) -> int:
    """Return the feed of an aborted commit: retiring and due."""
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    world.ledger.commits.abort(first, error=None, actor="ada")
    return {a.label: a.asset_id for a in world.ledger.commits.get(first).assets}[
        "index_feed/orders"
    ]


def test_the_collector_does_not_take_an_asset_that_a_plan_is_sharing(
    world: World, race: Race, retiring: int
) -> None:
    commit_id, fence = world.claimed(world.request(2))
    plan, go = race.hold(
        lambda ledger: ledger.commits.plan(
            commit_id, fence, blueprint=blueprint(ORDERS), name_of=name_of
        )
    )

    during = world.ledger.gc.destroy_intent(retiring, "collector-1")
    go.set()
    plan.result(WAIT_S)
    after = world.ledger.gc.destroy_intent(retiring, "collector-1")

    assert isinstance(during, NotNow)
    assert isinstance(after, NotNow)
    assert world.states(commit_id)["index_feed/orders"] == "live"


def test_a_plan_waits_for_the_collector_and_then_makes_another_incarnation(
    world: World, race: Race, retiring: int
) -> None:
    commit_id, fence = world.claimed(world.request(2))
    order, go = race.hold(lambda ledger: ledger.gc.destroy_intent(retiring, "collector-1"))

    plan = race.meet(lambda: world.plan(commit_id, fence, blueprint(ORDERS)))
    go.set()

    assert isinstance(order.result(WAIT_S), DestroyOrder)
    plan.result(WAIT_S)
    feed = {a.label: a for a in world.ledger.commits.get(commit_id).assets}["index_feed/orders"]
    assert feed.incarnation == 2
    assert feed.asset_id != retiring


def test_a_plan_that_meets_a_retirement_brings_the_asset_back(world: World, race: Race) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    world.serving(world.request(2), blueprint(webhook_dataset("users")))
    week = world.at(LATER * 60 * 24 * 7)
    week.gc.expire_pins()
    asset_id = week.gc.unpinned()[0]
    commit_id, fence = world.claimed(world.request(3))
    retirement, go = race.hold(lambda ledger: ledger.gc.mark(asset_id))

    plan = race.meet(lambda: world.plan(commit_id, fence, blueprint(ORDERS)))
    go.set()

    assert retirement.result(WAIT_S) is True
    plan.result(WAIT_S)
    assert set(world.states(commit_id).values()) == {"live"}


def test_from_a_plans_look_on_the_collector_finds_its_assets_locked(world: World) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    world.serving(world.request(2), blueprint(webhook_dataset("users")))
    week = world.at(LATER * 60 * 24 * 7)
    week.gc.expire_pins()
    asset_id = week.gc.unpinned()[0]
    commit_id, fence = world.claimed(world.request(3))
    planner = world.at(LATER * 0)
    retired: list[bool] = []

    def meanwhile(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO manifest ") and not retired:
            retired.append(week.gc.mark(asset_id))

    engine = planner._transactions._engine  # noqa: SLF001 (between two of its statements)
    sa.event.listen(engine, "before_cursor_execute", meanwhile)
    planner.commits.plan(commit_id, fence, blueprint=blueprint(ORDERS), name_of=name_of)

    assert retired == [False]
    assert set(world.states(commit_id).values()) == {"live"}


def test_two_plans_of_one_fingerprint_share_one_asset(world: World, race: Race) -> None:
    dev = world.ledger.branches.ensure(world.tenant, "dev")
    first, fence = world.claimed(world.request(1))
    second, other = world.claimed(world.request(2, branch=dev))
    winner, go = race.hold(
        lambda ledger: ledger.commits.plan(
            first, fence, blueprint=blueprint(ORDERS), name_of=name_of
        )
    )

    loser = race.meet(lambda: world.plan(second, other, blueprint(ORDERS)))
    go.set()
    winner.result(WAIT_S)
    loser.result(WAIT_S)

    ids = [{a.asset_id for a in world.ledger.commits.get(c).assets} for c in (first, second)]
    assert ids[0] == ids[1]
    assert {a.refs for a in world.ledger.commits.get(first).assets} == {2}


def test_two_plans_of_one_fingerprint_share_its_second_incarnation(
    world: World, race: Race, retiring: int
) -> None:
    world.at(LATER).gc.destroy_intent(retiring, "collector-1")
    dev = world.ledger.branches.ensure(world.tenant, "dev")
    first, fence = world.claimed(world.request(2))
    second, other = world.claimed(world.request(3, branch=dev))
    winner, go = race.hold(
        lambda ledger: ledger.commits.plan(
            first, fence, blueprint=blueprint(ORDERS), name_of=name_of
        )
    )

    loser = race.meet(lambda: world.plan(second, other, blueprint(ORDERS)))
    go.set()
    winner.result(WAIT_S)
    loser.result(WAIT_S)

    feeds = [
        {a.label: a for a in world.ledger.commits.get(c).assets}["index_feed/orders"]
        for c in (first, second)
    ]
    assert feeds[0].asset_id == feeds[1].asset_id
    assert feeds[0].incarnation == 2


def test_two_plans_on_one_branch_are_serialized(world: World, race: Race) -> None:
    first, fence = world.claimed(world.request(1))
    second, other = world.claimed(world.request(2))
    winner, go = race.hold(
        lambda ledger: ledger.commits.plan(
            first, fence, blueprint=blueprint(ORDERS), name_of=name_of
        )
    )

    loser = race.meet(lambda: world.plan(second, other, blueprint(ORDERS)))
    go.set()
    winner.result(WAIT_S)

    with pytest.raises(CommitInProgress):
        loser.result(WAIT_S)


def test_expiry_leaves_a_pin_that_another_is_derived_from(world: World, race: Race) -> None:
    old, _ = world.serving(world.request(1), blueprint(ORDERS))
    world.serving(world.request(2), blueprint(webhook_dataset("users")))
    week = world.at(LATER * 60 * 24 * 7)
    query, go = race.hold(
        lambda ledger: ledger.offline_queries.submit(
            UUID(int=9), manifest_id=old, request={}, actor="ada"
        )
    )

    during = week.gc.expire_pins()
    go.set()
    query.result(WAIT_S)
    after = week.gc.expire_pins()

    assert during == ()
    assert after == (old, old)
    assert week.gc.unpinned() == ()


def test_deriving_from_a_pin_that_expires_waits_and_then_finds_none(
    world: World, race: Race
) -> None:
    old, _ = world.serving(world.request(1), blueprint(ORDERS))
    world.serving(world.request(2), blueprint(webhook_dataset("users")))
    expiry, go = race.hold(lambda ledger: ledger.gc.expire_pins(), shift=60 * 24 * 7)

    query = race.meet(
        lambda: world.ledger.offline_queries.submit(
            UUID(int=9), manifest_id=old, request={}, actor="ada"
        )
    )
    go.set()

    assert expiry.result(WAIT_S) == (old, old)
    with pytest.raises(NotPinned):
        query.result(WAIT_S)


def test_a_cancel_that_meets_the_commit_point_loses(world: World, race: Race) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)
    commit, go = race.hold(lambda ledger: ledger.commits.commit_point(commit_id, fence))

    cancel = race.meet(lambda: world.ledger.commits.cancel(commit_id, actor="ada"))
    go.set()

    assert commit.result(WAIT_S) == 1
    with pytest.raises(AlreadyCommitted):
        cancel.result(WAIT_S)


def test_a_commit_point_that_meets_a_cancel_loses(world: World, race: Race) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)
    cancel, go = race.hold(lambda ledger: ledger.commits.cancel(commit_id, actor="ada"))

    commit = race.meet(lambda: world.ledger.commits.commit_point(commit_id, fence))
    go.set()

    assert cancel.result(WAIT_S) is CommitState.READY
    with pytest.raises(CommitCancelled):
        commit.result(WAIT_S)


def test_an_abort_that_meets_the_commit_point_loses(world: World, race: Race) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)
    commit, go = race.hold(lambda ledger: ledger.commits.commit_point(commit_id, fence))

    abort = race.meet(lambda: world.ledger.commits.abort(commit_id, error=None, actor="ada"))
    go.set()

    assert commit.result(WAIT_S) == 1
    with pytest.raises(AlreadyCommitted):
        abort.result(WAIT_S)


def test_an_abort_waits_for_a_sharer_and_leaves_it_the_assets(world: World, race: Race) -> None:
    dev = world.ledger.branches.ensure(world.tenant, "dev")
    first, fence = world.planned(world.request(1), blueprint(ORDERS))
    world.create(first, fence)
    second, other = world.claimed(world.request(2, branch=dev))
    plan, go = race.hold(
        lambda ledger: ledger.commits.plan(
            second, other, blueprint=blueprint(ORDERS), name_of=name_of
        )
    )

    abort = race.meet(lambda: world.ledger.commits.abort(first, error=None, actor="ada"))
    go.set()
    plan.result(WAIT_S)

    assert abort.result(WAIT_S) is CommitState.ABORTING
    assert set(world.states(second).values()) == {"live"}
    assert world.ledger.commits.aborted(first) is CommitState.ABORTED


def test_a_takeover_waits_for_a_step_and_the_next_step_is_fenced(world: World, race: Race) -> None:
    commit_id, fence = world.planned(world.request(1), blueprint(ORDERS))
    ids = {a.label: a.asset_id for a in world.ledger.commits.get(commit_id).assets}
    log = ids["kafka_topic/orders"]
    step, go = race.hold(
        lambda ledger: ledger.assets.intend(log, commit_id, fence, call_timeout_s=5)
    )

    takeover = race.meet(lambda: world.at(LATER).commits.claim(commit_id, "executor-2"))
    go.set()
    step.result(WAIT_S)

    assert takeover.result(WAIT_S) == fence + 1


def test_why_the_collector_checks_in_a_second_statement(world: World, retiring: int) -> None:
    """The control: one statement that locks and checks acts on what it saw before it waited."""
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    commit_id, fence = world.claimed(world.request(2))
    wrong = (
        "UPDATE asset SET state = 'destroying' WHERE asset_id = %s AND NOT EXISTS ("
        "SELECT 1 FROM manifest_binding JOIN pin USING (manifest_id)"
        " WHERE manifest_binding.asset_id = asset.asset_id)"
    )
    race = Race(world)
    plan, go = race.hold(
        lambda ledger: ledger.commits.plan(
            commit_id, fence, blueprint=blueprint(ORDERS), name_of=name_of
        )
    )

    def collect_wrongly() -> int:
        with engine.begin() as connection:
            return connection.exec_driver_sql(wrong, (retiring,)).rowcount

    collected = race.meet(collect_wrongly)
    go.set()
    plan.result(WAIT_S)

    # The plan resurrected it, and the pair live to destroying is refused by the trigger alone.
    with pytest.raises(sa.exc.IntegrityError, match="may not go from live to destroying"):
        collected.result(WAIT_S)
    race.close()
