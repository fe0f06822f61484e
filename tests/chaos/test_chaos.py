"""The verdict of `make chaos` can fail, and seeds determine its faults."""

from itertools import islice

import attrs
import pytest

from narthex._ir.facts import Fact, RowId, Version
from tests.chaos.faults import KILL, Fault, planned
from tests.chaos.load import SentRows
from tests.chaos.rows import Rows
from tests.chaos.verdict import judge_rows, recoveries


def standing(number: int, *, cents: int = 5, row: int = 0) -> Fact:
    return Fact(
        row_id=RowId(b"%d %d" % (number, row)),
        version=Version(b"\x00"),
        event_time=number,
        key=(),
        values=(number, "c1", "m1", cents),
    )


WANTED = {number: (number, *standing(number).values) for number in range(3)}


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


def test_a_seed_determines_rows_and_faults() -> None:
    def drawn(seed: int) -> tuple[object, ...]:
        rows, faults = Rows(seed), planned(seed, every_s=5.0, supervisors=2)
        return (rows.merchants(), list(islice(rows, 200)), list(islice(faults, 50)))

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


def test_a_recovery_ends_with_the_first_row_that_was_sent_after_the_kill() -> None:
    sent = SentRows(probes=[1.0, 2.0, 3.0], visible={1: 1.1, 2: 9.0, 3: 9.0})
    kill = Fault(victim="supervisor-2/driver", what=KILL, at=1.5)
    faults = [kill, attrs.evolve(kill, at=3.5), attrs.evolve(kill, what="stop")]

    assert recoveries(sent, faults) == {"driver": [7.5]}
