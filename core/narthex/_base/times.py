"""Instants and spans: microseconds, UTC, and the syntax of durations for authors."""

from datetime import UTC, datetime, timedelta
from typing import NewType

Micros = NewType("Micros", int)
"""An instant: microseconds since the Unix epoch, UTC."""

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

_UNIT_US = {
    "s": SECOND_US,
    "m": MINUTE_US,
    "h": HOUR_US,
    "d": DAY_US,
    "w": 7 * DAY_US,
    "y": 365 * DAY_US,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The calendar repeats itself after this many days."""

FIRST_DAY = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH).days
LAST_DAY = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).days
"""The first and last day of the years 1 to 9999, which every engine and every store can hold."""
FIRST_INSTANT = FIRST_DAY * DAY_US
LAST_INSTANT = (LAST_DAY + 1) * DAY_US - 1


class DurationError(ValueError):
    """A duration that cannot be parsed."""


def parse_duration(text: str) -> int:
    """Parse a duration such as `1d`, `1h 30m` or `1.5h` into microseconds.

    Raises:
        DurationError: A number without a unit, an unknown unit, or another character.
    """
    if not isinstance(text, str):
        raise DurationError(f"a duration must be text such as `1d`, got `{text!r}`")
    total_us = 0.0
    number = ""
    for character in text.replace(" ", ""):
        if character.isdigit() or character == ".":
            number += character
        elif character in _UNIT_US and number not in {"", "."}:
            total_us += float(number) * _UNIT_US[character]
            number = ""
        else:
            raise DurationError(
                f"`{character}` is not allowed there in the duration `{text}`; "
                "write numbers with y, w, d, h, m or s"
            )
    if number:
        raise DurationError(f"`{number}` has no unit in the duration `{text}`")
    return round(total_us)


def render_duration(microseconds: int) -> str:
    """Render a duration of zero or more as text that `parse_duration` reads, such as `1d 30m`."""
    parts: list[str] = []
    for unit in ("d", "h", "m"):
        number, microseconds = divmod(microseconds, _UNIT_US[unit])
        parts += [f"{number}{unit}"] if number else []
    if microseconds or not parts:
        parts.append(f"{microseconds / _UNIT_US['s']:.6f}".rstrip("0").rstrip(".") + "s")
    return " ".join(parts)


def to_micros(instant: datetime) -> Micros:
    """Return an instant in microseconds; a naive datetime is taken as UTC."""
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    since = aware - _EPOCH
    return Micros(since.days * DAY_US + since.seconds * SECOND_US + since.microseconds)


def from_micros(instant: int) -> datetime:
    """Return the instant as an aware datetime, UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def render_instant(instant: int) -> str:
    """Render an instant as RFC 3339 with microseconds.

    A year outside RFC 3339, which only a computation yields, has a sign before it.
    """
    if FIRST_INSTANT <= instant <= LAST_INSTANT:
        return from_micros(instant).isoformat(timespec="microseconds").replace("+00:00", "Z")
    days, rest = divmod(instant, DAY_US)
    clock = from_micros(rest).isoformat(timespec="microseconds")
    return f"{render_far_day(days)}{clock[10:].replace('+00:00', 'Z')}"


def render_far_day(days: int) -> str:
    """Render a day of any year, with the sign of the year before it."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    near = _EPOCH + timedelta(days=rest)
    year = near.year + cycles * _CYCLE_YEARS
    return f"{'-' if year < 0 else '+'}{abs(year):04d}-{near:%m-%d}"
