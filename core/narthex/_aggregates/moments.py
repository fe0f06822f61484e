# mypy: disable-error-code="explicit-any"
"""The population standard deviation: exact moments for integers, Chan's method for floats."""

import math
from collections.abc import Sequence

import attrs
from typing_extensions import override

from narthex._aggregates.algebra import Algebra, Order, State
from narthex._aggregates.numeric import narrow, present, widen
from narthex._ir.facts import Cell


@attrs.frozen(kw_only=True)
class ExactStddev(Algebra):
    """The deviation of integers; the state is [count, sum, sum of squares].

    Attributes:
        unit: The cell of the number one: 10^scale for a decimal.
        default: The deviation of no rows.
    """

    unit: int
    default: float | None

    @override
    def identity(self) -> State:
        return [0, 0, 0]

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        numbers = present(cells)
        squares = sum(number * number for number in numbers)
        return [len(numbers), narrow(sum(numbers)), narrow(squares)]

    @override
    def merge(self, left: State, right: State) -> State:
        return self.merge_all((left, right))

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return [
            sum(state[0] for state in states),
            narrow(sum(widen(state[1]) for state in states)),
            narrow(sum(widen(state[2]) for state in states)),
        ]

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        count, total, squares = state[0], widen(state[1]), widen(state[2])
        if not count:
            return self.default
        return math.sqrt((count * squares - total * total) / (count * self.unit) ** 2)


@attrs.frozen(kw_only=True)
class FloatStddev(Algebra):
    """The deviation of floats; the state is [count, mean, sum of squared distances from it]."""

    default: float | None

    @override
    def identity(self) -> State:
        return [0, 0.0, 0.0]

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        numbers = present(cells)
        if len(numbers) <= 1:
            return [1, *_alone(numbers[0])] if numbers else self.identity()
        if not all(map(math.isfinite, numbers)):
            return [len(numbers), math.nan, math.nan]
        mean = math.fsum(numbers) / len(numbers)
        return [len(numbers), mean, math.fsum((number - mean) ** 2 for number in numbers)]

    @override
    def merge(self, left: State, right: State) -> State:
        if not left[0]:
            return right
        if not right[0]:
            return left
        count = left[0] + right[0]
        distance = right[1] - left[1]
        mean = left[1] + distance * right[0] / count
        spread = left[2] + right[2] + distance * distance * left[0] * right[0] / count
        return [count, mean, spread]

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        count, _, spread = state
        return math.sqrt(spread / count) if count else self.default


def _alone(number: float) -> tuple[float, float]:
    return (float(number), 0.0) if math.isfinite(number) else (math.nan, math.nan)
