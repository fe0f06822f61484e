"""Time zones, by the one copy of their rules that all processes share."""

import functools
from datetime import UTC, datetime, tzinfo
from importlib import resources
from zoneinfo import ZoneInfo

from narthex._base.times import from_micros, to_micros

FIRST_US = to_micros(datetime(1, 1, 1, tzinfo=UTC))
LAST_US = to_micros(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
"""The first and last instant with a year: those of the calendar years 1 to 9999, UTC."""


class UnknownZoneError(ValueError):
    """A name that is not a time zone."""


@functools.cache
def zone(name: str) -> tzinfo:
    """Return a time zone of the IANA database, by the rules of the package `tzdata`.

    The machine's own rules are not used: two machines could have different ones.

    Raises:
        UnknownZoneError: The name is not a time zone.
    """
    if name == "UTC":
        return UTC
    if name not in zone_names():
        raise UnknownZoneError(
            f"`{name}` is not a time zone; use an IANA name such as `Europe/Paris`"
        )
    rules = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with rules.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@functools.cache
def zone_names() -> frozenset[str]:
    """Return the names of all time zones."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("utf-8").split())


def has_year(instant: int) -> bool:
    """Return whether an instant is within the calendar years 1 to 9999."""
    return FIRST_US <= instant <= LAST_US


def wall_clock(instant: int, timezone: str) -> datetime | None:
    """Return the local date and time in a zone; None outside the years 1 to 9999."""
    if not has_year(instant):
        return None
    try:
        return from_micros(instant).astimezone(zone(timezone))
    except OverflowError:
        return None


def instant_of(clock: datetime, timezone: str) -> int | None:
    """Return the instant of a local time in a zone; None if the zone skips this time.

    If the local time occurs twice, return the first instant.
    """
    aware = clock.replace(tzinfo=zone(timezone), fold=0)
    try:
        shown = aware.astimezone(UTC).astimezone(aware.tzinfo).replace(tzinfo=None, fold=0)
    except OverflowError:
        return None
    return to_micros(aware) if shown == clock.replace(tzinfo=None, fold=0) else None
