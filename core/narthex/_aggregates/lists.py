# mypy: disable-error-code="explicit-any"
"""Values of a column in time order: the newest, the oldest, each distinct one."""

import operator
from collections.abc import Sequence
from typing import ClassVar

import attrs
from typing_extensions import override

from narthex._aggregates.algebra import Algebra, Order, State
from narthex._formats.cells import CellBytes, Conversion
from narthex._ir.facts import Cell

_age = operator.itemgetter(0, 1)


@attrs.frozen(kw_only=True)
class _Values(Algebra):
    """Some values in time order; the state is the list of [event_time, row_id, storage form].

    Of rows at one instant, the one with the greater row_id is the newer.

    Attributes:
        limit: The greatest number of values; None keeps all.
        dropnull: Whether nulls do not count as values.
        identify: Encodes a value, so that only the first row of equal values is kept; None keeps
            all rows.
        lower: Converts a cell to its storage form; None if both are the same.
        lift: The inverse of `lower`.
    """

    newest_first: ClassVar[bool]

    limit: int | None
    dropnull: bool
    identify: CellBytes | None
    lower: Conversion | None
    lift: Conversion | None

    @override
    def identity(self) -> State:
        return []

    @override
    def gather(self, cells: Sequence[Cell], orders: Sequence[Order]) -> State:
        lower = self.lower
        rows = [
            [order[0], order[1], cell if lower is None or cell is None else lower(cell)]
            for order, cell in zip(orders, cells, strict=True)
            if cell is not None or not self.dropnull
        ]
        return self._trim(rows)

    @override
    def merge(self, left: State, right: State) -> State:
        return self._trim([*left, *right])

    @override
    def merge_all(self, states: Sequence[State]) -> State:
        return self._trim([row for state in states for row in state])

    @override
    def finish(self, state: State, as_of: int) -> Cell:
        return tuple([self._lifted(row[2]) for row in state])

    def _lifted(self, plain: State) -> Cell:
        lift = self.lift
        cell: Cell = plain if lift is None or plain is None else lift(plain)
        return cell

    def _trim(self, rows: list[State]) -> State:
        rows.sort(key=_age, reverse=self.newest_first)
        if self.identify is None:
            return rows[: self.limit]
        kept: list[State] = []
        seen: set[bytes] = set()
        for row in rows:
            identity = self.identify(self._lifted(row[2]))
            if identity not in seen:
                seen.add(identity)
                kept.append(row)
                if len(kept) == self.limit:
                    break
        return kept


@attrs.frozen(kw_only=True)
class NewestValues(_Values):
    """The last values, newest first; with `identify`, the newest of equal values."""

    newest_first = True


@attrs.frozen(kw_only=True)
class OldestValues(_Values):
    """The first values, oldest first; with `identify`, the oldest of equal values."""

    newest_first = False
