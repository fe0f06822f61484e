# mypy: disable-error-code="explicit-any"
"""A quantile: the element at floor(p·n), clamped, of the ascending values, or a value near it."""

import bisect
import heapq
import itertools
import math
from collections.abc import Sequence
from typing import ClassVar

import attrs
from typing_extensions import override

from narthex._aggregates.algebra import Algebra, Order, State
from narthex._aggregates.buckets import counted, middle_of
from narthex._aggregates.numeric import narrow, present, widen
from narthex._ir.facts import Cell

EXACT_UP_TO = 1024


@attrs.frozen(kw_only=True)
class ExactQuantile(Algebra):
    """One of the values; the state is all of them, ascending, NaN last.

    Attributes:
        p: The share of values below the quantile.
        unit: The cell of the number one: 10^scale for a decimal; None for floats.
        default: The quantile of no rows.
    """

    has_small_states: ClassVar[bool] = False

    p: float
    unit: int | None
    default: float | None

    @override
    def identity(self) -> State:
        return []

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        numbers = present(cells)
        if self.unit is not None:
            return [narrow(number) for number in sorted(numbers)]
        # A key costs more than the sort itself, and only NaN has no natural order.
        return sorted(numbers, key=_ascending if any(map(math.isnan, numbers)) else None)

    @override
    def merge(self, left: State, right: State) -> State:
        return self.merge_all((left, right))

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        key = _ascending if self.unit is None else widen
        return list(heapq.merge(*states, key=key))

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        if not state:
            return self.default
        found = state[min(math.floor(self.p * len(state)), len(state) - 1)]
        return float(found) if self.unit is None else widen(found) / self.unit


@attrs.frozen(kw_only=True)
class ApproximateQuantile(Algebra):
    """One of the values if there are at most 1,024, else a number within 1 % of it.

    The state is a function of the values alone, so the answer is too: [values, buckets], one of
    which is empty.

    Attributes:
        p: The share of values below the quantile.
        unit: The cell of the number one: 10^scale for a decimal.
        default: The quantile of no rows.
    """

    p: float
    unit: int
    default: float | None

    @override
    def identity(self) -> State:
        return [[], []]

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        return _few([float(number / self.unit) for number in present(cells)])

    @override
    def merge(self, left: State, right: State) -> State:
        return self.merge_all((left, right))

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        values = [number for state in states for number in state[0]]
        buckets = [one for state in states for one in state[1]]
        return _many(values, buckets) if buckets else _few(values)

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        values, buckets = state
        count = len(values) + sum(many for _, many in buckets)
        if not count:
            return self.default
        place = min(math.floor(self.p * count), count - 1)
        if values:
            return float(values[place])
        until = list(itertools.accumulate(many for _, many in buckets))
        return middle_of(buckets[bisect.bisect_right(until, place)][0])


def _few(values: list[float]) -> State:
    if len(values) > EXACT_UP_TO:
        return _many(values, [])
    # A key costs more than the sort itself, and only NaN has no natural order.
    return [sorted(values, key=_ascending if any(map(math.isnan, values)) else None), []]


def _many(values: list[float], buckets: list[list[int]]) -> State:
    from narthex._aggregates.many_buckets import bucketed  # noqa: PLC0415 - numpy is slow to load

    return [[], counted([*buckets, *bucketed(values)])]


def _ascending(number: State) -> tuple[bool, State]:
    return (number != number, number)  # noqa: PLR0124 - only NaN differs from itself
