"""Instants in expressions: units, and formats that every engine reads and writes alike."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from narthex.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US, from_micros, to_micros

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

FIRST_US = to_micros(datetime(1, 1, 1, tzinfo=UTC))
LAST_US = to_micros(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
"""The instants that have a year: those of the calendar years 1 to 9999."""

_READ = {
    "Y": r"(?P<Y>[0-9]{4})",
    "m": r"(?P<m>[0-9]{2})",
    "d": r"(?P<d>[0-9]{2})",
    "H": r"(?P<H>[0-9]{2})",
    "M": r"(?P<M>[0-9]{2})",
    "S": r"(?P<S>[0-9]{2})",
    "f": r"(?P<f>[0-9]{6})",
    "%": "%",
}
_WRITTEN = frozenset("YmdHMSfj%")
_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S"}
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)


class FormatError(ValueError):
    """A format with a directive that it cannot have, or a text that is not of the format."""


def expanded(format_text: str) -> str:
    """Give a format with `%F` and `%T` written out."""
    return _DIRECTIVE.sub(lambda found: _SHORT.get(found[1], found[0]), format_text)


def check_read_format(format_text: str) -> None:
    """Check a format of `strptime`.

    Raises:
        FormatError: A directive other than %Y %m %d %H %M %S %f %F %T %%, one twice, or no date.
    """
    directives = _DIRECTIVE.findall(expanded(format_text))
    _refuse_unknown(directives, frozenset(_READ))
    named = [directive for directive in directives if directive != "%"]
    if len(named) != len(set(named)):
        raise FormatError(f"`{format_text}` says a part twice")
    if not {"Y", "m", "d"} <= set(named):
        raise FormatError(f"`{format_text}` names no day; it needs %Y, %m and %d")


def check_written_format(format_text: str) -> None:
    """Check a format of `strftime`.

    Raises:
        FormatError: A directive other than %Y %m %d %H %M %S %f %j %F %T %%.
    """
    _refuse_unknown(_DIRECTIVE.findall(expanded(format_text)), _WRITTEN)


def _refuse_unknown(directives: list[str], known: frozenset[str]) -> None:
    for directive in directives:
        if directive not in known:
            names = " ".join(f"%{one}" for one in sorted(known))
            raise FormatError(f"directive `%{directive}`; these stand in a format: {names} %F %T")


def parse_formatted(text: str, format_text: str) -> int:
    """Read an instant, UTC, in microseconds; every part stands in full width.

    Raises:
        FormatError: The text is not of that format, or names no instant.
    """
    pieces = re.split(r"(%.)", expanded(format_text))
    pattern = "".join(
        _READ[piece[1]] if piece.startswith("%") and len(piece) > 1 else re.escape(piece)
        for piece in pieces
    )
    found = re.fullmatch(pattern, text)
    if found is None:
        raise FormatError(f"`{text}` is not of the format `{format_text}`")
    part = {name: int(digits) for name, digits in found.groupdict().items()}
    clock = (part.get("H", 0), part.get("M", 0), part.get("S", 0), part.get("f", 0))
    try:
        return to_micros(datetime(part["Y"], part["m"], part["d"], *clock, tzinfo=UTC))
    except ValueError as error:
        raise FormatError(f"`{text}`: {error}") from error


def has_year(instant: int) -> bool:
    """Whether an instant is within the calendar years 1 to 9999."""
    return FIRST_US <= instant <= LAST_US


def render_formatted(instant: int, format_text: str) -> str:
    """Write an instant that has a year in a format, UTC."""
    at = from_micros(instant)
    written = {
        "Y": f"{at.year:04}",
        "m": f"{at.month:02}",
        "d": f"{at.day:02}",
        "H": f"{at.hour:02}",
        "M": f"{at.minute:02}",
        "S": f"{at.second:02}",
        "f": f"{at.microsecond:06}",
        "j": f"{at.timetuple().tm_yday:03}",
        "%": "%",
    }
    return _DIRECTIVE.sub(lambda found: written[found[1]], expanded(format_text))


def whole_units(span_us: int, unit: str) -> int:
    """Give how many whole units a span has, cut toward zero."""
    count = abs(span_us) // UNIT_US[unit]
    return count if span_us >= 0 else -count
