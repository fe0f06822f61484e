"""What authors write for windows: `Continuous("1d")`, `Hopping("1h", "5m")` and the others.

Durations are text here. The records of `narthex._ir.windows`, which these make, count microseconds,
so that a number that an author wrote would silently be one of those.
"""

from narthex._ir import windows
from narthex._sdk.declare.call_arguments import read_duration
from narthex._sdk.declare.source_locations import author_origin
from narthex.errors import DurationInvalid, WindowInvalid

_NOTHING = "0s"


def Continuous(  # noqa: N802 (it stands where Fennel has a class)
    duration: str, *, max_error: str | None = None
) -> windows.Continuous:
    """Return the window of all rows of the last `duration`, `"1h"` or `"forever"`.

    Args:
        duration: Both its ends count.
        max_error: By which share of its length the window may be longer or shorter, `"0.1%"`.

    Raises:
        DurationInvalid: It is no duration, or is not text.
        WindowInvalid: The share is none.
    """
    length = _length(duration, "Continuous", "duration")
    if max_error is None:
        return windows.Continuous(length)
    if not isinstance(max_error, str):
        raise WindowInvalid(
            f"`max_error` of `Continuous` is text, found `{max_error!r}`",
            origin=author_origin(),
            hint='write it as `max_error="0.1%"`',
        )
    return windows.Continuous(length, max_error=max_error)


def Tumbling(  # noqa: N802 (it stands where Fennel has a class)
    duration: str, lookback: str = _NOTHING
) -> windows.Tumbling:
    """Return the window of back-to-back spans of a length, as they stood `lookback` ago.

    Raises:
        DurationInvalid: One is no duration, is without end, or is not text.
    """
    return windows.Tumbling(
        _finite(duration, "Tumbling", "duration"), _finite(lookback, "Tumbling", "lookback")
    )


def Hopping(  # noqa: N802 (it stands where Fennel has a class)
    duration: str, stride: str, lookback: str = _NOTHING
) -> windows.Hopping:
    """Return the window of spans that begin at each multiple of `stride` and overlap.

    Raises:
        DurationInvalid: One is no duration, or is not text; only `duration` may be `"forever"`.
    """
    return windows.Hopping(
        _length(duration, "Hopping", "duration"),
        _finite(stride, "Hopping", "stride"),
        _finite(lookback, "Hopping", "lookback"),
    )


def Session(  # noqa: N802 (it stands where Fennel has a class)
    gap: str,
) -> windows.Session:
    """Return the window of rows of a key that are no further apart than `gap`.

    Raises:
        DurationInvalid: It is no duration, is without end, or is not text.
    """
    return windows.Session(_finite(gap, "Session", "gap"))


def _length(duration: object, window: str, part: str) -> int | None:
    return None if duration == "forever" else _finite(duration, window, part)


def _finite(duration: object, window: str, part: str) -> int:
    title = f"`{part}` of `{window}`"
    if duration == "forever":
        raise DurationInvalid(
            f"{title} is `forever`, and must have an end",
            origin=author_origin(),
            hint='write it as `"1d"`, with y, w, d, h, m or s',
        )
    return read_duration(duration, origin=author_origin(), what=title)
