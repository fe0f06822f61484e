"""Durations, as authors parse them with Fennel's function."""

from datetime import timedelta
from typing import TypeAlias

from narthex._base.times import parse_duration
from narthex.compat.errors import told

__all__ = ["Duration", "duration_to_timedelta"]

Duration: TypeAlias = str
"""Text such as `1d` or `1h 30m`."""


@told
def duration_to_timedelta(duration: Duration) -> timedelta:
    """Parse a duration.

    Raises:
        FennelError: It is not a duration.
    """
    return timedelta(microseconds=parse_duration(duration))
