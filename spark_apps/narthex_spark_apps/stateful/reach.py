"""How far along the time axis of a group a changed row affects the output of a step."""

import heapq
from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol, TypeAlias

import attrs

Span: TypeAlias = tuple[int, int]
"""The first and the last instant, both included."""


class GroupInstants(Protocol):
    """The instants of the rows of a group."""

    def before(self, instant: int) -> Iterator[int]:
        """Yield the instants before this one, the latest first."""

    def after(self, instant: int) -> Iterator[int]:
        """Yield the instants after this one, the earliest first."""


class Reach(Protocol):
    """Finds the rows from which the changes of a group's output can be computed.

    Let `old` and `new` be the rows of a span, before and after a change. The step then changes its
    output for the group exactly as it changes its output for `old` alone to that for `new` alone.

    Attributes:
        is_closed: Whether the span of an instant is the span of each row in it.
    """

    is_closed: ClassVar[bool]

    def span(self, instant: int, rows: GroupInstants) -> Span:
        """Return the span for a change at an instant."""


@attrs.frozen
class Neighbours:
    """A row affects the output for the rows next to it."""

    is_closed: ClassVar[bool] = False

    def span(self, instant: int, rows: GroupInstants) -> Span:
        """Return the instants of the rows before and after."""
        return next(rows.before(instant), instant), next(rows.after(instant), instant)


@attrs.frozen
class Chain:
    """A row affects all rows that a chain of rows connects with it.

    Attributes:
        gap: The longest distance between two rows that are connected, microseconds.
    """

    is_closed: ClassVar[bool] = True
    gap: int

    def span(self, instant: int, rows: GroupInstants) -> Span:
        """Return the ends of the chain."""
        first = last = instant
        for before in rows.before(instant):
            if first - before > self.gap:
                break
            first = before
        for after in rows.after(instant):
            if after - last > self.gap:
                break
            last = after
        return first, last


@attrs.frozen
class Within:
    """A row affects rows of which some window contains both.

    Attributes:
        length: The length of the windows, microseconds.
    """

    is_closed: ClassVar[bool] = False
    length: int

    def span(self, instant: int, _rows: GroupInstants) -> Span:
        """Return the instants that a window may share with this one."""
        return instant - self.length + 1, instant + self.length - 1


@attrs.frozen
class WithChanged:
    """The instants of the rows of a group, and of rows that were in it before a change.

    Attributes:
        changed: The instants at which rows have changed, ascending.
    """

    rows: GroupInstants
    changed: Sequence[int]

    def before(self, instant: int) -> Iterator[int]:
        """Yield the instants before this one, the latest first."""
        changed = (one for one in reversed(self.changed) if one < instant)
        return heapq.merge(self.rows.before(instant), changed, reverse=True)

    def after(self, instant: int) -> Iterator[int]:
        """Yield the instants after this one, the earliest first."""
        changed = (one for one in self.changed if one > instant)
        return heapq.merge(self.rows.after(instant), changed)


def affected_spans(reach: Reach, changed: Sequence[int], rows: GroupInstants) -> list[Span]:
    """Return the spans of changes, ascending and disjoint.

    Args:
        reach: Finds the rows that a change affects.
        changed: The instants at which rows have changed, ascending. The span of a single one
            contains it, whether or not a row is there now.
        rows: The rows of the group as they are now.
    """
    known = rows if len(changed) == 1 else WithChanged(rows, changed)
    spans: list[Span] = []
    for instant in changed:
        if spans and reach.is_closed and instant <= spans[-1][1]:
            continue
        first, last = reach.span(instant, known)
        while spans and first <= spans[-1][1]:
            before = spans.pop()
            first, last = min(first, before[0]), max(last, before[1])
        spans.append((first, last))
    return spans
