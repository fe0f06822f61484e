"""Durations as Fennel's authors read them themselves."""

from datetime import timedelta
from typing import TypeAlias

from narthex._base.times import parse_duration
from narthex.compat.errors import told

__all__ = ["Duration", "duration_to_timedelta"]

Duration: TypeAlias = str
"""Text such as `1d` or `1h 30m`."""


@told
def duration_to_timedelta(duration: Duration) -> timedelta:
    """Read a duration.

    Raises:
        FennelError: It cannot be read.
    """
    return timedelta(microseconds=parse_duration(duration))
