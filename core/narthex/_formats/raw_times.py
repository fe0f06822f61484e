"""Instants and days in the formats of sources."""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from narthex._base.times import FIRST_DAY, LAST_DAY, SECOND_US, render_far_day, to_micros

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()

_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?(?: ?([Zz]|[+-]\d{2}(?::?\d{2})?))?)?",
    re.ASCII,
)
_PLAIN = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ](?:[01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?"
    r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?",
    re.ASCII,
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_BELOW_SECONDS, _BELOW_MILLIS, _BELOW_MICROS = 10**11, 10**14, 10**17


class NoInstantError(ValueError):
    """A text or a number that is not an instant, or not a day."""


def instant_of_epoch(number: float) -> int:
    """Return the instant of a Unix time whose unit follows from its magnitude.

    Below 10^11 it is seconds (until the year 5138), below 10^14 milliseconds, below 10^17
    microseconds, else nanoseconds. Fractions of a microsecond are truncated.
    """
    size = abs(number)
    if size < _BELOW_SECONDS:
        scaled = number * SECOND_US
    elif size < _BELOW_MILLIS:
        scaled = number * 1000
    elif size < _BELOW_MICROS:
        scaled = number
    else:
        scaled = number // 1000
    return scaled if isinstance(scaled, int) else round(scaled)


def parse_instant(text: str) -> int:
    """Parse RFC 3339, ISO 8601 (naive is UTC; a day is its midnight) or RFC 2822.

    Fractions of a microsecond are truncated.

    Raises:
        NoInstantError: It has none of these formats, or is not an instant of the years 1 to 9999.
    """
    try:
        if _PLAIN.fullmatch(text):
            # The format of most sources; the C parser reads it several times as fast.
            return to_micros(datetime.fromisoformat(text))
        found = _ISO.fullmatch(text)
        if found is None:
            return to_micros(parsedate_to_datetime(text))
        return _iso_instant(found)
    except (ValueError, TypeError, OverflowError) as error:
        raise NoInstantError(f"{text!r} is not an instant") from error


def _iso_instant(found: re.Match[str]) -> int:
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micros = int((found[7] or "0").ljust(6, "0")[:6])
    zone = _zone(found[8])
    return to_micros(datetime(year, month, day, hour, minute, second, micros, tzinfo=zone))


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[3:].lstrip(":") or 0)
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))


def parse_day(text: str) -> int:
    """Parse an ISO day into days since 1970.

    Raises:
        NoInstantError: It is not an ISO day.
    """
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text).toordinal() - EPOCH_ORDINAL
    except ValueError as error:
        raise NoInstantError(f"{text!r} is not a day: {error}") from error
    raise NoInstantError(f"{text!r} is not a day such as 2013-12-31")


def render_day(days: int) -> str:
    """Render a day as ISO; a year beyond 1 to 9999 has a sign before it."""
    if not FIRST_DAY <= days <= LAST_DAY:
        return render_far_day(days)
    return date.fromordinal(EPOCH_ORDINAL + days).isoformat()
