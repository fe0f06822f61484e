"""The verdict of `make chaos` can fail, and seeds determine its faults."""

import json
from itertools import islice, product

import attrs
import pytest

from narthex._ir.facts import Fact, RowId, Version
from narthex_spark_apps.jobs.application import STANDING_TASKS
from tests.chaos.faults import KILL, STOP, Fault, PlannedFault, kind_of, planned, victims_of
from tests.chaos.load import SentRows
from tests.chaos.rows import Rows
from tests.chaos.verdict import examples_of, judge_rows, judge_sink, recoveries
from tests.spark_cluster import CLUSTER, LOCAL
from tests.spark_processes import DRIVER, JVM, WORKER_DAEMON


def standing(number: int, *, cents: int = 5, row: int = 0) -> Fact:
    return Fact(
        row_id=RowId(b"%d %d" % (number, row)),
        version=Version(b"\x00"),
        event_time=number,
        key=(),
        values=(number, "c1", "m1", cents),
    )


def standing_of(card: str, at: int, *, payment: int = 1) -> Fact:
    return attrs.evolve(standing(at), key=(card,), values=(payment, "m1", 5))


WANTED = {(number,): (number, *standing(number).values, True) for number in range(3)}
KEYED = {("c1", at): (at, "c1", 1, "m1", 5, True) for at in range(2)}
SINK = {("c1",): (1_000_000, "c1", 7), ("c2",): (2_000_000, "c2", 8)}


def envelope(card: str, payment: int, second: int) -> tuple[bytes, bytes]:
    row = {"card": card, "payment": payment, "paid_at": f"1970-01-01T00:00:0{second}Z"}
    return card.encode(), json.dumps({"after": row}).encode()


GONE = json.dumps({"after": None}).encode()


def test_expected_rows_cause_no_difference() -> None:
    found = judge_rows([standing(number) for number in range(3)], WANTED)

    assert (found.is_none, found.compared, found.examples) == (True, 3, [])


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([standing(0), standing(2)], (1, 0, 0)),
        ([standing(0), standing(1), standing(2), standing(1, row=1)], (0, 1, 0)),
        ([standing(0), standing(1), standing(2), standing(7)], (0, 1, 0)),
        ([standing(0), standing(1, cents=6), standing(2)], (0, 0, 1)),
    ],
    ids=["lost", "doubled", "stray", "wrong"],
)
def test_each_difference_is_found(facts: list[Fact], expected: tuple[int, int, int]) -> None:
    found = judge_rows(facts, WANTED)

    assert (found.lost, found.doubled, found.wrong) == expected
    assert len(found.examples) == 1


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([standing_of("c1", 0), standing_of("c1", 1)], (0, 0, 0)),
        ([standing_of("c1", 1)], (1, 0, 0)),
        ([standing_of("c1", 0), standing_of("c1", 1), standing_of("c2", 1)], (0, 1, 0)),
        ([standing_of("c1", 0), standing_of("c1", 1, payment=2)], (0, 0, 1)),
        ([standing_of("c1", 0), attrs.evolve(standing_of("c1", 1), alive=False)], (0, 0, 1)),
    ],
    ids=["same", "lost", "stray", "wrong", "ended"],
)
def test_keyed_rows_are_compared_at_each_instant(
    facts: list[Fact], expected: tuple[int, int, int]
) -> None:
    found = judge_rows(facts, KEYED)

    assert (found.lost, found.doubled, found.wrong) == expected


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([envelope("c1", 6, 0), envelope("c2", 8, 2), envelope("c1", 7, 1)], (0, 0, 0)),
        ([envelope("c2", 8, 2)], (1, 0, 0)),
        ([envelope("c1", 7, 1), envelope("c2", 8, 2), (b"c2", GONE), (b"c2", None)], (1, 0, 0)),
        ([envelope("c1", 7, 1), envelope("c2", 8, 2), envelope("c3", 9, 3)], (0, 1, 0)),
        ([envelope("c1", 7, 1), envelope("c2", 8, 2), envelope("c1", 6, 0)], (0, 0, 1)),
    ],
    ids=["same", "lost", "deleted", "stray", "old"],
)
def test_the_newest_record_of_each_key_of_a_sink_is_compared(
    records: list[tuple[bytes, bytes | None]], expected: tuple[int, int, int]
) -> None:
    found = judge_sink(records, SINK)

    assert (found.lost, found.doubled, found.wrong) == expected


def test_an_example_names_what_differs() -> None:
    differences = {"Approved": judge_rows([standing(0), standing(2)], WANTED)}
    differences["sink of Approved"] = judge_sink([envelope("c1", 7, 1)], SINK)

    assert examples_of(differences) == [
        "Approved: lost: (1, 1, 'c1', 'm1', 5, True)",
        "sink of Approved: lost: (2000000, 'c2', 8)",
    ]


def drawn_faults(count: int, *, spark: str, seed: int = 0) -> list[PlannedFault]:
    return list(islice(planned(seed, every_s=5.0, supervisors=1, spark=spark), count))


def test_processes_of_drivers_and_services_are_victims() -> None:
    assert set(victims_of(1, LOCAL)) == {
        *(f"supervisor/{name}" for name in (DRIVER, JVM, WORKER_DAEMON, *STANDING_TASKS)),
        "supervisor",
        "kafka",
        "postgres",
        "server",
    }


def test_on_a_cluster_its_services_and_executors_are_victims() -> None:
    assert set(victims_of(1, CLUSTER)) == {
        *("supervisor/driver", "supervisor/java"),
        *("master", "worker0", "worker1", "worker0/java", "worker1/java"),
        *(f"executors/{name}" for name in (WORKER_DAEMON, *STANDING_TASKS)),
        *("supervisor", "kafka", "postgres", "server"),
    }


@pytest.mark.parametrize("spark", [LOCAL, CLUSTER])
def test_each_round_of_faults_hits_each_victim_once(spark: str) -> None:
    victims = victims_of(1, spark)
    faults = drawn_faults(2 * len(victims), spark=spark)

    first, second = (
        [fault.victim for fault in part]
        for part in (faults[: len(victims)], faults[len(victims) :])
    )
    assert sorted(first) == sorted(second) == sorted(victims)
    assert first != second


def test_each_victim_is_killed_and_stopped() -> None:
    faults = drawn_faults(400, spark=CLUSTER)

    assert {(fault.victim, fault.what) for fault in faults} == set(
        product(victims_of(1, CLUSTER), (KILL, STOP))
    )


@pytest.mark.parametrize(
    ("victim", "kind"),
    [
        ("supervisor-2", "supervisor"),
        ("supervisor-2/driver", "driver"),
        ("supervisor/java", "java"),
        ("worker1", "worker"),
        ("worker1/java", "executor"),
        ("executors/index_writer", "index_writer"),
    ],
)
def test_a_victim_has_a_kind_without_its_place(victim: str, kind: str) -> None:
    assert kind_of(victim) == kind


def test_a_seed_determines_rows_and_faults() -> None:
    def drawn(seed: int) -> tuple[object, ...]:
        rows = Rows(seed)
        faults = drawn_faults(50, spark=LOCAL, seed=seed)
        return (rows.merchants(), list(islice(rows, 200)), faults)

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


def test_a_recovery_ends_with_the_first_row_that_was_sent_after_the_kill() -> None:
    sent = SentRows(probes=[1.0, 2.0, 3.0], visible={1: 1.1, 2: 9.0, 3: 9.0})
    kill = Fault(victim="supervisor-2/driver", what=KILL, at=1.5)
    faults = [kill, attrs.evolve(kill, at=3.5), attrs.evolve(kill, what="stop")]

    assert recoveries(sent, faults) == {"driver": [7.5]}
