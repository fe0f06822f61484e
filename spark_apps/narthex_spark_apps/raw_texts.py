"""Instants and days as sources write them, read by Spark: `narthex.raw_times` is the truth."""

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex.times import SECOND_US

ISO_TEXT = (
    r"\A([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?)"
    r"(?: ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?))?)?\z"
)
_MAIL = (
    r"(?i)\A(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?([0-9]{1,2})[ -]"
    r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[ -]([0-9]{4}) +"
    r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?: +(?:GMT|UTC|UT|Z|([+-][0-9]{4})))?\z"
)
_MAIL_FORMAT = "d MMM yyyy HH:mm[:ss]xx"
_DAY = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_BELOW_SECONDS, _BELOW_MILLIS, _BELOW_MICROS = 10**11, 10**14, 10**17
_TWO_63 = float(2**63)


def epoch_of_long(number: SparkColumn) -> SparkColumn:
    """Give `instant_of_epoch` of a long."""
    size = sf.abs(number)
    floored = sf.call_function("div", number - sf.pmod(number, sf.lit(1000)), sf.lit(1000))
    return (
        sf.when(size < _BELOW_SECONDS, number * SECOND_US)
        .when(size < _BELOW_MILLIS, number * 1000)
        .when(size < _BELOW_MICROS, number)
        .otherwise(floored)
    )


def epoch_of_whole(number: SparkColumn) -> SparkColumn:
    """Give `instant_of_epoch` of a wide decimal; null beyond 64 bits."""
    size = sf.abs(number)
    scaled = (
        sf.when(size < _BELOW_SECONDS, number * SECOND_US)
        .when(size < _BELOW_MILLIS, number * 1000)
        .when(size < _BELOW_MICROS, number)
        .otherwise(sf.floor(number / 1000))
    )
    return sf.when(scaled.between(-(2**63), 2**63 - 1), scaled.cast("long"))


def epoch_of_fraction(number: SparkColumn) -> SparkColumn:
    """Give `instant_of_epoch` of a double; null beyond 64 bits."""
    size = sf.abs(number)
    scaled = (
        sf.when(size < _BELOW_SECONDS, number * SECOND_US)
        .when(size < _BELOW_MILLIS, number * 1000)
        .when(size < _BELOW_MICROS, number)
        .otherwise(number / 1000)
    )
    # Nanoseconds are floored; beyond 53 bits a double is whole already.
    whole = sf.when(size < _BELOW_MICROS, sf.rint(scaled)).otherwise(sf.floor(scaled))
    return sf.when(sf.abs(scaled) < _TWO_63, whole.cast("long"))


def day_of_text(text: SparkColumn) -> SparkColumn:
    """Give the day that text such as 2013-12-31 names; null if it names none."""
    named = text.rlike(_DAY) & ~text.startswith("0000")
    return sf.when(named, sf.unix_date(text.cast("date")))


def instant_of_iso(text: SparkColumn) -> SparkColumn:
    """Give the instant that text of the form `ISO_TEXT` names; null if it names none."""
    # Spark reads the same form but for a comma, small letters and a space before the zone.
    plain = sf.regexp_replace(sf.translate(sf.upper(text), ",", "."), r" (?=[Z+-])", "")
    return sf.when(~text.startswith("0000"), sf.unix_micros(plain.cast("timestamp")))


def instant_of_mail(text: SparkColumn) -> SparkColumn:
    """Give the instant that RFC 2822 text names; null if it names none."""
    plain = sf.regexp_replace(sf.initcap(text), _MAIL, "$1 $2 $3 $4$5")
    zoned = sf.when(plain.rlike(r"[+-][0-9]{4}\z"), plain).otherwise(
        sf.concat(plain, sf.lit("+0000"))
    )
    named = sf.try_to_timestamp(zoned, sf.lit(_MAIL_FORMAT))
    return sf.when(text.rlike(_MAIL), sf.unix_micros(named))
