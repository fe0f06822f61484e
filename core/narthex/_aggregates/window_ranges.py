"""The event times that a window counts in a query at an instant."""

from typing import TypeAlias

from narthex._ir.window_spans import BEGINNING, newest_closed
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window

Span: TypeAlias = tuple[int | None, int]
"""The first and the last instant that count, both inclusive; None is the beginning of time."""


class UnsupportedWindowError(ValueError):
    """A window that aggregates do not support."""


def span(window: Window, as_of: int) -> Span:
    """Return the instants that a window counts in a query at an instant.

    Rows after the last of these instants are not yet visible to the window.

    Raises:
        UnsupportedWindowError: The window is a session, which aggregates do not support.
    """
    match window:
        case Continuous(duration=None):
            return None, as_of
        case Continuous(duration=int(duration)):
            return as_of - duration, as_of
        case Tumbling() | Hopping():
            begin, end = newest_closed(window, as_of)
            return begin, end - 1
        case Session():
            raise UnsupportedWindowError("an aggregate cannot be over a session window")
        case _:
            raise UnsupportedWindowError(f"{window!r} is not a window of an aggregate")


def without_older(given: Span, oldest: int) -> Span:
    """Return the part of a span that is not before an instant; it may be empty."""
    first, last = given
    if oldest == BEGINNING or (first is not None and oldest <= first):
        return given
    return oldest, last
