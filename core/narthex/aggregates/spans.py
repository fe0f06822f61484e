"""Which event times a window counts, asked at an instant."""

from typing import TypeAlias

from narthex.windows import Continuous, Hopping, Session, Tumbling, Window

Span: TypeAlias = tuple[int | None, int]
"""The first and the last instant that count, both inclusive; None is the beginning of time."""


class UnsupportedWindowError(ValueError):
    """A window that no aggregate can have."""


def shown_at(window: Window, as_of: int) -> int:
    """Give the instant whose values a window shows: the question's, less the lookback."""
    return as_of - window.lookback if isinstance(window, Tumbling | Hopping) else as_of


def span(window: Window, as_of: int) -> Span:
    """Give the instants that a window counts for a question at an instant.

    A row that happened after the last one is not known to the window yet.

    Raises:
        UnsupportedWindowError: A session is no window of an aggregate.
    """
    match window:
        case Continuous(duration=None):
            return None, as_of
        case Continuous(duration=int(duration)):
            return as_of - duration, as_of
        case Tumbling(duration=duration, lookback=lookback):
            end = (as_of - lookback) // duration * duration
            return end - duration, end - 1
        case Hopping(duration=None, stride=stride, lookback=lookback):
            return None, (as_of - lookback) // stride * stride - 1
        case Hopping(duration=int(duration), stride=stride, lookback=lookback):
            start = (as_of - lookback - duration) // stride * stride
            return start, start + duration - 1
        case Session():
            raise UnsupportedWindowError("an aggregate cannot be over a session window")
        case _:
            raise UnsupportedWindowError(f"{window!r} is no window of an aggregate")
