"""A batch on which code fails is divided until exactly the failing rows are known."""

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._runtime.workers.isolation import (
    ALONE,
    MOST_LOST,
    Failed,
    Isolated,
    Passed,
    isolate,
    most_calls,
)
from narthex.errors import UserCodeError

COUNTS = st.integers(1, 3_000)
PLACES = st.sets(st.integers(0, 2_999), max_size=40)


@attrs.define
class Code:
    """Code that fails on some rows, and counts its calls.

    Attributes:
        raises: The rows on which it raises.
        kills: The rows on which it ends its worker.
        killed: The number of first calls whose worker is killed for another reason.
        is_garbled: Whether every answer about single rows is invalid.
    """

    raises: frozenset[int] = frozenset()
    kills: frozenset[int] = frozenset()
    killed: int = 0
    is_garbled: bool = False
    calls: int = 0
    lost: int = 0

    def together(self, places: range) -> list[int]:
        self._count(places)
        if not self.raises.isdisjoint(places):
            raise UserCodeError("it raised")
        return list(places)

    def one_by_one(self, places: range) -> tuple[Passed[list[int]], Sequence[Failed]]:
        self._count(places)
        if self.is_garbled:
            raise UserCodeError("its answer cannot be read")
        passed = [place for place in places if place not in self.raises]
        failed = [
            Failed((place,), UserCodeError("it raised")) for place in places if place in self.raises
        ]
        return Passed(passed, passed), failed

    def _count(self, places: range) -> None:
        self.calls += 1
        if self.calls <= self.killed or not self.kills.isdisjoint(places):
            self.lost += 1
            raise UserCodeError("the worker was lost", is_worker_lost=True)


def passed(found: Isolated[list[int]]) -> list[int]:
    """Return the rows that passed, after checking that each has its own result."""
    assert all(list(part.places) == part.result for part in found.passed)
    return [place for part in found.passed for place in part.places]


def failed(found: Isolated[list[int]]) -> list[int]:
    return [place for part in found.failed for place in part.places]


@given(COUNTS, PLACES)
def test_exactly_the_failing_rows_fail(count: int, bad: set[int]) -> None:
    code = Code(frozenset(place for place in bad if place < count))

    found = isolate(count, code)

    assert failed(found) == sorted(code.raises)
    assert passed(found) == [place for place in range(count) if place not in code.raises]
    assert all(len(one.places) == 1 for one in found.failed)


@pytest.mark.slow
@given(st.integers(1, 30_000))
def test_the_number_of_calls_is_bounded_when_all_rows_fail(count: int) -> None:
    code = Code(frozenset(range(count)))

    found = isolate(count, code)

    assert failed(found) == list(range(count))
    assert code.calls <= most_calls(count) <= 3 + count * 2.2 / ALONE


@given(COUNTS, PLACES)
def test_the_number_of_calls_is_bounded(count: int, bad: set[int]) -> None:
    code = Code(frozenset(bad))

    isolate(count, code)

    assert code.calls <= most_calls(count)


def test_a_batch_that_passes_is_one_call() -> None:
    code = Code()

    assert passed(isolate(2_000, code)) == list(range(2_000))
    assert code.calls == 1


# Together with others, and then alone twice: a row that still loses its worker fails.
@given(COUNTS, PLACES, st.integers(1, 3))
def test_a_worker_that_is_killed_once_fails_no_row(count: int, bad: set[int], killed: int) -> None:
    code = Code(frozenset(place for place in bad if place < count), killed=min(killed, count))

    found = isolate(count, code)

    if count > 1 or killed == 1:
        assert failed(found) == sorted(code.raises)


@given(COUNTS, PLACES, st.sets(st.integers(0, 2_999), max_size=MOST_LOST))
def test_few_rows_that_lose_their_workers_fail_alone(
    count: int, bad: set[int], kills: set[int]
) -> None:
    raises = frozenset(place for place in bad if place < count)
    code = Code(raises, frozenset(place for place in kills if place < count))

    found = isolate(count, code)

    assert set(code.kills) <= set(failed(found))
    if len(code.kills) < MOST_LOST:
        assert failed(found) == sorted(raises | code.kills)


@given(COUNTS, PLACES, PLACES)
def test_many_rows_that_lose_their_workers_cost_few_workers(
    count: int, bad: set[int], kills: set[int]
) -> None:
    raises = frozenset(place for place in bad if place < count)
    code = Code(raises, frozenset(place for place in kills if place < count))

    found = isolate(count, code)

    assert sorted(passed(found) + failed(found)) == list(range(count))
    assert raises | code.kills <= set(failed(found))
    assert code.lost <= 60


@given(st.integers(1, 300), PLACES)
def test_an_invalid_answer_about_single_rows_fails_no_other_row(count: int, bad: set[int]) -> None:
    code = Code(frozenset(place for place in bad if place < count), is_garbled=True)

    assert failed(isolate(count, code)) == sorted(code.raises)
