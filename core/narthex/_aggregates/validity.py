# mypy: disable-error-code="explicit-any"
"""Aggregates over rows with validity intervals: keyed rows, valid until their key changes."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import attrs

from narthex._aggregates.algebra import State
from narthex._aggregates.folds import Folding, FoldRow
from narthex._aggregates.window_ranges import Span
from narthex._ir.facts import Cell
from narthex._ir.window_spans import BEGINNING, lookback_of

_Row: TypeAlias = Any
"""A `FoldRow` with two cells that are instants."""


@attrs.frozen(kw_only=True)
class IntervalFolding:
    """Aggregates prepared for rows that each have a validity interval.

    Attributes:
        folding: The aggregates.
        since: The position of the cell with the start of a row's interval.
        until: The position of the cell with its end, exclusive; null is never.
        along: Whether a column, not the start of their intervals, places rows on the time axis, so
            that one may arrive after its window has ended.
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
        """Return the last instant whose rows any of the windows can count."""
        return max(last for _, last in self.folding.spans(asked_at))

    def gone_by(self, asked_at: int) -> int:
        """Return the instant by which a row must have ended so that no window counts it."""
        return min(self._as_of(last, asked_at) for _, last in self.folding.spans(asked_at))

    def fold(
        self,
        rows: Iterable[FoldRow],
        asked_at: int,
        *,
        last_gone: int | None = None,
        oldest: int = BEGINNING,
    ) -> tuple[tuple[Cell, ...], int] | None:
        """Return (values, newest change) of a group as of an instant; None if it was never seen.

        Args:
            rows: All rows of the group, or at least those that are placed by `known_until` and have
                not ended by `gone_by`.
            asked_at: The query's instant.
            last_gone: The latest end of the rows that are omitted; None if there are none.
            oldest: The event time before which the query sees no row.
        """
        spans = self.folding.spans(asked_at)
        known_until = max(last for _, last in spans)
        visible = [row for row in rows if oldest <= row[0]]
        seen = self._there_since(visible, known_until, asked_at)
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
        """Return the instant at which counted rows are valid; `along` lets it follow `last`."""
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
        first = BEGINNING if wanted[0] is None else wanted[0]
        as_of, since, until = self._as_of(last, asked_at), self.since, self.until
        return [
            row
            for row in seen
            if first <= row[0] <= last and row[2][since] <= as_of
            if (end := row[2][until]) is None or as_of < end
        ]

    def _gathered(self, partial: int, rows: Sequence[_Row]) -> State:
        column = self.folding.columns[partial]
        # A row begins with its order, the only part that an algebra reads.
        cells = rows if column is None else [row[2][column] for row in rows]
        return self.folding.partials[partial].algebra.gather(cells, rows)
