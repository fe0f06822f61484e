"""The last window that closed before an instant, for authors' code."""

from datetime import datetime
from typing import TypeAlias

from narthex._base.times import from_micros, parse_duration, to_micros
from narthex._ir.windows import Hopping, Tumbling
from narthex._sdk.declare.structs import Window
from narthex.errors import WindowInvalid

BucketWindow: TypeAlias = str | tuple[str, str] | Hopping | Tumbling


def bucketize(timestamp: datetime, window: BucketWindow) -> Window:
    """Return the last window that had ended at an instant, its end included.

    Windows start at multiples of their stride, counted from the epoch. An instant without a time
    zone is UTC.

    Args:
        timestamp: The instant.
        window: A `Tumbling` or `Hopping` window; or text such as `1h` for a tumbling one, or a
            pair of duration and stride for a hopping one.

    Raises:
        WindowInvalid: It is another kind of window, or has no end.
    """
    duration, stride = _spans(window)
    begin = (to_micros(timestamp) - duration) // stride * stride
    return Window(begin=from_micros(begin), end=from_micros(begin + duration))


def _spans(window: BucketWindow) -> tuple[int, int]:
    match window:
        case str():
            return parse_duration(window), parse_duration(window)
        case (str(duration), str(stride)):
            return parse_duration(duration), parse_duration(stride)
        case Tumbling():
            return window.duration, window.duration
        case Hopping(duration=int(duration), stride=stride):
            return duration, stride
        case _:
            raise WindowInvalid(
                f"`bucketize` got `{window!r}`; expected a window that tumbles or hops, and ends"
            )
