"""Branches made, cloned, deleted and brought back: rows of the ledger only, and nothing is lost."""

import contextlib
import datetime as dt
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import attrs
import pytest
import sqlalchemy as sa

from narthex_ledger import (
    BranchExists,
    BranchRequest,
    BranchView,
    CommitInProgress,
    CommitState,
    Desired,
    IdempotencyKeyReused,
    Ledger,
    LedgerRefused,
    LedgerUnreachable,
    Listener,
    MainStays,
    Moment,
    NotFound,
    PromotionState,
    Rules,
)
from tests.ledger.world import (
    LATER,
    ORDERS,
    World,
    blueprint,
    fingerprint,
    webhook_dataset,
)

pytestmark = pytest.mark.postgres

RETURNS = webhook_dataset("returns")
SHOP = blueprint(ORDERS, RETURNS)


def plan_request(world: World, number: int, name: str, *, key: str = "") -> BranchRequest:
    return BranchRequest(
        commit_id=UUID(int=number),
        tenant=world.tenant,
        name=name,
        idempotency_key=key or f"key-of-branch-{number}",
        request_sha256=fingerprint(f"branch {number} {name}"),
        actor="ada",
    )


def cloned(world: World, number: int, name: str, source: str = "main") -> BranchView:
    return world.ledger.branches.clone(plan_request(world, number, name), source=source)


def refs(world: World, commit_id: UUID) -> set[int]:
    return {asset.refs for asset in world.ledger.commits.get(commit_id).assets}


def counts(world: World) -> dict[str, int]:
    """Count the rows of every table that a branch or a commit may have rows in."""
    tables = ("branch", "deploy_commit", "manifest", "manifest_binding", "pin", "asset", "job")
    engine = sa.create_engine(world.dsn)
    with engine.connect() as connection:
        found = {
            table: int(
                connection.execute(
                    sa.select(sa.func.count()).select_from(sa.table(table))
                ).scalar_one()
            )
            for table in tables
        }
    engine.dispose()
    return found


def test_a_new_branch_is_empty_and_takes_commits_of_its_own(world: World) -> None:
    dev = world.ledger.branches.init(plan_request(world, 10, "dev"))

    world.serving(world.request(1, branch=dev.branch_id), SHOP)

    found = world.ledger.branches.get(world.tenant, "dev")
    assert (dev.head_commit_id, dev.head_seq, dev.is_main) == (None, 0, False)
    assert (found.serving_seq, found.serving_commit_id) == (1, UUID(int=1))
    assert world.ledger.branches.get(world.tenant, "main").head_commit_id is None


def test_a_name_identifies_one_branch(world: World) -> None:
    world.ledger.branches.init(plan_request(world, 10, "dev"))

    with pytest.raises(BranchExists):
        world.ledger.branches.init(plan_request(world, 11, "dev"))
    with pytest.raises(BranchExists):
        cloned(world, 12, "dev")
    with pytest.raises(BranchExists):
        world.ledger.branches.init(plan_request(world, 13, "main"))


def test_an_actor_makes_a_bounded_number_of_branches(world: World) -> None:
    """A branch that can be restored counts, because its assets are kept; those of others do not."""
    few = world.at(dt.timedelta(0), rules=Rules(most_branches_each=2)).branches
    few.init(plan_request(world, 10, "one"))
    few.clone(plan_request(world, 11, "two"), source="main")
    refusals = []
    for made in (
        lambda: few.init(plan_request(world, 12, "three")),
        lambda: few.clone(plan_request(world, 13, "three"), source="main"),
    ):
        with pytest.raises(LedgerRefused, match="`ada` has made 2 branches") as refused:
            made()
        refusals.append(refused.value.hint)

    assert few.init(plan_request(world, 10, "one")).name == "one"
    few.init(attrs.evolve(plan_request(world, 14, "three"), actor="ben"))
    few.delete(plan_request(world, 15, "one"))
    few.init(plan_request(world, 16, "four"))
    world.serving(world.request(1, branch=few.get(world.tenant, "four").branch_id), SHOP)
    few.delete(plan_request(world, 17, "four"))
    with pytest.raises(LedgerRefused, match="`ada` has made 2 branches"):
        few.init(plan_request(world, 18, "five"))
    assert all("`NARTHEX_MOST_BRANCHES`" in hint for hint in refusals)


def test_a_repeated_request_returns_the_same_result(world: World) -> None:
    world.serving(world.request(1), SHOP)
    first = (world.ledger.branches.init(plan_request(world, 10, "dev")), cloned(world, 11, "copy"))
    before = counts(world)

    again = (world.ledger.branches.init(plan_request(world, 10, "dev")), cloned(world, 11, "copy"))

    assert again == first
    assert counts(world) == before
    with pytest.raises(IdempotencyKeyReused):
        world.ledger.branches.init(plan_request(world, 12, "other", key="key-of-branch-10"))


def test_a_clone_reads_and_deploys_what_its_source_does(world: World) -> None:
    world.serving(world.request(1), SHOP)

    copy = cloned(world, 10, "copy")

    manifest = world.ledger.commits.get(UUID(int=1)).manifest_id
    serving = world.ledger.manifests.serving(copy.branch_id)
    assert serving is not None
    assert (copy.head_seq, copy.serving_seq) == (1, 1)
    assert copy.head_commit_id == copy.serving_commit_id == UUID(int=10)
    assert serving.manifest.manifest_id == manifest
    assert world.ledger.commits.get(UUID(int=10)).state is CommitState.FINALIZED
    assert refs(world, UUID(int=1)) == {4}


@pytest.mark.slow
def test_a_clone_takes_as_many_rows_for_many_assets_as_for_few(world: World) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    many = blueprint(*(webhook_dataset(f"d{n}") for n in range(40)))
    other = world.ledger.branches.init(plan_request(world, 20, "other"))
    world.serving(world.request(2, branch=other.branch_id), many)
    empty = counts(world)

    cloned(world, 10, "of-few")
    few = counts(world)
    cloned(world, 11, "of-many", source="other")
    after = counts(world)

    grown = {table: few[table] - empty[table] for table in few}
    assert grown == {table: after[table] - few[table] for table in few}
    assert grown == dict.fromkeys(few, 0) | {"branch": 1, "deploy_commit": 1, "pin": 2}


def test_the_parent_of_a_commit_is_the_previous_one(world: World) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    world.committed(world.request(2), SHOP)
    copy = cloned(world, 10, "copy").branch_id
    world.ledger.branches.delete(plan_request(world, 11, "copy"))
    world.ledger.branches.undelete(plan_request(world, 12, "copy"))
    world.planned(world.request(3, branch=copy), blueprint(RETURNS))

    found = world.ledger.commits.newest(branch=copy)
    by_seq = {commit.seq: commit for commit in found}

    assert [by_seq[seq].parent_commit_id for seq in (2, 3, 4)] == [
        by_seq[seq].commit_id for seq in (1, 2, 3)
    ]
    assert by_seq[1].parent_commit_id is None
    assert by_seq[None].parent_commit_id == by_seq[4].commit_id


def test_a_clone_before_the_readers_flipped_flips_by_itself(world: World) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    _, fence = world.committed(world.request(2), SHOP)
    world.backfill(UUID(int=2))
    world.ledger.jobs.start(UUID(int=2), fence)

    copy = cloned(world, 10, "copy")

    assert (copy.head_seq, copy.serving_seq) == (2, 1)
    commit_id = UUID(int=10)
    found = world.ledger.commits.get(commit_id)
    assert (found.state, found.promotion) == (CommitState.COMMITTED, PromotionState.PENDING)
    world.catch_up()
    mine = world.ledger.commits.claim(commit_id, "executor-1")
    world.ledger.promotions.promote(
        commit_id, mine, evidence=world.ledger.promotions.readiness(commit_id).evidence
    )
    world.ledger.commits.finalize(commit_id, mine)
    assert world.ledger.branches.get(world.tenant, "copy").serving_seq == 2
    assert world.ledger.branches.get(world.tenant, "main").serving_seq == 1


def test_a_branch_that_only_has_a_head_is_cloned_with_a_promotion_due(world: World) -> None:
    world.committed(world.request(1), SHOP)

    copy = cloned(world, 10, "copy")

    assert (copy.head_seq, copy.serving_seq, copy.serving_commit_id) == (1, 0, None)
    assert world.ledger.commits.get(UUID(int=10)).promotion is PromotionState.PENDING


def test_an_empty_branch_is_cloned_as_an_empty_branch(world: World) -> None:
    copy = cloned(world, 10, "copy")

    assert (copy.head_commit_id, copy.head_seq) == (None, 0)
    with pytest.raises(NotFound, match="`nowhere` does not exist"):
        cloned(world, 11, "other", source="nowhere")


def test_a_change_on_a_clone_makes_only_what_differs(world: World) -> None:
    world.serving(world.request(1), SHOP)
    copy = cloned(world, 10, "copy")
    more = webhook_dataset("visits")

    commit_id, fence = world.claimed(world.request(2, branch=copy.branch_id))
    made = world.plan(commit_id, fence, blueprint(ORDERS, RETURNS, more))

    assert {asset.label for asset in made.create} == {asset.label for asset in more}
    assert {asset.shared_with for asset in made.share} == {("main", "copy")}
    assert made.base_seq == 1


def test_a_clone_retains_its_assets_when_its_source_changes(world: World) -> None:
    world.serving(world.request(1), SHOP)
    copy = cloned(world, 10, "copy")
    world.serving(world.request(2), blueprint(webhook_dataset("visits")))

    later = world.at(LATER * 10_000)
    later.gc.expire_pins()
    world.collect(later)
    world.collect(world.at(LATER * 10_001))

    assert set(world.states(UUID(int=1)).values()) == {"live"}
    serving = world.ledger.manifests.serving(copy.branch_id)
    assert serving is not None
    assert serving.manifest.manifest_id == UUID(int=1)


def test_a_deleted_branch_is_retained_and_then_released(world: World) -> None:
    dev = world.ledger.branches.init(plan_request(world, 10, "dev"))
    world.serving(world.request(1, branch=dev.branch_id), SHOP)

    gone = world.ledger.branches.delete(plan_request(world, 11, "dev"))
    world.collect(world.at(LATER))
    kept = set(world.states(UUID(int=1)).values())
    later = world.at(LATER * 10_000)
    later.gc.expire_pins()
    world.collect(later)
    world.collect(world.at(LATER * 10_001))

    assert gone.state == "deleted"
    assert kept == {"live"}
    assert set(world.states(UUID(int=1)).values()) == {"destroyed"}
    assert world.outside == set()
    with pytest.raises(LedgerRefused, match="past the window"):
        world.ledger.branches.undelete(plan_request(world, 12, "dev"))


def test_the_jobs_of_a_deleted_branch_pause_until_it_is_restored(world: World) -> None:
    dev = world.ledger.branches.init(plan_request(world, 10, "dev"))
    world.serving(world.request(1, branch=dev.branch_id), SHOP)

    world.ledger.branches.delete(plan_request(world, 11, "dev"))
    world.ledger.jobs.pause_cold()
    rested = {job.desired for job in world.ledger.jobs.all()}
    back = world.ledger.branches.undelete(plan_request(world, 12, "dev"))

    assert rested == {Desired.PAUSED}
    assert {job.desired for job in world.ledger.jobs.all()} == {Desired.RUNNING}
    assert (back.state, back.head_seq, back.serving_seq) == ("active", 3, 3)
    assert back.head_commit_id == back.serving_commit_id == UUID(int=12)
    serving = world.ledger.manifests.serving(back.branch_id)
    assert serving is not None
    assert serving.manifest.manifest_id == UUID(int=1)
    world.serving(world.request(2, branch=back.branch_id), blueprint(ORDERS))
    assert world.ledger.branches.get(world.tenant, "dev").serving_seq == 4


def test_a_branch_comes_back_with_the_promotion_that_was_due(world: World) -> None:
    dev = world.ledger.branches.init(plan_request(world, 10, "dev"))
    world.serving(world.request(1, branch=dev.branch_id), blueprint(ORDERS))
    world.committed(world.request(2, branch=dev.branch_id), SHOP)

    world.ledger.branches.delete(plan_request(world, 11, "dev"))
    superseded = world.ledger.commits.get(UUID(int=2)).promotion
    back = world.ledger.branches.undelete(plan_request(world, 12, "dev"))

    assert superseded is PromotionState.SUPERSEDED
    assert (back.head_commit_id, back.serving_commit_id) == (UUID(int=12), UUID(int=1))
    assert world.ledger.commits.get(UUID(int=12)).promotion is PromotionState.PENDING


def test_a_deleted_name_is_free_and_then_not_brought_back(world: World) -> None:
    world.ledger.branches.init(plan_request(world, 10, "dev"))
    world.ledger.branches.delete(plan_request(world, 11, "dev"))

    world.ledger.branches.init(plan_request(world, 12, "dev"))

    with pytest.raises(BranchExists):
        world.ledger.branches.undelete(plan_request(world, 13, "dev"))
    listed = [(branch.name, branch.state) for branch in world.ledger.branches.all(world.tenant)]
    assert listed == [("dev", "active"), ("main", "active")]


def test_a_branch_that_can_be_brought_back_is_listed_with_its_end(world: World) -> None:
    world.serving(world.request(1), SHOP)
    cloned(world, 10, "copy")
    world.ledger.branches.delete(plan_request(world, 11, "copy"))

    main, copy = world.ledger.branches.all(world.tenant)

    assert (main.name, main.undelete_until) == ("main", None)
    assert (copy.name, copy.state) == ("copy", "deleted")
    assert copy.undelete_until is not None


def test_main_stays_and_so_does_what_is_not_there(world: World) -> None:
    with pytest.raises(MainStays):
        world.ledger.branches.delete(plan_request(world, 10, "main"))
    with pytest.raises(NotFound):
        world.ledger.branches.delete(plan_request(world, 11, "dev"))
    with pytest.raises(NotFound):
        world.ledger.branches.undelete(plan_request(world, 12, "dev"))


def test_a_commit_in_flight_is_in_the_way_of_a_deletion_and_is_named(world: World) -> None:
    dev = world.ledger.branches.init(plan_request(world, 10, "dev"))
    world.planned(world.request(1, branch=dev.branch_id), SHOP)

    with pytest.raises(CommitInProgress) as refused:
        world.ledger.branches.delete(plan_request(world, 11, "dev"))

    assert refused.value.commit_id == UUID(int=1)
    assert world.ledger.branches.get(world.tenant, "dev").state == "active"


def test_a_clone_waits_for_a_commit_of_its_source_and_sees_it_whole(world: World) -> None:
    world.serving(world.request(1), blueprint(ORDERS))
    commit_id, fence = world.planned(world.request(2), SHOP)
    world.create(commit_id, fence)
    world.ledger.commits.ready(commit_id, fence)
    at_commit, go_on = threading.Event(), threading.Event()

    def fault_hook(name: str, moment: Moment) -> None:
        if (name, moment) == ("commit_point", Moment.BEFORE_COMMIT):
            at_commit.set()
            assert go_on.wait(30)

    slow = Ledger(world.dsn, fault_hook=fault_hook)
    world.opened.append(slow)
    committing = threading.Thread(target=slow.commits.commit_point, args=(commit_id, fence))
    committing.start()
    assert at_commit.wait(30)
    made: list[BranchView] = []
    cloning = threading.Thread(target=lambda: made.append(cloned(world, 10, "copy")))
    cloning.start()
    waits = _is_waiting(world)
    go_on.set()
    committing.join()
    cloning.join()

    assert waits
    assert [branch.head_seq for branch in made] == [2]


def _is_waiting(world: World) -> bool:
    """Ask until a session of this database waits for a lock."""
    engine = sa.create_engine(world.dsn)
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    found = 0
    for _ in range(10_000):
        with engine.connect() as connection:
            found = int(connection.execute(waiting).scalar_one())
        if found:
            break
    engine.dispose()
    return found > 0


def test_changes_of_branches_are_announced_when_they_are_committed(world: World) -> None:
    changes = world.ledger.branches.changes()

    assert changes.wait(30.0)  # from now on it listens
    assert not changes.wait(0.05)
    world.ledger.branches.init(plan_request(world, 1, "candidate"))
    assert changes.wait(30.0)
    assert not changes.wait(0.05)
    world.ledger.branches.delete(plan_request(world, 2, "candidate"))
    assert changes.wait(30.0)
    changes.close()


def test_changes_are_announced_to_a_process_with_thousands_of_open_files(world: World) -> None:
    changes = world.ledger.branches.changes()
    world.ledger.branches._db.transactions._engine.dispose()  # noqa: SLF001 (it connects anew)
    with contextlib.ExitStack() as opened:
        for _ in range(1_100):
            opened.enter_context(Path(os.devnull).open("rb"))
        assert changes.wait(30.0)  # from now on it listens
        assert not changes.wait(0.05)
        world.ledger.branches.init(plan_request(world, 1, "candidate"))
        assert changes.wait(30.0)
        changes.close()


def test_a_listener_whose_connection_was_ended_reports_it_and_connects_again(
    world: World,
) -> None:
    changes = world.ledger.branches.changes()
    assert changes.wait(30.0)

    with world.ledger.branches._db.transactions._engine.connect() as connection:  # noqa: SLF001
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
        )

    with pytest.raises(LedgerUnreachable):
        _wait_until_silent(changes)
    assert changes.wait(30.0)
    world.ledger.branches.init(plan_request(world, 1, "candidate"))
    assert changes.wait(30.0)
    changes.close()


def test_another_thread_ends_a_wait_for_changes(world: World) -> None:
    changes = world.ledger.branches.changes()
    assert changes.wait(30.0)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(changes.wait, 600.0)
        changes.interrupt()
        assert waiting.result(timeout=60.0) is False

    assert changes.wait(600.0) is False
    changes.close()


def _wait_until_silent(changes: Listener) -> None:
    while changes.wait(30.0):  # the server's farewell is read first
        pass
