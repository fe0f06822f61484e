"""Windows in authors' code: `Continuous("1d")`, `Hopping("1h", "5m")` and the others.

Durations are text here. These functions make records of `narthex._ir.windows`, which count
microseconds, so a number from an author would silently mean microseconds.
"""

from narthex._authoring.durations import read_duration
from narthex._authoring.source_locations import author_origin
from narthex._ir import windows
from narthex.errors import DurationInvalid, WindowInvalid

_NOTHING = "0s"


def Continuous(  # noqa: N802 (a class in Fennel)
    duration: str, *, max_error: str | None = None
) -> windows.Continuous:
    """Return the window of all rows of the last `duration`, `"1h"` or `"forever"`.

    Args:
        duration: The length; both ends are included.
        max_error: The share of its length that the window may be longer or shorter, `"0.1%"`.

    Raises:
        DurationInvalid: It is not a duration, or not text.
        WindowInvalid: `max_error` is not a share.
    """
    length = _length(duration, "Continuous", "duration")
    if max_error is None:
        return windows.Continuous(length)
    if not isinstance(max_error, str):
        raise WindowInvalid(
            f"`max_error` of `Continuous` must be text, got `{max_error!r}`",
            origin=author_origin(),
            hint='write it as `max_error="0.1%"`',
        )
    return windows.Continuous(length, max_error=max_error)


def Tumbling(  # noqa: N802 (a class in Fennel)
    duration: str, lookback: str = _NOTHING
) -> windows.Tumbling:
    """Return the window of back-to-back spans of a length, as of `lookback` ago.

    Raises:
        DurationInvalid: One is not a duration, has no end, or is not text.
    """
    return windows.Tumbling(
        _finite(duration, "Tumbling", "duration"), _finite(lookback, "Tumbling", "lookback")
    )


def Hopping(  # noqa: N802 (a class in Fennel)
    duration: str, stride: str, lookback: str = _NOTHING
) -> windows.Hopping:
    """Return the window of spans that begin at each multiple of `stride` and overlap.

    Raises:
        DurationInvalid: One is not a duration, or not text; only `duration` may be `"forever"`.
    """
    return windows.Hopping(
        _length(duration, "Hopping", "duration"),
        _finite(stride, "Hopping", "stride"),
        _finite(lookback, "Hopping", "lookback"),
    )


def Session(  # noqa: N802 (a class in Fennel)
    gap: str,
) -> windows.Session:
    """Return the window of rows of a key that are at most `gap` apart.

    Raises:
        DurationInvalid: It is not a duration, has no end, or is not text.
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
