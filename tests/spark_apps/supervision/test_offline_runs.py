"""A supervisor forgets each offline query that has ended, whoever ended it."""

from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa

from narthex_ledger import Ledger, LedgerUnreachable, Moment, OfflineState
from narthex_spark_apps.supervision.offline_runs import ATTEMPTS, OfflineRuns, usual_at_once
from narthex_spark_apps.supervision.runner_messages import OfflineReport, OfflineRun
from tests.ledger.world import ORDERS, World, blueprint

pytestmark = pytest.mark.postgres

FIRST, SECOND = UUID(int=77), UUID(int=78)


@pytest.fixture
def world(ledger_dsn: str) -> Iterator[World]:
    made = World.open(ledger_dsn)
    commit_id, _ = made.serving(made.request(1), blueprint(ORDERS))
    for request_id in (FIRST, SECOND):
        made.ledger.offline_queries.submit(
            request_id, manifest_id=commit_id, request={"number": request_id.int}, actor="ada"
        )
    yield made
    made.close()


def taken(world: World) -> tuple[OfflineRuns, OfflineRun]:
    runs = OfflineRuns(world.ledger, "engine-1")
    runs.take(restarts=0)
    (run,) = runs.runs
    return runs, run


def expire_leases(world: World) -> None:
    engine = sa.create_engine(world.dsn)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE offline_query SET lease_expires_at = now() - interval '1 second'")
        )
    engine.dispose()


def report(run: OfflineRun, state: OfflineState, error: str | None = None) -> OfflineReport:
    return OfflineReport(
        request_id=run.request_id,
        epoch=run.epoch,
        state=state.value,
        progress={"rows": 3},
        error=error,
    )


def next_of(runs: OfflineRuns) -> str:
    runs.take(restarts=0)
    (run,) = runs.runs
    return run.request_id


def test_a_driver_has_one_query_until_that_ends(world: World) -> None:
    runs, run = taken(world)

    assert (run.request_id, run.request) == (str(FIRST), {"number": FIRST.int})
    runs.note(report(run, OfflineState.RUNNING))
    runs.pass_on()
    assert next_of(runs) == str(FIRST)
    assert world.ledger.offline_queries.get(FIRST).progress == {"rows": 3}

    runs.note(report(run, OfflineState.DONE))
    runs.pass_on()
    assert world.ledger.offline_queries.get(FIRST).result == {"rows": 3}
    assert next_of(runs) == str(SECOND)


@pytest.mark.parametrize("state", [OfflineState.RUNNING, OfflineState.DONE, OfflineState.FAILED])
def test_the_next_query_is_taken_after_a_report_about_a_cancelled_one(
    world: World, state: OfflineState
) -> None:
    runs, run = taken(world)
    world.ledger.offline_queries.cancel(FIRST)

    runs.note(report(run, state))
    runs.pass_on()

    assert runs.runs == ()
    assert next_of(runs) == str(SECOND)
    assert world.ledger.offline_queries.get(FIRST).state is OfflineState.CANCELLED


def test_a_cancelled_query_is_forgotten_before_its_driver_reports(world: World) -> None:
    runs, run = taken(world)
    world.ledger.offline_queries.cancel(FIRST)

    runs.hold(restarts=0)
    assert runs.runs == ()
    runs.note(report(run, OfflineState.DONE))
    runs.pass_on()

    assert next_of(runs) == str(SECOND)


def test_a_query_is_not_taken_over_while_it_is_held(world: World) -> None:
    runs, run = taken(world)
    world.ledger.offline_queries.cancel(SECOND)
    other = OfflineRuns(world.ledger, "engine-2")

    expire_leases(world)
    runs.hold(restarts=0)
    other.take(restarts=0)
    assert (runs.runs, other.runs) == ((run,), ())

    expire_leases(world)
    other.take(restarts=0)
    runs.hold(restarts=0)
    assert (runs.runs, [one.request_id for one in other.runs]) == ((), [str(FIRST)])


def test_the_end_of_a_query_is_stored_once_the_ledger_answers_again(world: World) -> None:
    is_away = [True]

    def hook(name: str, moment: Moment) -> None:
        if is_away[0] and name == "finish_offline" and moment is Moment.BEFORE_BEGIN:
            raise LedgerUnreachable("the ledger does not answer")

    ledger = Ledger(world.dsn, fault_hook=hook)
    world.opened.append(ledger)
    runs = OfflineRuns(ledger, "engine-1")
    runs.take(restarts=0)
    (run,) = runs.runs
    runs.note(report(run, OfflineState.DONE))

    with pytest.raises(LedgerUnreachable):
        runs.pass_on()
    is_away[0] = False
    runs.pass_on()

    assert runs.runs == ()
    assert world.ledger.offline_queries.get(FIRST).result == {"rows": 3}


def test_a_query_at_which_drivers_end_again_and_again_is_failed(world: World) -> None:
    runs, run = taken(world)

    for restarts in range(1, ATTEMPTS):
        runs.hold(restarts=restarts)
        assert runs.runs == (run,)
    runs.hold(restarts=ATTEMPTS)

    failed = world.ledger.offline_queries.get(FIRST)
    assert (failed.state, failed.error) == (
        OfflineState.FAILED,
        f"the driver ended {ATTEMPTS} times while answering",
    )
    assert next_of(runs) == str(SECOND)


def queue_branch(world: World, branch: str, *numbers: int, actor: str = "ada") -> None:
    manifest_id = world.ledger.offline_queries.get(FIRST).manifest_id
    for number in numbers:
        world.ledger.offline_queries.submit(
            UUID(int=number), manifest_id=manifest_id, request={"branch": branch}, actor=actor
        )


def numbers_of(runs: OfflineRuns) -> list[int]:
    return [UUID(run.request_id).int for run in runs.runs]


def test_a_query_is_run_while_another_branch_has_six_that_do_not_end(world: World) -> None:
    for mine in (FIRST, SECOND):
        world.ledger.offline_queries.cancel(mine)
    runs = OfflineRuns(world.ledger, "engine-1", at_once=2)
    queue_branch(world, "hers", *range(1, 7))
    runs.take(restarts=0)
    assert numbers_of(runs) == [1]

    queue_branch(world, "his", 7)
    runs.take(restarts=0)
    assert numbers_of(runs) == [1, 7]
    runs.note(report(runs.runs[1], OfflineState.DONE))
    runs.pass_on()
    runs.take(restarts=0)

    assert numbers_of(runs) == [1]
    assert world.ledger.offline_queries.get(UUID(int=7)).state is OfflineState.DONE


def test_a_token_that_fills_its_places_from_many_branches_leaves_one_to_others(
    world: World,
) -> None:
    for mine in (FIRST, SECOND):
        world.ledger.offline_queries.cancel(mine)
    runs = OfflineRuns(world.ledger, "engine-1", at_once=2)
    for number in range(1, 7):
        queue_branch(world, f"dev/{number}", number)
    runs.take(restarts=0)
    assert numbers_of(runs) == [1, 2]

    queue_branch(world, "main", 7, 8, actor="bob")
    runs.take(restarts=0)

    assert numbers_of(runs) == [1, 2, 7]


def test_reports_of_several_queries_are_stored_apart(world: World) -> None:
    world.ledger.offline_queries.cancel(SECOND)
    queue_branch(world, "hers", 1)
    queue_branch(world, "his", 2)
    runs = OfflineRuns(world.ledger, "engine-1", at_once=3)
    runs.take(restarts=0)
    first, hers, his = runs.runs

    runs.note(report(hers, OfflineState.FAILED, "no such column"))
    runs.note(report(his, OfflineState.DONE))
    world.ledger.offline_queries.cancel(FIRST)
    runs.note(report(first, OfflineState.RUNNING))
    runs.pass_on()

    assert runs.runs == ()
    found = [world.ledger.offline_queries.get(UUID(int=number)) for number in (1, 2)]
    assert [one.state for one in found] == [OfflineState.FAILED, OfflineState.DONE]
    assert (found[0].error, found[1].error) == ("no such column", None)


def test_a_query_whose_time_is_over_is_failed_and_its_driver_stops_it(world: World) -> None:
    runs = OfflineRuns(world.ledger, "engine-1", within_s=60.0)
    runs.take(restarts=0)
    runs.hold(restarts=0)
    assert len(runs.runs) == 1

    engine = sa.create_engine(world.dsn)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE offline_query SET started_at = started_at - interval '61 seconds'")
        )
    engine.dispose()
    runs.hold(restarts=0)

    assert runs.runs == ()
    failed = world.ledger.offline_queries.get(FIRST)
    assert failed.state is OfflineState.FAILED
    assert str(failed.error).startswith("the query took longer than 60 s")
    assert next_of(runs) == str(SECOND)


@pytest.mark.parametrize(("cores", "at_once"), [(1, 2), (2, 2), (3, 3), (64, 4)])
def test_the_cores_decide_how_many_queries_run_at_once(cores: int, at_once: int) -> None:
    assert usual_at_once(cores) == at_once
