# mypy: disable-error-code="explicit-any"
"""The interface of every aggregate: an identity, gather rows, merge states, finish a value."""

import abc
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import attrs

from narthex._ir.facts import Cell

Order: TypeAlias = tuple[int, bytes]
"""(event_time, row_id): the order of the rows of a group; no two rows share one."""

State: TypeAlias = Any
"""The state of an aggregate over some rows, MessagePack-encodable; only its algebra reads it."""


@attrs.frozen
class Sharing:
    """The states that share a place; places count up in order of first use.

    Attributes:
        firsts: For each place, the index of its first state.
        shared: For each place with more than one state, the indexes of all of them.
    """

    firsts: list[int]
    shared: dict[int, list[int]]

    @classmethod
    def of(cls, places: Sequence[int]) -> "Sharing":
        """Return the sharing of places, computed once for all the aggregates of the same rows."""
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

    `merge` is associative and commutative (for floats, within rounding), `identity` changes
    nothing, and the state of some rows does not depend on their order or on how they were split.
    States are never changed in place. Rows cannot be removed from a state: the state is gathered
    again from the remaining rows.

    Attributes:
        has_small_states: Whether a state stays small for any number of rows, so that an engine
            may keep one for each part of the past. Otherwise engines gather rows instead.
    """

    has_small_states: ClassVar[bool] = True

    @abc.abstractmethod
    def identity(self) -> State:
        """Return the state of an empty set of rows."""

    @abc.abstractmethod
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        """Return the state of rows, given their cells and their orders side by side."""

    @abc.abstractmethod
    def merge(self, left: State, right: State) -> State:
        """Return the state of the rows of both, which are disjoint."""

    @abc.abstractmethod
    def finish(self, state: State, as_of: int) -> Cell:
        """Return the value at an instant; for no rows, the empty value or the default.

        Only decaying values depend on the instant; it is not before the newest row.
        """

    def add(self, state: State, order: Order, cell: Cell) -> State:
        """Return the state with one more row."""
        return self.merge(state, self.gather((cell,), (order,)))

    def merge_all(self, states: Sequence[State]) -> State:
        """Return the state of the rows of all states; for none, the identity."""
        if not states:
            return self.identity()
        return functools.reduce(self.merge, states)

    def each(self, cells: Sequence[Cell], orders: Sequence[Order]) -> list[State]:
        """Return the state of each single row."""
        return [self.gather((cell,), (order,)) for cell, order in zip(cells, orders, strict=True)]

    def merge_pairs(self, left: Sequence[State], right: Sequence[State]) -> list[State]:
        """Merge two lists of states pair by pair."""
        return list(map(self.merge, left, right))

    def scatter(self, states: Sequence[State], sharing: Sharing) -> list[State]:
        """Merge the states that share a place."""
        merged = [states[at] for at in sharing.firsts]
        for place, members in sharing.shared.items():
            merged[place] = self.merge_all([states[at] for at in members])
        return merged
