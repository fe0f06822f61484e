"""The instants of a window, and the boundaries between windows."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from narthex._ir import Continuous, Hopping, Session, Tumbling, Window

_T = TypeVar("_T")

Span: TypeAlias = tuple[int | None, int]
"""The first and the last instant that count, both inclusive; None is the beginning of time."""


class NoSpanError(ValueError):
    """A session has no span of its own: its rows determine it."""


def lookback_of(window: Window) -> int:
    """Return the distance between a query's instant and the end of its window."""
    return window.lookback if isinstance(window, Tumbling | Hopping) else 0


def span(window: Window, asked_at: int) -> Span:
    """Return the instants that count for a lookup; a discrete window's newest closed span.

    Raises:
        NoSpanError: The window is a session.
    """
    if isinstance(window, Session):
        raise NoSpanError("a session has no span of its own")
    last = asked_at
    if not isinstance(window, Continuous):
        last = _last_end(window, asked_at - window.lookback) - 1
    if window.duration is None:
        return None, last
    both_inclusive = isinstance(window, Continuous)
    return last - window.duration + (0 if both_inclusive else 1), last


def _last_end(window: Tumbling | Hopping, instant: int) -> int:
    """Return the newest end of a window at or before an instant; they begin at whole strides."""
    stride = window.stride if isinstance(window, Hopping) else window.duration
    beyond = (window.duration or 0) % stride
    return (instant - beyond) // stride * stride + beyond


def next_end(window: Tumbling | Hopping, instant: int) -> int:
    """Return the oldest end of a window after an instant."""
    stride = window.stride if isinstance(window, Hopping) else window.duration
    return _last_end(window, instant) + stride


def windows_of(window: Tumbling | Hopping, instant: int) -> list[tuple[int, int]]:
    """Return the begin and the end of every window that an instant lies in."""
    duration = window.duration
    if duration is None:
        raise NoSpanError("a window for ever has no beginning")
    stride = window.stride if isinstance(window, Hopping) else duration
    newest = instant // stride * stride
    begins = range(newest, instant - duration, -stride)
    return [(begin, begin + duration) for begin in reversed(begins)]


def sessions(rows: Sequence[_T], gap: int, instant_of: Callable[[_T], int]) -> list[list[_T]]:
    """Cut rows, oldest first, where the next is more than `gap` after the last."""
    found: list[list[_T]] = []
    for row in rows:
        if found and instant_of(row) - instant_of(found[-1][-1]) <= gap:
            found[-1].append(row)
        else:
            found.append([row])
    return found
