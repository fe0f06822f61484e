"""The checks of windows."""

from collections.abc import Iterator
from typing import assert_never

from narthex._ir.windows import Continuous, Hopping, Session, Tumbling, Window


def window_problems(window: Window) -> Iterator[str]:
    """Yield the problems of a window alone, each as the rest of a sentence."""
    match window:
        case Continuous(duration=duration, max_error=max_error):
            yield from _empty(duration)
            if duration is None and max_error:
                yield "has no length, so `max_error` cannot be a share of"
        case Tumbling(duration=duration, lookback=lookback):
            yield from _empty(duration)
            yield from _lookback(lookback)
        case Hopping(duration=duration, lookback=lookback):
            yield from _empty(duration)
            yield from _lookback(lookback)
            yield from _stride(window)
        case Session(gap=gap):
            if gap <= 0:
                yield "has an empty gap"
        case _:
            assert_never(window)


def is_discrete(window: Window) -> bool:
    """Whether a window's rows change only at its ends, not at every instant."""
    return not isinstance(window, Continuous)


def _empty(duration: int | None) -> Iterator[str]:
    if duration is not None and duration <= 0:
        yield "is empty"


def _lookback(lookback: int) -> Iterator[str]:
    if lookback < 0:
        yield "has a negative lookback"


def _stride(window: Hopping) -> Iterator[str]:
    if window.stride <= 0:
        yield "has an empty stride"
    elif window.duration is not None and window.stride > window.duration:
        yield "has a stride longer than its duration, which would leave rows out"
