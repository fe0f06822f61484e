# mypy: disable-error-code="explicit-any"
"""The least and the greatest value of a column."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from typing_extensions import override

from narthex._aggregates.algebra import Algebra, Order, State
from narthex._aggregates.numeric import narrow, present, widen, widen_all
from narthex._ir.facts import Cell


@attrs.frozen(kw_only=True)
class Extreme(Algebra):
    """The least or greatest number, instant or day; the state is this value, or None for no rows.

    One NaN makes the result NaN, as in a sum: otherwise the result would depend on the order.

    Attributes:
        choose: `min` or `max`.
        floats: Whether NaN can occur.
        default: The extreme of no rows.
    """

    choose: Callable[..., Any]
    floats: bool
    default: Cell

    @override
    def identity(self) -> State:
        return None

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        return self._extreme(present(cells))

    @override
    def merge(self, left: State, right: State) -> State:
        return self.merge_all((left, right))

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        known = present(states)
        return self._extreme(known if self.floats else widen_all(known))

    @override
    def each(self, cells: Sequence[Cell], orders: Sequence[Order]) -> list[State]:
        if self.floats:
            return list(cells)
        return [None if cell is None else narrow(widen(cell)) for cell in cells]

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        if state is None:
            return self.default
        return float(state) if self.floats else widen(state)

    def _extreme(self, numbers: Sequence[State]) -> State:
        if not numbers:
            return None
        if not self.floats:
            return narrow(self.choose(numbers))
        for number in numbers:
            if number != number:  # noqa: PLR0124 - only NaN differs from itself
                return number
        return self.choose(numbers)
