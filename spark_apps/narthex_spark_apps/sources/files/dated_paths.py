"""Skip files whose dates say that all their rows are outside the bounds of their source."""

import re
from collections.abc import Iterable
from datetime import MAXYEAR, UTC, datetime, timedelta

from narthex._base import to_micros
from narthex._ir import Source
from narthex_spark_apps.storage.file_store import dated_parts, read_date

_DIRECTIVE = re.compile(r"%(.)")
_LEVELS = (
    frozenset("Yy"),
    frozenset("mbBj"),
    frozenset("dj"),
    frozenset("H"),
    frozenset("M"),
    frozenset("S"),
)
"""The directives of years, months, days, hours, minutes and seconds."""
_LENGTHS = (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
_DAY_LEVEL = 3


def may_have_rows(source: Source, path: str, file: str, spread_us: int) -> bool:
    """Return whether a file may have rows within the bounds of its source.

    Args:
        source: The source, with its `since` and `until`.
        path: The pattern of the source's files.
        file: A file that matches the pattern.
        spread_us: The greatest distance between the file's dates and its rows' event times.
    """
    dates = dates_of(file, path)
    if dates is None:
        return True
    begin_us, end_us = dates
    is_too_old = source.since_us is not None and end_us + spread_us <= source.since_us
    is_too_new = source.until_us is not None and begin_us - spread_us >= source.until_us
    return not (is_too_old or is_too_new)


def dates_of(file: str, path: str) -> tuple[int, int] | None:
    """Return the span of time that a file's dates name: from inclusive, to exclusive, in UTC.

    The span is as narrow as the dates are without a gap: a day without its month is ignored. The
    result is None if the path has no year, or another directive than those of dates.
    """
    directives = set(_DIRECTIVE.findall(path))
    level = _level_of(directives)
    if not level or directives - frozenset().union(*_LEVELS):
        return None
    found = read_date(dated_parts(file, path))
    # The end of the last year is no instant.
    return None if found is None or found.year == MAXYEAR else _span(found, level)


def _level_of(directives: Iterable[str]) -> int:
    """Return how many levels of a date, from the year on, the directives name without a gap."""
    named = set(directives)
    missing = (at for at, level in enumerate(_LEVELS) if not level & named)
    return next(missing, len(_LEVELS))


def _span(found: datetime, level: int) -> tuple[int, int]:
    parts = (found.year, found.month, found.day, found.hour, found.minute, found.second)
    year, month, day, hour, minute, second = (*parts[:level], *(1, 1, 1, 0, 0, 0)[level:])
    begin = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    if level >= _DAY_LEVEL:
        end = begin + _LENGTHS[level - _DAY_LEVEL]
    elif level == 1:
        end = begin.replace(year=year + 1)
    else:
        end = (begin + timedelta(days=31)).replace(day=1)
    return to_micros(begin), to_micros(end)
