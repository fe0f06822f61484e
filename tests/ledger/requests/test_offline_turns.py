"""Branches take turns for offline queries, each for a limited time, and a token has few of them."""

import datetime as dt
from uuid import UUID

import pytest

from narthex_ledger import Fenced, Ledger, OfflineState, OfflineView, TooManyOfflineQueries
from tests.ledger.db.test_locks import WAIT_S, Race, race
from tests.ledger.world import LATER, ORDERS, World, blueprint

pytestmark = pytest.mark.postgres

__all__ = ["race"]

HOUR_S = 3600.0


@pytest.fixture
def manifest(world: World) -> UUID:
    commit_id, _ = world.serving(world.request(1), blueprint(ORDERS))
    return commit_id


def submit(world: World, manifest: UUID, *queries: tuple[int, str], actor: str = "ada/1") -> None:
    """Queue queries, each a number and a branch."""
    for number, branch in queries:
        world.ledger.offline_queries.submit(
            UUID(int=number), manifest_id=manifest, request={"branch": branch}, actor=actor
        )


def claimed(ledger: Ledger, owner: str = "engine-1", *, at_once: int = 1) -> int | None:
    view = ledger.offline_queries.claim(owner, at_once=at_once)
    return None if view is None else view.request_id.int


def held(ledger: Ledger, *, at_once: int = 1) -> OfflineView:
    view = ledger.offline_queries.claim("engine-1", at_once=at_once)
    assert view is not None
    return view


def end(world: World, number: int) -> None:
    world.ledger.offline_queries.cancel(UUID(int=number))


def test_the_branch_that_was_served_least_recently_goes_first(world: World, manifest: UUID) -> None:
    submit(world, manifest, *((number, "hers") for number in range(1, 7)))
    first = claimed(world.ledger)
    submit(world, manifest, (7, "his"), (8, "his"), (9, "theirs"))
    order = []
    for _ in range(6):
        found = claimed(world.ledger)
        assert found is not None
        order.append(found)
        end(world, found)

    assert (first, order) == (1, [7, 9, 2, 8, 3, 4])


def test_queries_of_a_branch_are_answered_in_their_order(world: World, manifest: UUID) -> None:
    submit(world, manifest, (3, "main"), (1, "main"), (2, "main"))

    assert [claimed(world.ledger) for _ in range(4)] == [3, 1, 2, None]


def test_engines_that_claim_at_the_same_moment_serve_different_branches(
    world: World, manifest: UUID, race: Race
) -> None:
    submit(world, manifest, (1, "hers"), (2, "hers"), (3, "his"))

    mine, go = race.hold(claimed)
    other = race.meet(lambda: claimed(world.ledger, "engine-2"))
    go.set()

    assert (mine.result(WAIT_S), other.result(WAIT_S)) == (1, 3)


def test_a_branch_leaves_one_place_of_an_engine_to_others(world: World, manifest: UUID) -> None:
    submit(world, manifest, *((number, "hers") for number in range(1, 7)))

    assert [claimed(world.ledger, at_once=3) for _ in range(3)] == [1, 2, None]
    submit(world, manifest, (7, "his"))
    assert claimed(world.ledger, at_once=3) == 7
    assert claimed(world.ledger, "engine-2", at_once=3) == 3
    end(world, 1)
    assert claimed(world.ledger, at_once=3) == 4


def test_a_token_with_many_branches_has_the_turns_and_places_of_one(
    world: World, manifest: UUID
) -> None:
    submit(world, manifest, *((number, f"dev/{number}") for number in range(1, 7)))
    assert [claimed(world.ledger, at_once=3) for _ in range(4)] == [1, 2, 3, None]

    submit(world, manifest, (7, "main"), (8, "main"), actor="bob/1")
    assert claimed(world.ledger, at_once=3) == 7
    end(world, 1)
    assert claimed(world.ledger, at_once=3) == 4
    end(world, 2)
    assert claimed(world.ledger, at_once=3) == 8


def test_queries_of_an_engine_that_ended_occupy_no_place(world: World, manifest: UUID) -> None:
    submit(world, manifest, (1, "hers"), (2, "hers"))
    assert claimed(world.ledger, at_once=2) == 1

    assert claimed(world.at(LATER), at_once=2) == 1
    assert claimed(world.at(LATER), at_once=2) is None


def test_a_token_has_a_limited_number_of_queries_that_wait_or_run(
    world: World, manifest: UUID
) -> None:
    queries = world.ledger.offline_queries

    def ask(number: int, actor: str = "ada/1") -> None:
        queries.submit(
            UUID(int=number), manifest_id=manifest, request={}, actor=actor, most_of_actor=2
        )

    ask(1)
    ask(2)
    assert claimed(world.ledger) == 1
    ask(2)
    ask(3, "bob/1")
    with pytest.raises(TooManyOfflineQueries) as refused:
        ask(4)
    end(world, 1)
    ask(4)

    assert str(refused.value) == (
        "[NX1114] the token has 2 offline queries that wait or run, and may have 2\n"
        "hint: wait until one has ended, or cancel one with `narthex offline cancel`; an operator "
        "can raise `NARTHEX_OFFLINE_QUERIES_PER_TOKEN`"
    )


def test_requests_at_the_same_moment_do_not_exceed_the_limit_of_a_token(
    world: World, manifest: UUID, race: Race
) -> None:
    def ask(ledger: Ledger, number: int) -> OfflineState:
        return ledger.offline_queries.submit(
            UUID(int=number), manifest_id=manifest, request={}, actor="ada/1", most_of_actor=1
        ).state

    first, go = race.hold(lambda ledger: ask(ledger, 1))
    second = race.meet(lambda: ask(world.ledger, 2))
    go.set()

    assert first.result(WAIT_S) is OfflineState.QUEUED
    with pytest.raises(TooManyOfflineQueries):
        second.result(WAIT_S)


def test_a_query_is_failed_when_its_time_is_over(world: World, manifest: UUID) -> None:
    submit(world, manifest, (1, "hers"))
    within, after = (world.at(dt.timedelta(seconds=HOUR_S + s)) for s in (-1, 1))
    query = held(world.ledger)

    within.offline_queries.extend(query.request_id, query.epoch, within_s=HOUR_S)
    with pytest.raises(Fenced):
        after.offline_queries.extend(query.request_id, query.epoch, within_s=HOUR_S)

    failed = world.ledger.offline_queries.get(query.request_id)
    assert failed.state is OfflineState.FAILED
    assert failed.error == (
        "the query took longer than 3600 s, the greatest time of an offline query; ask for fewer "
        "rows or features at a time, or let an operator raise `NARTHEX_OFFLINE_QUERY_GREATEST_S`"
    )
    with pytest.raises(Fenced):
        world.ledger.offline_queries.finish(query.request_id, query.epoch, result={})


def test_the_time_of_a_query_begins_with_its_run_and_not_with_its_request(
    world: World, manifest: UUID
) -> None:
    submit(world, manifest, (1, "hers"))
    begun, later = (world.at(dt.timedelta(hours=hours)) for hours in (5, 5.9))

    query = held(begun)
    later.offline_queries.extend(query.request_id, query.epoch, within_s=HOUR_S)

    assert world.ledger.offline_queries.get(query.request_id).state is OfflineState.RUNNING


def test_a_query_that_is_taken_over_keeps_the_time_that_it_has_run(
    world: World, manifest: UUID
) -> None:
    submit(world, manifest, (1, "hers"))
    query = held(world.ledger)
    ran = world.at(dt.timedelta(minutes=40))
    ran.offline_queries.extend(query.request_id, query.epoch, within_s=HOUR_S)

    resumed = held(world.at(dt.timedelta(hours=9)))
    in_time, too_late = (world.at(dt.timedelta(hours=9, minutes=m)) for m in (18, 20))
    in_time.offline_queries.extend(resumed.request_id, resumed.epoch, within_s=HOUR_S)
    with pytest.raises(Fenced):
        too_late.offline_queries.extend(resumed.request_id, resumed.epoch, within_s=HOUR_S)
