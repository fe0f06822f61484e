"""The spans of discrete windows: which of them contain an instant, and which one a query reads.

`oldest_visible` bounds the past of a query where a dataset has a `history`. All instants are
microseconds since the epoch, to which spans are aligned: a hopping span begins at a multiple of
the stride. A span includes its begin and excludes its end.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

from narthex._ir.windows import Continuous, Hopping, Tumbling, Window

WindowSpan: TypeAlias = tuple[int, int]
"""Begin, inclusive, and end, exclusive."""

BEGINNING: Final = -(1 << 63)
"""An instant before all others."""


def oldest_visible(history_us: int | None, as_of: int, watermark: int | None) -> int:
    """Return the event time before which a query as of an instant sees no row of a dataset.

    Args:
        history_us: The dataset's `history`; None is for ever.
        as_of: The query's instant.
        watermark: The greatest event time of the dataset's rows, less its disorder; None if it has
            no row.
    """
    if history_us is None or watermark is None:
        return BEGINNING
    return min(as_of, watermark) - history_us


def reach_of(window: Continuous | Tumbling | Hopping) -> int:
    """Return a distance from a query's instant back to which a window may count rows.

    A window without a beginning may count all rows; its end is within this distance.
    """
    if isinstance(window, Continuous):
        return window.duration or 0
    length, stride = _length_and_stride(window)
    return window.lookback + stride + (length or 0)


def lookback_of(window: Window) -> int:
    """Return the distance between a query's instant and the end of the window that it reads."""
    return window.lookback if isinstance(window, Tumbling | Hopping) else 0


def spans_of(window: Tumbling | Hopping, event_time: int) -> tuple[WindowSpan, ...]:
    """Return the spans that contain an instant, ascending; one span for a tumbling window.

    For a hopping window without a beginning, the spans are unbounded and none is returned.
    """
    length, stride = _length_and_stride(window)
    if length is None:
        return ()
    newest = event_time // stride
    oldest = (event_time - length) // stride + 1
    return tuple(
        (number * stride, number * stride + length) for number in range(oldest, newest + 1)
    )


def newest_closed(window: Tumbling | Hopping, as_of: int) -> tuple[int | None, int]:
    """Return the newest span that has ended by a query's instant, less the lookback.

    A begin of None is the beginning of time.
    """
    length, stride = _length_and_stride(window)
    until = as_of - window.lookback
    if length is None:
        return None, until // stride * stride
    begin = (until - length) // stride * stride
    return begin, begin + length


def counted_during(
    window: Continuous | Tumbling | Hopping, event_time: int
) -> tuple[int, int | None]:
    """Return the first query instant at which a row counts, and the first at which it does not.

    Within this interval some span of the window counts it; without an end it counts for ever.
    """
    if isinstance(window, Continuous):
        gone = None if window.duration is None else event_time + window.duration + 1
        return event_time, gone
    length, stride = _length_and_stride(window)
    if length is None:
        return (event_time // stride + 1) * stride + window.lookback, None
    oldest = (event_time - length) // stride + 1
    after = event_time // stride + 1
    closed = length + window.lookback
    return oldest * stride + closed, after * stride + closed


def sessions(event_times: Iterable[int], gap: int) -> tuple[WindowSpan, ...]:
    """Return the sessions of one key's rows, ascending; each ends a microsecond after its last row.

    A row belongs to a session while it is at most the gap after the session's last row.
    """
    found: list[WindowSpan] = []
    for event_time in sorted(event_times):
        if found and event_time - (found[-1][1] - 1) <= gap:
            found[-1] = (found[-1][0], event_time + 1)
        else:
            found.append((event_time, event_time + 1))
    return tuple(found)


def _length_and_stride(window: Tumbling | Hopping) -> tuple[int | None, int]:
    match window:
        case Tumbling(duration=duration):
            return duration, duration
        case Hopping(duration=duration, stride=stride):
            return duration, stride
        case _:
            assert_never(window)
