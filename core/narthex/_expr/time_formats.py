"""Formats of instants in the syntax of chrono and `strftime`, the same in every engine.

Reading: numbers may be shorter than their width and take as many digits as there are; names are
English, in any case. Writing: numbers have their full width.
"""

import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import attrs

from narthex._base.times import MINUTE_US, SECOND_US, to_micros
from narthex._expr.time_zones import instant_of, wall_clock

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SHORT = 3
"""The number of letters in a short name."""

_SPELLED_OUT: Mapping[str, str] = MappingProxyType(
    {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "h": "%b"}
)
_BLANKS: Mapping[str, str] = MappingProxyType({"n": "\n", "t": "\t", "%": "%"})
_DIRECTIVE = re.compile(r"%(\.[369]?f|[369]f|:z|.|$)", re.DOTALL)


class FormatError(ValueError):
    """A format with an invalid directive, or a text that does not match the format."""


@attrs.frozen
class Directive:
    """A `%` and the text after it, such as `Y` or `.3f`."""

    name: str


def expanded(format_text: str) -> str:
    """Return a format with `%F`, `%T`, `%R`, `%D` and `%h` written out."""
    return _DIRECTIVE.sub(lambda found: _SPELLED_OUT.get(found[1], found[0]), format_text)


@functools.lru_cache(maxsize=1024)
def pieces(format_text: str) -> tuple[str | Directive, ...]:
    """Return a format as its texts and directives, in order."""
    found: list[str | Directive] = []
    end = 0
    written = expanded(format_text)
    for directive in _DIRECTIVE.finditer(written):
        found += [written[end : directive.start()]]
        name = directive[1]
        found += [_BLANKS[name] if name in _BLANKS else Directive(name)]
        end = directive.end()
    found += [written[end:]]
    return tuple(piece for piece in found if piece)


def _numbers(digits: int) -> str:
    return f"[0-9]{{1,{digits}}}+"


def _names(names: tuple[str, ...], *, whole: bool) -> str:
    known = [*(names if whole else ()), *(name[:SHORT] for name in names)]
    return f"(?i:{'|'.join(known)})"


READ: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "Y": ("year", _numbers(4)),
        "y": ("short_year", _numbers(2)),
        "m": ("month", _numbers(2)),
        "b": ("month_name", _names(MONTHS, whole=False)),
        "B": ("month_name", _names(MONTHS, whole=True)),
        "d": ("day", _numbers(2)),
        "e": ("day", f" ?{_numbers(2)}"),
        "j": ("day_of_year", _numbers(3)),
        "a": ("weekday", _names(WEEKDAYS, whole=False)),
        "A": ("weekday", _names(WEEKDAYS, whole=True)),
        "H": ("hour", _numbers(2)),
        "k": ("hour", f" ?{_numbers(2)}"),
        "I": ("hour12", _numbers(2)),
        "l": ("hour12", f" ?{_numbers(2)}"),
        "p": ("half", "[AaPp][Mm]"),
        "P": ("half", "[AaPp][Mm]"),
        "M": ("minute", _numbers(2)),
        "S": ("second", _numbers(2)),
        "f": ("fraction", _numbers(6)),
        "3f": ("fraction", "[0-9]{3}"),
        "6f": ("fraction", "[0-9]{6}"),
        "9f": ("fraction", "[0-9]{9}"),
        ".f": ("fraction", rf"\.{_numbers(9)}|"),
        ".3f": ("fraction", r"\.[0-9]{3}"),
        ".6f": ("fraction", r"\.[0-9]{6}"),
        ".9f": ("fraction", r"\.[0-9]{9}"),
        "z": ("offset", "Z|[+-][0-9]{2}:?[0-9]{2}"),
        ":z": ("offset", "Z|[+-][0-9]{2}:?[0-9]{2}"),
        "s": ("epoch", "-?[0-9]{1,12}+"),
    }
)
"""For each directive, the part that it reads and the pattern for Python and for Java."""

_ONE_OF = (
    ({"year", "short_year"}, "the year"),
    ({"month", "month_name"}, "the month"),
    ({"hour", "hour12"}, "the hour"),
)


def check_read_format(format_text: str) -> None:
    """Check a format of `strptime`.

    Raises:
        FormatError: It has an unknown directive, has a part twice, or does not determine a day.
    """
    names = [piece.name for piece in pieces(format_text) if isinstance(piece, Directive)]
    _refuse_unknown(names, READ)
    parts = [READ[name][0] for name in names]
    if len(parts) != len(set(parts)):
        raise FormatError(f"`{format_text}` has a part twice")
    for same, part in _ONE_OF:
        if same <= set(parts):
            raise FormatError(f"`{format_text}` has {part} twice")
    if ("hour12" in parts) != ("half" in parts):
        raise FormatError(f"`{format_text}` has one of %I and %p; they must be set together")
    if not _names_a_day(set(parts)):
        raise FormatError(f"`{format_text}` names no day; it needs %Y, %m and %d, or %s")


def _names_a_day(parts: set[str]) -> bool:
    if "epoch" in parts:
        return parts <= {"epoch", "fraction"}
    months = parts & {"month", "month_name"} and "day" in parts
    return bool(parts & {"year", "short_year"}) and bool(months) != ("day_of_year" in parts)


def _refuse_unknown(directives: list[str], known: Mapping[str, object]) -> None:
    for directive in directives:
        if directive not in known:
            names = " ".join(f"%{one}" for one in (*known, *_SPELLED_OUT, *_BLANKS))
            raise FormatError(f"directive `%{directive}`; supported directives: {names}")


@functools.lru_cache(maxsize=1024)
def _pattern(format_text: str) -> re.Pattern[str]:
    said = "".join(
        f"(?P<{READ[piece.name][0]}>{READ[piece.name][1]})"
        if isinstance(piece, Directive)
        else re.escape(piece)
        for piece in pieces(format_text)
    )
    return re.compile(said)


def parse_formatted(text: str, format_text: str, timezone: str = "UTC") -> int:
    """Parse an instant in microseconds; a local time without an offset is in the time zone.

    Raises:
        FormatError: The text does not match the format, or is not an instant.
    """
    found = _pattern(format_text).fullmatch(text)
    if found is None:
        raise FormatError(f"`{text}` is not of the format `{format_text}`")
    parts = {name: said.strip() for name, said in found.groupdict().items()}
    try:
        instant = _instant(parts, timezone)
    except (ValueError, OverflowError) as error:
        raise FormatError(f"`{text}`: {error}") from error
    if instant is None:
        raise FormatError(f"`{text}`: no clock of {timezone} ever shows this")
    return instant


def _instant(parts: Mapping[str, str], timezone: str) -> int | None:
    fraction_us = int(parts.get("fraction", "").strip(".").ljust(6, "0")[:6])
    if "epoch" in parts:
        # Before 1970 the second is rounded down, so the fraction is added to it.
        return int(parts["epoch"]) * SECOND_US + fraction_us
    minute, second = int(parts.get("minute", 0)), int(parts.get("second", 0))
    clock = datetime(*_day(parts), _hour(parts), minute, second, fraction_us, tzinfo=UTC)
    if "weekday" in parts and not _same_name(WEEKDAYS[clock.weekday()], parts["weekday"]):
        raise ValueError("its weekday is another")
    offset = parts.get("offset")
    if offset is None:
        return instant_of(clock, timezone)
    return to_micros(clock) - _offset_us(offset)


def _same_name(name: str, said: str) -> bool:
    return name[:SHORT].lower() == said[:SHORT].lower()


def _day(parts: Mapping[str, str]) -> tuple[int, int, int]:
    year = int(parts["year"]) if "year" in parts else _full_year(int(parts["short_year"]))
    if "day_of_year" in parts:
        nth = int(parts["day_of_year"])
        day = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=nth - 1)
        if nth < 1 or day.year != year:
            raise ValueError("the year has no such day")
        return year, day.month, day.day
    if "month" in parts:
        return year, int(parts["month"]), int(parts["day"])
    said = parts["month_name"]
    month = next(at for at, name in enumerate(MONTHS, start=1) if _same_name(name, said))
    return year, month, int(parts["day"])


def _full_year(short: int) -> int:
    return short + (1900 if short >= 70 else 2000)  # noqa: PLR2004 (as chrono and POSIX have it)


def _hour(parts: Mapping[str, str]) -> int:
    if "hour12" not in parts:
        return int(parts.get("hour", 0))
    hour = int(parts["hour12"])
    if not 1 <= hour <= 12:  # noqa: PLR2004 (what a dial has)
        raise ValueError("no dial has that hour")
    return hour % 12 + (12 if parts["half"].lower() == "pm" else 0)


def _offset_us(said: str) -> int:
    if said == "Z":
        return 0
    digits = said[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:  # noqa: PLR2004 (the most that a clock can be off)
        raise ValueError("no clock is off by so much")
    return (-1 if said[0] == "-" else 1) * (hours * 60 + minutes) * MINUTE_US


def _offset(at: datetime, colon: str) -> str:
    seconds = round((at.utcoffset() or timedelta()).total_seconds())
    minutes = abs(seconds) // 60
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02}{colon}{minutes % 60:02}"


def _dial(at: datetime) -> int:
    return at.hour % 12 or 12


def _seconds(at: datetime) -> int:
    return to_micros(at) // SECOND_US


WRITTEN: Mapping[str, Callable[[datetime], str]] = MappingProxyType(
    {
        "Y": lambda at: f"{at.year:04}",
        "y": lambda at: f"{at.year % 100:02}",
        "m": lambda at: f"{at.month:02}",
        "b": lambda at: MONTHS[at.month - 1][:SHORT],
        "B": lambda at: MONTHS[at.month - 1],
        "d": lambda at: f"{at.day:02}",
        "e": lambda at: f"{at.day:2}",
        "j": lambda at: f"{at.timetuple().tm_yday:03}",
        "a": lambda at: WEEKDAYS[at.weekday()][:SHORT],
        "A": lambda at: WEEKDAYS[at.weekday()],
        "u": lambda at: str(at.isoweekday()),
        "w": lambda at: str(at.isoweekday() % 7),
        "G": lambda at: f"{at.isocalendar().year:04}",
        "V": lambda at: f"{at.isocalendar().week:02}",
        "H": lambda at: f"{at.hour:02}",
        "k": lambda at: f"{at.hour:2}",
        "I": lambda at: f"{_dial(at):02}",
        "l": lambda at: f"{_dial(at):2}",
        "p": lambda at: "PM" if at.hour >= 12 else "AM",  # noqa: PLR2004 (noon)
        "P": lambda at: "pm" if at.hour >= 12 else "am",  # noqa: PLR2004
        "M": lambda at: f"{at.minute:02}",
        "S": lambda at: f"{at.second:02}",
        "f": lambda at: f"{at.microsecond:06}",
        "3f": lambda at: f"{at.microsecond // 1000:03}",
        "6f": lambda at: f"{at.microsecond:06}",
        ".3f": lambda at: f".{at.microsecond // 1000:03}",
        ".6f": lambda at: f".{at.microsecond:06}",
        "z": lambda at: _offset(at, ""),
        ":z": lambda at: _offset(at, ":"),
        "Z": lambda at: at.tzname() or "",
        "s": lambda at: str(_seconds(at)),
    }
)
"""For each directive, the function that writes its part of a local time."""


def check_written_format(format_text: str) -> None:
    """Check a format of `strftime`.

    Raises:
        FormatError: It has an unknown directive.
    """
    names = [piece.name for piece in pieces(format_text) if isinstance(piece, Directive)]
    _refuse_unknown(names, WRITTEN)


def render_formatted(instant: int, format_text: str, timezone: str = "UTC") -> str | None:
    """Write an instant in a format, in the time zone; None if it has no year there."""
    at = wall_clock(instant, timezone)
    if at is None:
        return None
    return "".join(
        WRITTEN[piece.name](at) if isinstance(piece, Directive) else piece
        for piece in pieces(format_text)
    )
