"""Instants and days as sources write them, read by Spark: `narthex.raw_times` is the truth."""

from collections.abc import Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex.times import DAY_US, HOUR_US, MINUTE_US, SECOND_US

_ISO = (
    r"\A([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"(?: ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?))?)?\z"
)
_MAIL = (
    r"(?i)\A(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?([0-9]{1,2})[ -]"
    r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[ -]([0-9]{4}) +"
    r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?: +(GMT|UTC|UT|Z|[+-][0-9]{4}))?\z"
)
_DAY = r"\A([0-9]{4})-([0-9]{2})-([0-9]{2})\z"
_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_BELOW_SECONDS, _BELOW_MILLIS, _BELOW_MICROS = 10**11, 10**14, 10**17
_TWO_63 = float(2**63)
_BEYOND = 1e25
_HOURS, _SIXTY = 24, 60


def epoch_instant(number: SparkColumn) -> SparkColumn:
    """Give `instant_of_epoch` of a wide decimal or a double; null beyond 64 bits."""
    size = sf.abs(number)
    nanos = sf.floor(number / 1000)
    scaled = (
        sf.when(size < _BELOW_SECONDS, number * SECOND_US)
        .when(size < _BELOW_MILLIS, number * 1000)
        .when(size < _BELOW_MICROS, number)
        .otherwise(nanos)
    )
    rounded = sf.rint(scaled.cast("double"))
    small = sf.abs(rounded) < 2.0**53
    # Beyond 53 bits only a whole number is exact, and that needs no rounding.
    whole = sf.when(small, rounded.cast("long")).otherwise(scaled.cast("long"))
    finite = sf.abs(number.cast("double")) < _BEYOND
    return sf.when(finite & (rounded >= -_TWO_63) & (rounded < _TWO_63), whole)


def instant_of_text(text: SparkColumn) -> SparkColumn:
    """Give the instant that ISO 8601 or RFC 2822 text names; null if it names none."""
    return sf.when(text.rlike(_ISO), _iso(text)).when(text.rlike(_MAIL), _mail(text))


def day_of_text(text: SparkColumn) -> SparkColumn:
    """Give the day that text such as 2013-12-31 names; null if it names none."""
    parts = _groups(text, _DAY, 3)
    return sf.when(text.rlike(_DAY), _days(parts[1], parts[2], parts[3]))


def _groups(text: SparkColumn, pattern: str, number: int) -> Mapping[int, SparkColumn]:
    return {index: sf.regexp_extract(text, pattern, index) for index in range(1, number + 1)}


def _days(year: SparkColumn, month: SparkColumn, day: SparkColumn) -> SparkColumn:
    date = sf.make_date(year.cast("int"), month.cast("int"), day.cast("int"))
    return sf.when(year.cast("int") >= 1, sf.unix_date(date))


def _iso(text: SparkColumn) -> SparkColumn:
    part = _groups(text, _ISO, 8)
    micros = sf.rpad(sf.substring(part[7], 1, 6), 6, "0").cast("long")
    days = _days(part[1], part[2], part[3]).cast("long")
    return _instant(days, (part[4], part[5], part[6]), micros, part[8])


def _mail(text: SparkColumn) -> SparkColumn:
    part = _groups(text, _MAIL, 7)
    month = _month(part[2])
    days = _days(part[3], month, part[1]).cast("long")
    return _instant(days, (part[4], part[5], part[6]), sf.lit(0).cast("long"), part[7])


def _month(name: SparkColumn) -> SparkColumn:
    place = sf.instr(sf.lit(_MONTHS), sf.lower(name))
    return ((place + 2) / 3).cast("int").cast("string")


def _number(text: SparkColumn) -> SparkColumn:
    return sf.coalesce(sf.when(text != "", text.cast("long")), sf.lit(0).cast("long"))


def _instant(
    days: SparkColumn,
    clock: tuple[SparkColumn, SparkColumn, SparkColumn],
    micros: SparkColumn,
    zone: SparkColumn,
) -> SparkColumn:
    hour, minute, second = (_number(part) for part in clock)
    valid = (hour < _HOURS) & (minute < _SIXTY) & (second < _SIXTY)
    local = days * DAY_US + hour * HOUR_US + minute * MINUTE_US + second * SECOND_US + micros
    digits = sf.regexp_replace(sf.substring(zone, 2, 6), ":", "")
    shift = _number(sf.substring(digits, 1, 2)) * 60 + _number(sf.substring(digits, 3, 2))
    signed = (
        sf.when(zone.startswith("+"), shift).when(zone.startswith("-"), -shift).otherwise(sf.lit(0))
    )
    inside = sf.abs(signed) < _HOURS * _SIXTY
    return sf.when(valid & inside, local - signed * MINUTE_US)
