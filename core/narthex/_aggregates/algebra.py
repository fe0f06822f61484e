# mypy: disable-error-code="explicit-any"
"""What every aggregate is: an identity, a way to take rows in, to merge, and to finish."""

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import attrs

from narthex._ir.facts import Cell

Order: TypeAlias = tuple[int, bytes]
"""(event_time, row_id): the order of the rows of a group; no two rows share one."""

State: TypeAlias = Any
"""What an aggregate knows of some rows, as MessagePack can say it; opaque but to its algebra."""


@attrs.frozen
class Sharing:
    """Which states have the same place; places count up in order of first use.

    Attributes:
        firsts: For each place, where its first state is.
        shared: For each place that has more than one state, where all of them are.
    """

    firsts: list[int]
    shared: dict[int, list[int]]

    @classmethod
    def of(cls, places: Sequence[int]) -> "Sharing":
        """Find it, once for all the aggregates of the same rows."""
        if places and places[-1] == len(places) - 1:
            return cls(list(range(len(places))), {})
        firsts: list[int] = []
        shared: dict[int, list[int]] = {}
        for at, place in enumerate(places):
            if place == len(firsts):
                firsts.append(at)
            elif place in shared:
                shared[place].append(at)
            else:
                shared[place] = [firsts[place], at]
        return cls(firsts, shared)


class Algebra(abc.ABC):
    """An aggregate as a commutative monoid over rows.

    `merge` is associative and commutative (of floats, within rounding), `identity` changes
    nothing, and the state of some rows does not depend on how they were cut or in which order
    they came. States are never changed in place. There is no removal: without a row, the state
    is gathered again from the rows that stay.

    Attributes:
        has_small_states: Whether a state stays small however many rows it is of, so that an engine
            may keep one for each part of the past. Where it does not, rows are gathered instead.
    """

    has_small_states: ClassVar[bool] = True

    @abc.abstractmethod
    def identity(self) -> State:
        """Return the state of no rows."""

    @abc.abstractmethod
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        """Return the state of rows, by their cells and their orders side by side."""

    @abc.abstractmethod
    def merge(self, left: State, right: State) -> State:
        """Return the state of the rows of both, which share none."""

    @abc.abstractmethod
    def finish(self, state: State, as_of: int) -> Cell:
        """Return the value at an instant; of no rows, the empty value or the default.

        Only what decays depends on the instant; it is not before the newest row.
        """

    def add(self, state: State, order: Order, cell: Cell) -> State:
        """Return the state with one more row."""
        return self.merge(state, self.gather((cell,), (order,)))

    def merge_all(self, states: Sequence[State]) -> State:
        """Return the state of the rows of all; of none, the identity."""
        if not states:
            return self.identity()
        return functools.reduce(self.merge, states)

    def each(self, cells: Sequence[Cell], orders: Sequence[Order]) -> list[State]:
        """Return the state of each row alone."""
        return [self.gather((cell,), (order,)) for cell, order in zip(cells, orders, strict=True)]

    def merge_pairs(self, left: Sequence[State], right: Sequence[State]) -> list[State]:
        """Merge states side by side."""
        return list(map(self.merge, left, right))

    def scatter(self, states: Sequence[State], sharing: Sharing) -> list[State]:
        """Merge the states that have the same place."""
        merged = [states[at] for at in sharing.firsts]
        for place, members in sharing.shared.items():
            merged[place] = self.merge_all([states[at] for at in members])
        return merged
