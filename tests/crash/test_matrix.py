"""A sample of the crash matrix at each push; `make crash` goes through all of it."""

from collections.abc import Collection
from random import Random  # noqa: TID251 (seeded)

import attrs
import pytest

from tests.crash.__main__ import carry_out
from tests.crash.matrix import Matrix, begun, faults_at, points_of, run, singles, some_pairs
from tests.crash.points import REFUSED, TRANSACTION, Fault, FaultKind, OutcomeColumn
from tests.crash.scenarios import (
    ERASE,
    ONE,
    REJECT,
    REJECT_FIRST,
    SCENARIOS,
    Scenario,
    acts,
    begin,
    deploy,
    leave_a_stray,
)
from tests.crash.world import ServerProcess, World

pytestmark = pytest.mark.postgres

EACH, TWO = 3, 1
SEED = 20_261_121
BY_NAME = {one.name: one for one in SCENARIOS}
SMALL = BY_NAME["deploy"]
SAMPLED = (SMALL, BY_NAME["cancel midway"], BY_NAME["take over"])


def test_a_sample_of_single_faults_and_of_pairs_breaks_no_promise(opened: World) -> None:
    rng = Random(SEED)  # noqa: S311 (no secret)
    runs = [alone for one in SAMPLED for alone in rng.sample(list(singles(opened, [one])), EACH)]
    runs += some_pairs(opened, SMALL, seeds=[f"{SEED}/{number}" for number in range(TWO)])

    matrix = carry_out(runs, of=str(len(runs)))

    assert matrix.failed == []
    assert matrix.missed == []
    assert matrix.runs == EACH * len(SAMPLED) + TWO
    met = {column: sum(row[column] for row in matrix.hits.values()) for column in OutcomeColumn}
    assert min(met.values()) > 0


def test_every_point_of_the_smallest_commit_is_a_row_of_the_table(opened: World) -> None:
    names = {point.name for point in points_of(opened, SMALL)}

    assert names >= {
        *("accept", "claim", "plan", "intend", "created", "create_row_asset", "ready"),
        *("commit_point", "promote", "finalize", "call index create", "call kafka_topic create"),
        *("call index probe", "call kafka_topic probe"),
    }


@pytest.mark.slow
def test_points_depend_on_nothing_but_the_scenario(opened: World) -> None:
    """A second enumeration has the same points; so no fault can be missed."""
    once, again = (
        [(point.number, point.name, point.kinds) for point in points_of(opened, ERASE)]
        for _ in range(2)
    )

    assert once == again


@pytest.mark.slow
def test_a_transaction_that_is_refused_goes_wrong_before_it_or_is_stopped(opened: World) -> None:
    refused = [point for point in points_of(opened, ERASE) if point.is_refused]

    outcomes = [run(opened, ERASE, fault) for fault in faults_at(refused)]

    assert "ready" in {point.name for point in refused}
    assert len(outcomes) == len(refused) * len(REFUSED)
    assert [one for one in outcomes if one.broken or not one.hit] == []


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [REJECT, REJECT_FIRST], ids=lambda one: one.name)
def test_a_fault_at_a_rejection_leaves_it_whole_or_the_commit_undecided(
    opened: World, scenario: Scenario
) -> None:
    rejecting = [point for point in points_of(opened, scenario) if point.name == "reject"]

    outcomes = [run(opened, scenario, fault) for fault in faults_at(rejecting)]

    assert len(outcomes) == len(TRANSACTION)
    assert [one for one in outcomes if one.broken or not one.hit] == []


def test_a_commit_that_is_approved_and_rejected_violates_an_invariant(opened: World) -> None:
    def reject_by_half(world: World, _life: ServerProcess) -> None:
        world.change(
            "INSERT INTO ledger_event (transition, actor, commit_id)"
            " SELECT 'rejected', 'grace', commit_id FROM promotion"
        )

    outcome = run(opened, Scenario(name="by half", when=acts(deploy(1, ONE), reject_by_half)))

    assert any("rejected by half" in broken for broken in outcome.broken)


def test_a_repeated_scenario_starts_from_the_same_state(opened: World) -> None:
    story = BY_NAME["clone an unpromoted commit"]
    with begun(opened, story):
        before = whole(opened)
        story.when(opened, opened.life())
        changed = whole(opened)

    with begun(opened, story):
        again = whole(opened)

    assert again == before
    assert len(again["deploy_commit"]) == 2
    assert len(changed["deploy_commit"]) > 2


def whole(world: World) -> dict[str, Collection[str]]:
    """Read every row of the ledger, and all that is beside it."""
    tables = world.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    names = sorted(str(row["tablename"]) for row in tables)
    return {
        **{
            name: sorted(str(row) for row in world.rows(f"SELECT to_jsonb(t) FROM {name} t"))  # noqa: S608
            for name in names
        },
        "sequences": sorted(
            str(row) for row in world.rows("SELECT sequencename, last_value FROM pg_sequences")
        ),
        "stores": world.there(),
        "clock": [str(world.seconds)],
    }


def test_a_fault_that_does_not_happen_is_not_counted(opened: World) -> None:
    points = points_of(opened, SMALL)
    never = Fault(attrs.evolve(points[-1], number=len(points) + 7), FaultKind.DIES_AFTER)
    matrix = Matrix()

    matrix.add(run(opened, SMALL, never))

    assert (matrix.hits, len(matrix.missed), matrix.failed) == ({}, 1, [])


def test_an_abandoned_commit_violates_an_invariant(opened: World) -> None:
    """The check can fail: a stray beside the ledger, and an end that was not reached."""
    outcome = run(opened, Scenario(name="stray", when=leave_a_stray))
    unended = run(opened, Scenario(name="unended", when=begin(1, "one"), serve=((2,),)))

    assert any("stray" in broken for broken in outcome.broken)
    assert any("none of commits" in broken for broken in unended.broken)


def test_only_the_database_clock_counts(world: World) -> None:
    life = world.life()
    deploy(1, "one")(world, life)
    before = world.rows("SELECT max(at) AS at FROM ledger_event")
    world.wait(3600.0)
    deploy(2, "two")(world, life)
    after = world.rows("SELECT max(at) AS at FROM ledger_event")

    assert (after[0]["at"] - before[0]["at"]).total_seconds() >= 3600
