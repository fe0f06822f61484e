# mypy: disable-error-code="explicit-any"
"""Sum and average: exact for integers and decimals, compensated for floats."""

from collections.abc import Sequence

import attrs
from typing_extensions import override

from narthex._aggregates.algebra import Algebra, Order, State
from narthex._aggregates.numeric import compensated, narrow, pairs, present, widen, widen_all
from narthex._ir.facts import Cell


@attrs.frozen(kw_only=True)
class ExactSum(Algebra):
    """The sum of integers, including unscaled decimals; the state is the exact sum.

    Attributes:
        least: The least cell of the result's type; a smaller sum is shown as this one.
        greatest: The greatest cell of the result's type.
    """

    least: int
    greatest: int

    @override
    def identity(self) -> State:
        return 0

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        return narrow(sum(present(cells)))

    @override
    def merge(self, left: State, right: State) -> State:
        return narrow(widen(left) + widen(right))

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return narrow(sum(widen_all(states)))

    @override
    def each(self, cells: Sequence[Cell], orders: Sequence[Order]) -> list[State]:
        numbers: Sequence[State] = cells
        return [0 if number is None else narrow(number) for number in numbers]

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        return min(max(widen(state), self.least), self.greatest)


@attrs.frozen(kw_only=True)
class FloatSum(Algebra):
    """The sum of floats; the state is [rounded sum, rounding error]."""

    @override
    def identity(self) -> State:
        return [0.0, 0.0]

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        return compensated(present(cells))

    @override
    def merge(self, left: State, right: State) -> State:
        return compensated((*left, *right))

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return compensated(pairs(states))

    @override
    def each(self, cells: Sequence[Cell], orders: Sequence[Order]) -> list[State]:
        return [(0.0 if cell is None else cell, 0.0) for cell in cells]

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        return float(state[0] + state[1])


@attrs.frozen(kw_only=True)
class ExactAverage(Algebra):
    """The mean of integers; the state is [count, sum].

    Attributes:
        unit: The cell of the number one: 10^scale for a decimal.
        default: The mean of no rows.
    """

    unit: int
    default: float | None

    @override
    def identity(self) -> State:
        return [0, 0]

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        numbers = present(cells)
        return [len(numbers), narrow(sum(numbers))]

    @override
    def merge(self, left: State, right: State) -> State:
        return [left[0] + right[0], narrow(widen(left[1]) + widen(right[1]))]

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return [sum(s[0] for s in states), narrow(sum(widen(s[1]) for s in states))]

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        count, total = state
        return widen(total) / (count * self.unit) if count else self.default


@attrs.frozen(kw_only=True)
class FloatAverage(Algebra):
    """The mean of floats; the state is [count, rounded sum, rounding error]."""

    default: float | None

    @override
    def identity(self) -> State:
        return [0, 0.0, 0.0]

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        numbers = present(cells)
        return [len(numbers), *compensated(numbers)]

    @override
    def merge(self, left: State, right: State) -> State:
        return [left[0] + right[0], *compensated((*left[1:], *right[1:]))]

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return [sum(state[0] for state in states), *compensated(pairs(states, at=1))]

    @override
    def each(self, cells: Sequence[Cell], orders: Sequence[Order]) -> list[State]:
        return [(0, 0.0, 0.0) if cell is None else (1, cell, 0.0) for cell in cells]

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        count, high, low = state
        return float((high + low) / count) if count else self.default
