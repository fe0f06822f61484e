"""When entities were last read, in a real database: only newer instants, of what is served."""

import datetime as dt

import pytest
import sqlalchemy as sa

from narthex_ledger import BranchRequest, BranchView, LastRead, Ledger, ReadEntity, ReadKind, Rules
from tests.ledger.world import World

pytestmark = pytest.mark.postgres

ORDERS, SPENT = (ReadKind.DATASET, "Orders"), (ReadKind.FEATURE, "Buyer.spent")
BRANCH = (ReadKind.BRANCH, "")
NOW, MINUTE, DAY = dt.timedelta(0), dt.timedelta(minutes=1), dt.timedelta(days=1)


def now_of(world: World) -> dt.datetime:
    engine = sa.create_engine(world.dsn, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        now: dt.datetime = connection.exec_driver_sql("SELECT ledger_now()").scalar_one()
    return now


def branch_of(world: World, name: str = "main") -> BranchView:
    return world.ledger.branches.get(world.tenant, name)


def follow(world: World, *entities: ReadEntity, name: str = "main") -> None:
    branch = branch_of(world, name)
    assert world.ledger.last_reads.follow(branch.branch_id, branch.serving_commit_id, entities)


def reads(world: World, name: str = "main") -> dict[ReadEntity, LastRead]:
    return dict(world.ledger.last_reads.of_branch(branch_of(world, name).branch_id))


def advance(world: World, age: dt.timedelta, *entities: ReadEntity, branch: str = "main") -> None:
    ages = {(branch, entity): age for entity in entities}
    world.ledger.last_reads.advance(world.tenant, ages)


def request(world: World, name: str, number: int) -> BranchRequest:
    made = world.request(number)
    return BranchRequest(
        commit_id=made.commit_id,
        tenant=world.tenant,
        name=name,
        idempotency_key=made.idempotency_key,
        request_sha256=made.request_sha256,
        actor="tests",
    )


def test_served_entities_count_from_when_they_were_first_seen(world: World) -> None:
    before = now_of(world)
    follow(world, ORDERS)
    first = reads(world)
    follow(world, ORDERS, SPENT)
    second = reads(world)

    assert first.keys() == {BRANCH, ORDERS}
    assert second.keys() == {BRANCH, ORDERS, SPENT}
    assert second[ORDERS] == first[ORDERS]
    assert before <= first[ORDERS].counted_since < second[SPENT].counted_since <= now_of(world)
    assert {one.read_at for one in second.values()} == {None}


def test_entities_end_when_readers_no_longer_read_them(world: World) -> None:
    follow(world, ORDERS, SPENT)
    advance(world, NOW, ORDERS, SPENT)
    read = reads(world)
    follow(world, SPENT)
    assert reads(world) == {BRANCH: read[BRANCH], SPENT: read[SPENT]}

    follow(world, ORDERS, SPENT)
    assert reads(world)[ORDERS].read_at is None


def test_a_branch_that_serves_another_commit_by_now_is_left_as_it_is(world: World) -> None:
    follow(world, ORDERS)
    branch = branch_of(world)
    other = world.request(7).commit_id

    assert not world.ledger.last_reads.follow(branch.branch_id, other, [SPENT])
    assert reads(world).keys() == {BRANCH, ORDERS}


def test_only_newer_reads_are_stored_and_they_count_for_the_branch(world: World) -> None:
    follow(world, ORDERS, SPENT)
    later = world.at(DAY)
    ages = {("main", ORDERS): 60 * MINUTE, ("main", SPENT): 80 * MINUTE}
    later.last_reads.advance(world.tenant, ages)
    first = reads(world)
    at = first[ORDERS].read_at
    assert at is not None
    assert abs(at - (now_of(world) + DAY - 60 * MINUTE)) < MINUTE
    assert first[BRANCH].read_at == at
    assert first[SPENT].read_at == at - 20 * MINUTE

    for minutes, moved in ((90, 0), (51, 0), (49, 11), (55, 11), (30, 30)):
        later.last_reads.advance(world.tenant, {("main", ORDERS): minutes * MINUTE})
        found = reads(world)[ORDERS].read_at
        assert found is not None
        assert abs(found - at - moved * MINUTE) < MINUTE / 2, minutes
    assert reads(world)[SPENT] == first[SPENT]


def test_a_read_is_never_before_the_count(world: World) -> None:
    follow(world, ORDERS, SPENT)

    advance(world, MINUTE, SPENT)
    found = reads(world)
    assert found[SPENT].read_at == found[SPENT].counted_since

    # A read of long ago was of another entity of that name.
    advance(world, DAY, ORDERS)
    assert reads(world)[ORDERS].read_at is None


def test_a_read_before_the_entity_was_seen_is_not_lost(world: World) -> None:
    advance(world, MINUTE, SPENT)
    follow(world, ORDERS, SPENT)

    found = reads(world)
    assert found[SPENT].read_at == found[SPENT].counted_since < found[ORDERS].counted_since
    assert found[ORDERS].read_at is None


def test_the_rows_of_a_branch_end_when_it_cannot_be_restored(world: World) -> None:
    world.ledger.branches.init(request(world, "dev", 1))
    follow(world, ORDERS, name="dev")
    follow(world, ORDERS)
    advance(world, NOW, ORDERS, branch="dev")
    advance(world, NOW, ORDERS, branch="nowhere")
    dev = branch_of(world, "dev").branch_id
    read = world.ledger.last_reads.of_branch(dev)
    assert read[ORDERS].read_at is not None
    assert world.ledger.last_reads.of_branches()[dev] == read[BRANCH]
    assert reads(world)[ORDERS].read_at is None

    world.ledger.branches.delete(request(world, "dev", 2))
    assert world.ledger.last_reads.forget() == 0
    assert world.ledger.last_reads.of_branch(dev) == read

    later: Ledger = world.at(Rules().undelete_window + MINUTE)
    assert later.last_reads.forget() == 2
    assert world.ledger.last_reads.of_branch(dev) == {}
    assert reads(world).keys() == {BRANCH, ORDERS}
    # A new branch of the name counts anew.
    world.ledger.branches.init(request(world, "dev", 3))
    follow(world, ORDERS, name="dev")
    assert reads(world, "dev")[ORDERS].read_at is None
