# mypy: disable-error-code="explicit-any"
"""A sum whose parts halve with time, exact regardless of how its rows are split."""

import math
from collections.abc import Sequence

import attrs
from typing_extensions import override

from narthex._aggregates.algebra import Algebra, Order, State
from narthex._aggregates.numeric import compensated
from narthex._ir.facts import Cell


@attrs.frozen(kw_only=True)
class DecayingSum(Algebra):
    """The sum of values, each halved once per half-life since its instant.

    The state is [half-lives since the epoch, rounded sum, rounding error], with the sum as of the
    beginning of that half-life; None for no rows. Moving it to another half-life halves it a whole
    number of times, which is exact, so the value does not depend on how rows are split.

    Attributes:
        half_life_us: Microseconds.
        unit: The cell of the number one: 10^scale for a decimal.
    """

    half_life_us: int
    unit: int

    @override
    def identity(self) -> State:
        return None

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        return self._sum(
            [
                self._alone(number, order[0])
                for number, order in zip(cells, orders, strict=True)
                if number is not None
            ]
        )

    @override
    def merge(self, left: State, right: State) -> State:
        return self._sum([left, right])

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return self._sum(states)

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        if state is None:
            return 0.0
        begun, high, low = state
        now, rest = divmod(as_of, self.half_life_us)
        decayed = float(high + low) * 2 ** (-rest / self.half_life_us)
        return math.ldexp(decayed, int(begun) - now)

    def _alone(self, number: State, event_time: int) -> State:
        begun, rest = divmod(event_time, self.half_life_us)
        return [begun, number / self.unit * 2 ** (rest / self.half_life_us), 0.0]

    def _sum(self, states: Sequence[State]) -> State:
        known = [state for state in states if state is not None]
        if not known:
            return None
        newest = max(state[0] for state in known)
        parts: list[float] = []
        for begun, high, low in known:
            parts += (math.ldexp(high, begun - newest), math.ldexp(low, begun - newest))
        return [newest, *compensated(parts)]
