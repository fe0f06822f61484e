"""Formats of instants in the syntax of chrono and `strftime`, the same in every engine.

Reading: numbers may be shorter than their width and take as many digits as there are; names are
English, in any case; a month without a day is its first day, a year without a month its first
month; the name of a time zone is skipped. Writing: numbers have their full width. After the `%`,
`-` leaves the fill of a number out, `_` fills it with blanks, and `0` with zeros.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
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
    {
        "F": "%Y-%m-%d",
        "T": "%H:%M:%S",
        "R": "%H:%M",
        "D": "%m/%d/%y",
        "h": "%b",
        "x": "%m/%d/%y",
        "X": "%H:%M:%S",
        "r": "%I:%M:%S %p",
        "v": "%e-%b-%Y",
        "c": "%a %b %e %H:%M:%S %Y",
        "+": "%Y-%m-%dT%H:%M:%S%.f%:z",
    }
)
_BLANKS: Mapping[str, str] = MappingProxyType({"n": "\n", "t": "\t", "%": "%"})
_DIRECTIVE = re.compile(r"%(\.[369]?f|[369]f|:{1,3}z|#z|[-_0].|.|$)", re.DOTALL)
_FILLS: Mapping[str, str] = MappingProxyType({"-": "", "_": " ", "0": "0"})
"""For each modifier of a directive, the character that fills its number."""

_NUMBERS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        **dict.fromkeys("YG", (4, "0")),
        **dict.fromkeys("CygmdUWVHIMS", (2, "0")),
        **dict.fromkeys("ekl", (2, " ")),
        "j": (3, "0"),
        **dict.fromkeys("uw", (1, "0")),
    }
)
"""For each directive of a number, its width and the character that fills it."""


def number_forms() -> Iterator[tuple[str, str, int, str]]:
    """Yield each directive of a number: with its modifier, without, its width and its fill."""
    for name, (width, fill) in _NUMBERS.items():
        yield name, name, width, fill
        for modifier, other in _FILLS.items():
            yield modifier + name, name, width, other


class FormatError(ValueError):
    """A format with an invalid directive, or a text that does not match the format."""


@attrs.frozen
class Directive:
    """A `%` and the text after it, such as `Y` or `.3f`."""

    name: str


def expanded(format_text: str) -> str:
    """Return a format with directives of several parts, such as `%F`, written out."""
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


_READ: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "Y": ("year", _numbers(4)),
        "C": ("century", _numbers(2)),
        "y": ("short_year", _numbers(2)),
        "m": ("month", _numbers(2)),
        "b": ("month_name", _names(MONTHS, whole=False)),
        "B": ("month_name", _names(MONTHS, whole=True)),
        "d": ("day", _numbers(2)),
        "e": ("day", f" ?{_numbers(2)}"),
        "j": ("day_of_year", _numbers(3)),
        "G": ("iso_year", _numbers(4)),
        "g": ("short_iso_year", _numbers(2)),
        "V": ("iso_week", _numbers(2)),
        "U": ("week_from_sunday", _numbers(2)),
        "W": ("week_from_monday", _numbers(2)),
        "u": ("iso_weekday", "[1-7]"),
        "w": ("weekday_from_sunday", "[0-6]"),
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
        "f": ("fraction", _numbers(9)),
        "3f": ("fraction", "[0-9]{3}"),
        "6f": ("fraction", "[0-9]{6}"),
        "9f": ("fraction", "[0-9]{9}"),
        ".f": ("fraction", rf"\.{_numbers(9)}|"),
        ".3f": ("fraction", r"\.[0-9]{3}"),
        ".6f": ("fraction", r"\.[0-9]{6}"),
        ".9f": ("fraction", r"\.[0-9]{9}"),
        "z": ("offset", "Z|[+-][0-9]{2}:?[0-9]{2}"),
        ":z": ("offset", "Z|[+-][0-9]{2}:?[0-9]{2}"),
        "#z": ("offset", "Z|[+-][0-9]{2}(?::?[0-9]{2})?"),
        "Z": ("zone_name", "[^\\t-\\r ]*"),
        "s": ("epoch", "-?[0-9]{1,12}+"),
    }
)

READ: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **_READ,
        **{
            directive: (_READ[name][0], f" *{_READ[name][1].removeprefix(' ?')}")
            for directive, name, _, _ in number_forms()
            if directive != name
        },
    }
)
"""For each directive, the part that it reads and the pattern for Python and for Java."""

_WEEKDAYS = frozenset({"weekday", "iso_weekday", "weekday_from_sunday"})
_WEEKS = frozenset({"week_from_sunday", "week_from_monday"})
_ISO = frozenset({"iso_year", "short_iso_year", "iso_week"})
WEEK_PARTS = _WEEKS | _ISO
"""The parts of a day that is named by its week."""

_ONE_OF = (
    (frozenset({"year", "short_year"}), "the year"),
    (frozenset({"year", "century"}), "the year"),
    (frozenset({"iso_year", "short_iso_year"}), "the year"),
    (frozenset({"month", "month_name"}), "the month"),
    (frozenset({"hour", "hour12"}), "the hour"),
    (frozenset({"weekday", "iso_weekday"}), "the weekday"),
    (frozenset({"weekday", "weekday_from_sunday"}), "the weekday"),
    (frozenset({"iso_weekday", "weekday_from_sunday"}), "the weekday"),
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
        raise FormatError(
            f"`{format_text}` names no day; it needs %Y, with %m and %d, %j, or %W and %a, or it "
            "needs %G, %V and %a, or %s"
        )


def _names_a_day(parts: set[str]) -> bool:
    """Whether the parts name one day in one way; a weekday besides is checked."""
    if "epoch" in parts:
        return parts <= {"epoch", "fraction"}
    is_ordinal, is_weekly = "day_of_year" in parts, bool(parts & _WEEKS)
    months, has_day, has_weekday = (
        parts & {"month", "month_name"},
        "day" in parts,
        parts & _WEEKDAYS,
    )
    if parts & _ISO:
        years = parts & {"iso_year", "short_iso_year"}
        others = {"year", "short_year", "century"} & parts or is_ordinal or is_weekly or months
        return bool("iso_week" in parts and years and has_weekday) and not (others or has_day)
    if not parts & {"year", "short_year"} or ("century" in parts and "short_year" not in parts):
        return False
    if is_ordinal or is_weekly:
        week = parts & _WEEKS
        other = (is_ordinal and is_weekly) or months or has_day or len(week) > 1
        return not other and (is_ordinal or bool(has_weekday))
    return bool(months or not has_day) and (has_day or not has_weekday)


def _refuse_unknown(directives: list[str], known: Mapping[str, object]) -> None:
    for directive in directives:
        if directive not in known:
            listed = [one for one in known if one[0] not in _FILLS]
            names = " ".join(f"%{one}" for one in (*listed, *_SPELLED_OUT, *_BLANKS))
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
    weekday = _weekday(parts)
    if weekday is not None and clock.isoweekday() != weekday:
        raise ValueError("its weekday is another")
    offset = parts.get("offset")
    if offset is None:
        return instant_of(clock, timezone)
    return to_micros(clock) - _offset_us(offset)


def _same_name(name: str, said: str) -> bool:
    return name[:SHORT].lower() == said[:SHORT].lower()


def _place(names: tuple[str, ...], said: str) -> int:
    """Return the number of a name, from 1 on."""
    return next(at for at, name in enumerate(names, start=1) if _same_name(name, said))


def _weekday(parts: Mapping[str, str]) -> int | None:
    """Return the number of a weekday, Monday's is 1; None without one."""
    if "weekday" in parts:
        return _place(WEEKDAYS, parts["weekday"])
    if "weekday_from_sunday" in parts:
        return int(parts["weekday_from_sunday"]) or 7
    return int(parts["iso_weekday"]) if "iso_weekday" in parts else None


def _day(parts: Mapping[str, str]) -> tuple[int, int, int]:
    year, weekday = _year(parts), _weekday(parts) or 1
    if "iso_week" in parts:
        day = date.fromisocalendar(year, int(parts["iso_week"]), weekday)
        return day.year, day.month, day.day
    if "day_of_year" in parts:
        return _nth_day(year, int(parts["day_of_year"]) - 1)
    if "week_from_monday" in parts:
        first = -date(year, 1, 1).weekday() % 7
        return _nth_day(year, first + 7 * (int(parts["week_from_monday"]) - 1) + weekday - 1)
    if "week_from_sunday" in parts:
        first = -date(year, 1, 1).isoweekday() % 7
        return _nth_day(year, first + 7 * (int(parts["week_from_sunday"]) - 1) + weekday % 7)
    month = int(parts.get("month", 1))
    if "month_name" in parts:
        month = _place(MONTHS, parts["month_name"])
    return year, month, int(parts.get("day", 1))


def _year(parts: Mapping[str, str]) -> int:
    if "century" in parts:
        return 100 * int(parts["century"]) + int(parts["short_year"])
    for name in ("year", "iso_year"):
        if name in parts:
            return int(parts[name])
    short = int(parts["short_year"] if "short_year" in parts else parts["short_iso_year"])
    return short + (1900 if short >= 70 else 2000)  # noqa: PLR2004 (as chrono and POSIX have it)


def _nth_day(year: int, after: int) -> tuple[int, int, int]:
    """Return the day that many days after the first of a year."""
    day = date(year, 1, 1) + timedelta(days=after)
    if day.year != year:
        raise ValueError("the year has no such day")
    return year, day.month, day.day


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
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:  # noqa: PLR2004 (the most that a clock can be off)
        raise ValueError("no clock is off by so much")
    return (-1 if said[0] == "-" else 1) * (hours * 60 + minutes) * MINUTE_US


def _offset(at: datetime, colon: str, *, parts: int = 2) -> str:
    seconds = round((at.utcoffset() or timedelta()).total_seconds())
    size = abs(seconds)
    shown = (size // 3600, size // 60 % 60, size % 60)[:parts]
    return ("-" if seconds < 0 else "+") + colon.join(f"{one:02}" for one in shown)


def _dial(at: datetime) -> int:
    return at.hour % 12 or 12


def _seconds(at: datetime) -> int:
    return to_micros(at) // SECOND_US


def _fraction(at: datetime) -> str:
    """Return the point and three or six digits; nothing for a whole second."""
    if not at.microsecond:
        return ""
    return f".{at.microsecond:06}" if at.microsecond % 1000 else f".{at.microsecond // 1000:03}"


_COUNTED: Mapping[str, Callable[[datetime], int]] = MappingProxyType(
    {
        "Y": lambda at: at.year,
        "C": lambda at: at.year // 100,
        "y": lambda at: at.year % 100,
        "m": lambda at: at.month,
        "d": lambda at: at.day,
        "e": lambda at: at.day,
        "j": lambda at: at.timetuple().tm_yday,
        "u": lambda at: at.isoweekday(),
        "w": lambda at: at.isoweekday() % 7,
        "G": lambda at: at.isocalendar().year,
        "g": lambda at: at.isocalendar().year % 100,
        "V": lambda at: at.isocalendar().week,
        "U": lambda at: (at.timetuple().tm_yday + 6 - at.isoweekday() % 7) // 7,
        "W": lambda at: (at.timetuple().tm_yday + 6 - at.weekday()) // 7,
        "H": lambda at: at.hour,
        "k": lambda at: at.hour,
        "I": _dial,
        "l": _dial,
        "M": lambda at: at.minute,
        "S": lambda at: at.second,
    }
)
"""For each directive of a number, the number of a local time."""


def _filled(name: str, width: int, fill: str) -> Callable[[datetime], str]:
    number = _COUNTED[name]
    return lambda at: str(number(at)).rjust(width if fill else 0, fill or " ")


WRITTEN: Mapping[str, Callable[[datetime], str]] = MappingProxyType(
    {
        **{
            directive: _filled(name, width, fill) for directive, name, width, fill in number_forms()
        },
        "b": lambda at: MONTHS[at.month - 1][:SHORT],
        "B": lambda at: MONTHS[at.month - 1],
        "a": lambda at: WEEKDAYS[at.weekday()][:SHORT],
        "A": lambda at: WEEKDAYS[at.weekday()],
        "p": lambda at: "PM" if at.hour >= 12 else "AM",  # noqa: PLR2004 (noon)
        "P": lambda at: "pm" if at.hour >= 12 else "am",  # noqa: PLR2004
        "f": lambda at: f"{at.microsecond:06}",
        "3f": lambda at: f"{at.microsecond // 1000:03}",
        "6f": lambda at: f"{at.microsecond:06}",
        "9f": lambda at: f"{at.microsecond:06}000",
        ".f": _fraction,
        ".3f": lambda at: f".{at.microsecond // 1000:03}",
        ".6f": lambda at: f".{at.microsecond:06}",
        ".9f": lambda at: f".{at.microsecond:06}000",
        "z": lambda at: _offset(at, ""),
        ":z": lambda at: _offset(at, ":"),
        "::z": lambda at: _offset(at, ":", parts=3),
        ":::z": lambda at: _offset(at, "", parts=1),
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
