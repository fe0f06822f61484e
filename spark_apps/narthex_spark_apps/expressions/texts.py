"""`str.*` as Spark columns."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex._base import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from narthex._expr import MONTHS, NEWER, READ, SHORT, WEEK_PARTS, WEEKDAYS, Directive, pieces
from narthex_spark_apps.expressions.calls import NotRenderedError, RenderedCall, Rendering

_NEW = f"[{NEWER}]"


def quoted(literal: str) -> str:
    """Return a Java pattern that matches exactly this text."""
    return "".join(
        rf"\x{{{ord(character):x}}}" if not character.isalnum() else character
        for character in literal
    )


def _split(call: RenderedCall) -> SparkColumn:
    separator = call.option("sep")
    if not isinstance(separator, str) or not separator:
        raise NotRenderedError("`str.split` without a separator")
    return sf.split(call.arguments[0], quoted(separator), -1)


def _strptime(call: RenderedCall) -> SparkColumn:
    if call.option("timezone") is not None:
        raise NotRenderedError("`str.strptime` in a time zone")
    found = pieces(str(call.option("format")))
    pattern = "".join(
        quoted(piece) if isinstance(piece, str) else f"({READ[piece.name][1]})" for piece in found
    )
    names = [READ[piece.name][0] for piece in found if isinstance(piece, Directive)]
    if WEEK_PARTS.intersection(names):
        raise NotRenderedError("`str.strptime` of a day that is named by its week")
    text, whole = call.arguments[0], rf"\A{pattern}\z"
    parts = {name: sf.regexp_extract(text, whole, index + 1) for index, name in enumerate(names)}
    return sf.when(text.rlike(whole), _instant(parts))


def _number(parts: Mapping[str, SparkColumn], name: str) -> SparkColumn:
    return sf.trim(parts[name]).cast("int") if name in parts else sf.lit(0)


def _instant(parts: Mapping[str, SparkColumn]) -> SparkColumn:
    digits = sf.ltrim(parts["fraction"], sf.lit(".")) if "fraction" in parts else sf.lit("")
    fraction = sf.rpad(sf.substring(digits, 1, 6), 6, "0").cast("long")
    if "epoch" in parts:
        return sf.try_add(parts["epoch"].cast("long") * SECOND_US, fraction)
    day = sf.unix_date(_day(parts)).cast("long")
    hour, valid = _hour(parts)
    minute, second = _number(parts, "minute"), _number(parts, "second")
    # Minutes and seconds go up to 59: there are no leap seconds.
    valid = valid & (minute < 60) & (second < 60)  # noqa: PLR2004
    clock = day * DAY_US + hour.cast("long") * HOUR_US
    clock = clock + minute.cast("long") * MINUTE_US + second.cast("long") * SECOND_US + fraction
    weekday = _weekday(parts)
    if weekday is not None:
        valid = valid & (sf.pmod(day + 3, sf.lit(7)) + 1 == weekday)
    if "offset" in parts:
        offset, known = _offset(parts["offset"])
        clock, valid = clock - offset, valid & known
    return sf.when(valid, clock)


def _weekday(parts: Mapping[str, SparkColumn]) -> SparkColumn | None:
    """Return the number of a weekday, Monday's is 1; None without one."""
    if "weekday" in parts:
        return _place(WEEKDAYS, parts["weekday"])
    if "weekday_from_sunday" in parts:
        return sf.pmod(_number(parts, "weekday_from_sunday") + 6, sf.lit(7)) + 1
    return _number(parts, "iso_weekday") if "iso_weekday" in parts else None


def _place(names: Sequence[str], text: SparkColumn) -> SparkColumn:
    known = sf.array(*(sf.lit(name[:SHORT].lower()) for name in names))
    return sf.array_position(known, sf.lower(sf.substring(text, 1, SHORT)))


def _day(parts: Mapping[str, SparkColumn]) -> SparkColumn:
    year = _number(parts, "year")
    if "short_year" in parts:
        short = _number(parts, "short_year")
        year = short + sf.when(short >= 70, 1900).otherwise(2000)  # noqa: PLR2004 (as POSIX has it)
        if "century" in parts:
            year = 100 * _number(parts, "century") + short
    year = sf.when(year >= 1, year)
    if "day_of_year" in parts:
        nth = _number(parts, "day_of_year")
        day = sf.date_add(sf.make_date(year, sf.lit(1), sf.lit(1)), nth - 1)
        return sf.when((nth >= 1) & (sf.year(day) == year), day)
    month = _number(parts, "month") if "month" in parts else sf.lit(1)
    if "month_name" in parts:
        month = _place(MONTHS, parts["month_name"]).cast("int")
    return sf.make_date(year, month, _number(parts, "day") if "day" in parts else sf.lit(1))


def _hour(parts: Mapping[str, SparkColumn]) -> tuple[SparkColumn, SparkColumn]:
    if "hour12" not in parts:
        hour = _number(parts, "hour")
        return hour, hour < 24  # noqa: PLR2004
    dial = _number(parts, "hour12")
    evening = sf.when(sf.lower(parts["half"]) == "pm", 12).otherwise(0)
    return dial % 12 + evening, dial.between(1, 12)


def _offset(text: SparkColumn) -> tuple[SparkColumn, SparkColumn]:
    digits = sf.regexp_replace(text, "[^0-9]", "")
    digits = sf.rpad(digits, 4, "0")
    hours, minutes = (sf.substring(digits, at, 2).cast("int") for at in (1, 3))
    size = (hours.cast("long") * 60 + minutes.cast("long")) * MINUTE_US
    utc = text == "Z"
    signed = sf.when(utc, 0).when(text.startswith("-"), -size).otherwise(size)
    return signed, utc | ((hours < 24) & (minutes < 60))  # noqa: PLR2004


def _in_case(change: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    def render(call: RenderedCall) -> SparkColumn:
        text = call.arguments[0]
        runs = sf.regexp_extract_all(text, sf.lit(f"[{NEWER}]+|[^{NEWER}]+"), sf.lit(0))
        apart = sf.transform(runs, lambda run: sf.when(run.rlike(_NEW), run).otherwise(change(run)))
        return sf.when(text.rlike(_NEW), sf.array_join(apart, "")).otherwise(change(text))

    return render


TEXTS: Mapping[str, Rendering] = {
    "str.len": lambda call: sf.length(call.arguments[0]).cast("long"),
    "str.lower": _in_case(sf.lower),
    "str.upper": _in_case(sf.upper),
    "str.concat": lambda call: sf.concat(*call.arguments),
    "str.contains": lambda call: sf.contains(*call.arguments),
    "str.startswith": lambda call: sf.startswith(*call.arguments),
    "str.endswith": lambda call: sf.endswith(*call.arguments),
    "str.split": _split,
    "str.strptime": _strptime,
}
