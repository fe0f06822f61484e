"""Which event times a window counts, asked at an instant."""

from typing import TypeAlias

from narthex._ir.window_spans import newest_closed
from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window

Span: TypeAlias = tuple[int | None, int]
"""The first and the last instant that count, both inclusive; None is the beginning of time."""


class UnsupportedWindowError(ValueError):
    """A window that no aggregate can have."""


def span(window: Window, as_of: int) -> Span:
    """Return the instants that a window counts for a question at an instant.

    A row that happened after the last one is not known to the window yet.

    Raises:
        UnsupportedWindowError: A session is no window of an aggregate.
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
            raise UnsupportedWindowError(f"{window!r} is no window of an aggregate")
