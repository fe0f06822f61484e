# mypy: disable-error-code="explicit-any"
"""Aggregates over rows that are there for a while only: keyed ones, until their key changes."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import attrs

from narthex._aggregates.algebra import State
from narthex._aggregates.folds import Folding, FoldRow
from narthex._aggregates.window_ranges import Span
from narthex._ir.facts import Cell
from narthex._ir.window_spans import lookback_of

_BEGINNING = -(1 << 63)

_Row: TypeAlias = Any
"""A `FoldRow`, two of whose cells are instants."""


@attrs.frozen(kw_only=True)
class IntervalFolding:
    """Aggregates made ready for rows each of which says from when until when it is there.

    Attributes:
        folding: The aggregates.
        since: The position of the cell that says from when on a row is there.
        until: The position of the one that says from when on it is not; null is never.
        along: Whether rows stand at another instant than the one from which they are there, so
            that one may come after its window has ended.
    """

    folding: Folding
    since: int
    until: int
    along: bool
    _lookback: int = attrs.field(init=False)

    @_lookback.default
    def _find_lookback(self) -> int:
        return max((lookback_of(slot.window) for slot in self.folding.slots), default=0)

    def known_until(self, asked_at: int) -> int:
        """Return the last instant whose rows any of the windows knows."""
        return max(last for _, last in self.folding.spans(asked_at))

    def gone_by(self, asked_at: int) -> int:
        """Return the instant by which a row must have gone that counts in none of the windows."""
        return min(self._as_of(last, asked_at) for _, last in self.folding.spans(asked_at))

    def fold(
        self, rows: Iterable[FoldRow], asked_at: int, *, last_gone: int | None = None
    ) -> tuple[tuple[Cell, ...], int] | None:
        """Return (values, newest change) of a group as of an instant; None if it was never seen.

        Args:
            rows: All rows of the group, or those at least that stand by `known_until` and have not
                gone by `gone_by`.
            asked_at: The question's instant.
            last_gone: When the last of the rows that are left out went; None of none.
        """
        spans = self.folding.spans(asked_at)
        known_until = max(last for _, last in spans)
        seen = self._there_since(rows, known_until, asked_at)
        if not seen and last_gone is None:
            return None
        values: list[Cell] = []
        counted: dict[Span, Sequence[_Row]] = {}
        states: dict[tuple[int, Span], State] = {}
        for slot, wanted in zip(self.folding.slots, spans, strict=True):
            memo = (slot.partial, wanted)
            if memo not in states:
                if wanted not in counted:
                    counted[wanted] = self._counted(seen, wanted, asked_at)
                states[memo] = self._gathered(slot.partial, counted[wanted])
            decays_to = asked_at - lookback_of(slot.window)
            values.append(slot.algebra.finish(states[memo], decays_to))
        changes = self._changes(seen, self._as_of(known_until, asked_at))
        return tuple(values), max(changes if last_gone is None else (*changes, last_gone))

    def _as_of(self, last: int, asked_at: int) -> int:
        """Return the instant whose rows count: along a column, a row may come after its window."""
        return asked_at - self._lookback if self.along else last

    def _there_since(self, rows: Iterable[FoldRow], known_until: int, asked_at: int) -> list[_Row]:
        as_of, since = self._as_of(known_until, asked_at), self.since
        given: Iterable[_Row] = rows
        return [row for row in given if row[0] <= known_until and row[2][since] <= as_of]

    def _changes(self, seen: Iterable[_Row], as_of: int) -> list[int]:
        since, until = self.since, self.until
        ends = [end for row in seen if (end := row[2][until]) is not None and end <= as_of]
        return [*(row[2][since] for row in seen), *ends]

    def _counted(self, seen: Iterable[_Row], wanted: Span, asked_at: int) -> list[_Row]:
        last = wanted[1]
        first = _BEGINNING if wanted[0] is None else wanted[0]
        as_of, since, until = self._as_of(last, asked_at), self.since, self.until
        return [
            row
            for row in seen
            if first <= row[0] <= last and row[2][since] <= as_of
            if (end := row[2][until]) is None or as_of < end
        ]

    def _gathered(self, partial: int, rows: Sequence[_Row]) -> State:
        column = self.folding.columns[partial]
        # A row begins with its order, which is all that an algebra looks at.
        cells = rows if column is None else [row[2][column] for row in rows]
        return self.folding.partials[partial].algebra.gather(cells, rows)
