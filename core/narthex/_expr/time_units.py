"""Units of time, and the number of them between two instants."""

from collections.abc import Mapping
from types import MappingProxyType

from narthex._base.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US

UNIT_US: Mapping[str, int] = MappingProxyType(
    {
        "year": 365 * DAY_US,
        "week": 7 * DAY_US,
        "day": DAY_US,
        "hour": HOUR_US,
        "minute": MINUTE_US,
        "second": SECOND_US,
        "millisecond": 1000,
        "microsecond": 1,
    }
)
"""Units of `since`, `since_epoch` and `from_epoch`."""


def whole_units(span_us: int, unit: str) -> int:
    """Return the number of whole units in a span, truncated toward zero."""
    count = abs(span_us) // UNIT_US[unit]
    return count if span_us >= 0 else -count
