# mypy: disable-error-code="explicit-any"
"""A quantile, exactly: the element at floor(p·n), clamped, of the ascending values."""

import heapq
import math
from collections.abc import Sequence

import attrs
from typing_extensions import override

from narthex.aggregates.algebra import Algebra, Order, State
from narthex.aggregates.numeric import narrow, present, widen
from narthex.facts import Cell


@attrs.frozen(kw_only=True)
class ExactQuantile(Algebra):
    """One of the values; the state is all of them, ascending, NaN last.

    Attributes:
        p: The share of values below it.
        unit: What one is, in the cells: 10^scale of a decimal; None of floats.
        default: The quantile of no rows.
    """

    p: float
    unit: int | None
    default: float | None

    @override
    def identity(self) -> State:
        return []

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        numbers = sorted(present(cells), key=_ascending)
        return numbers if self.unit is None else [narrow(number) for number in numbers]

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


def _ascending(number: State) -> tuple[bool, State]:
    return (number != number, number)  # noqa: PLR0124 - only NaN differs from itself
