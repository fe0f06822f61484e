"""`dt.*` and `from_epoch` as Spark columns; instants are long microseconds."""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex._base import SECOND_US
from narthex._expr import (
    FIRST_US,
    LAST_US,
    MONTHS,
    SHORT,
    UNIT_US,
    WEEKDAYS,
    number_forms,
    pieces,
)
from narthex_spark_apps.expressions.calls import NotRenderedError, RenderedCall, Rendering
from narthex_spark_apps.expressions.numbers import integral_quotient

_EXACT = "decimal(20,0)"


def _with_year(instant: SparkColumn, value: SparkColumn) -> SparkColumn:
    return sf.when(instant.between(sf.lit(FIRST_US), sf.lit(LAST_US)), value)


def _part(compute: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    def render(call: RenderedCall) -> SparkColumn:
        instant = call.arguments[0]
        return _with_year(instant, compute(sf.timestamp_micros(instant)).cast("long"))

    return _in_utc(render)


def _micros(instant: SparkColumn) -> SparkColumn:
    return sf.pmod(instant, sf.lit(SECOND_US).cast("long"))


def _unit(call: RenderedCall) -> int:
    return UNIT_US[str(call.option("unit"))]


def _duration(call: RenderedCall) -> SparkColumn:
    return sf.lit(call.option("duration_us")).cast("long")


def _since(call: RenderedCall) -> SparkColumn:
    left, right = call.arguments
    unit = _unit(call)
    if unit == 1:
        return sf.try_subtract(left, right)
    # The distance of two instants may overflow a long; the number of units in it does not.
    span = left.cast(_EXACT) - right.cast(_EXACT)
    return integral_quotient(span, sf.lit(unit).cast(_EXACT))


def _since_epoch(call: RenderedCall) -> SparkColumn:
    instant, unit = call.arguments[0], _unit(call)
    return instant if unit == 1 else integral_quotient(instant, sf.lit(unit).cast("long"))


def _padded(number: SparkColumn, width: int, fill: str = "0") -> SparkColumn:
    return sf.lpad(number.cast("string"), width, fill)


def _named(names: Sequence[str], index: SparkColumn) -> SparkColumn:
    return sf.element_at(sf.array(*(sf.lit(name) for name in names)), index.cast("int"))


def _dial(at: SparkColumn) -> SparkColumn:
    return sf.pmod(sf.hour(at) + 11, sf.lit(12)) + 1


def _half(morning: str, evening: str) -> Callable[[SparkColumn], SparkColumn]:
    return lambda at: sf.when(sf.hour(at) < 12, sf.lit(morning)).otherwise(sf.lit(evening))  # noqa: PLR2004


def _isoweekday(at: SparkColumn) -> SparkColumn:
    return sf.weekday(at) + 1


def _week(at: SparkColumn, days: SparkColumn) -> SparkColumn:
    """Return the week of the year, from the days since the week began; 0 before the first."""
    return ((sf.dayofyear(at) + 6 - days) / 7).cast("int")


def _iso_year(at: SparkColumn) -> SparkColumn:
    return sf.extract(sf.lit("YEAROFWEEK"), at)


_COUNTED: Mapping[str, Callable[[SparkColumn], SparkColumn]] = {
    "Y": sf.year,
    "C": lambda at: (sf.year(at) / 100).cast("int"),
    "y": lambda at: sf.year(at) % 100,
    "m": sf.month,
    "d": sf.dayofmonth,
    "e": sf.dayofmonth,
    "j": sf.dayofyear,
    "u": _isoweekday,
    "w": lambda at: _isoweekday(at) % 7,
    "G": _iso_year,
    "g": lambda at: _iso_year(at) % 100,
    "V": sf.weekofyear,
    "U": lambda at: _week(at, _isoweekday(at) % 7),
    "W": lambda at: _week(at, sf.weekday(at)),
    "H": sf.hour,
    "k": sf.hour,
    "I": _dial,
    "l": _dial,
    "M": sf.minute,
    "S": sf.second,
}
"""For each directive of a number, the number of a timestamp."""


def _filled(name: str, width: int, fill: str) -> Callable[[SparkColumn], SparkColumn]:
    number = _COUNTED[name]
    if fill:
        return lambda at: _padded(number(at), width, fill)
    return lambda at: number(at).cast("string")


_CALENDAR: Mapping[str, Callable[[SparkColumn], SparkColumn]] = {
    **{directive: _filled(name, width, fill) for directive, name, width, fill in number_forms()},
    "b": lambda at: _named([name[:SHORT] for name in MONTHS], sf.month(at)),
    "B": lambda at: _named(MONTHS, sf.month(at)),
    "a": lambda at: _named([name[:SHORT] for name in WEEKDAYS], _isoweekday(at)),
    "A": lambda at: _named(WEEKDAYS, _isoweekday(at)),
    "p": _half("AM", "PM"),
    "P": _half("am", "pm"),
    "z": lambda _: sf.lit("+0000"),
    ":z": lambda _: sf.lit("+00:00"),
    "::z": lambda _: sf.lit("+00:00:00"),
    ":::z": lambda _: sf.lit("+00"),
    "Z": lambda _: sf.lit("UTC"),
}
"""The text that directives write for a timestamp."""


def _fraction(instant: SparkColumn) -> SparkColumn:
    """Return the point and three or six digits; nothing for a whole second."""
    micros = _micros(instant)
    return (
        sf.when(micros == 0, "")
        .when(micros % 1000 == 0, sf.concat(sf.lit("."), _padded(_millis(instant), 3)))
        .otherwise(sf.concat(sf.lit("."), _padded(micros, 6)))
    )


_CLOCK: Mapping[str, Callable[[SparkColumn], SparkColumn]] = {
    "f": lambda instant: _padded(_micros(instant), 6),
    "6f": lambda instant: _padded(_micros(instant), 6),
    "9f": lambda instant: sf.concat(_padded(_micros(instant), 6), sf.lit("000")),
    "3f": lambda instant: _padded(_millis(instant), 3),
    ".f": _fraction,
    ".9f": lambda instant: sf.concat(sf.lit("."), _padded(_micros(instant), 6), sf.lit("000")),
    ".6f": lambda instant: sf.concat(sf.lit("."), _padded(_micros(instant), 6)),
    ".3f": lambda instant: sf.concat(sf.lit("."), _padded(_millis(instant), 3)),
    "s": lambda instant: _seconds(instant).cast("string"),
}
"""The text that directives write for the microseconds of an instant."""


def _millis(instant: SparkColumn) -> SparkColumn:
    return integral_quotient(_micros(instant), sf.lit(1000).cast("long"))


def _seconds(instant: SparkColumn) -> SparkColumn:
    return integral_quotient(instant - _micros(instant), sf.lit(SECOND_US).cast("long"))


def _strftime(call: RenderedCall) -> SparkColumn:
    instant = call.arguments[0]
    at = sf.timestamp_micros(instant)
    written: list[SparkColumn] = []
    for piece in pieces(str(call.option("format"))):
        if isinstance(piece, str):
            written.append(sf.lit(piece))
        elif piece.name in _CLOCK:
            written.append(_CLOCK[piece.name](instant))
        else:
            written.append(_CALENDAR[piece.name](at))
    return _with_year(instant, sf.concat(*written) if written else sf.lit(""))


def _in_utc(rendering: Rendering) -> Rendering:
    """Make a rendering that refuses zones other than UTC: Java has its own copy of their rules."""

    def render(call: RenderedCall) -> SparkColumn:
        if call.option("timezone") is not None:
            raise NotRenderedError(f"`{call.call.function}` in a time zone")
        return rendering(call)

    return render


TIMES: Mapping[str, Rendering] = {
    "dt.year": _part(sf.year),
    "dt.month": _part(sf.month),
    "dt.week": _part(sf.weekofyear),
    "dt.day": _part(sf.dayofmonth),
    "dt.hour": _part(sf.hour),
    "dt.minute": _part(sf.minute),
    "dt.second": _part(sf.second),
    "dt.millisecond": _in_utc(
        lambda call: _with_year(call.arguments[0], _millis(call.arguments[0]))
    ),
    "dt.microsecond": _in_utc(
        lambda call: _with_year(call.arguments[0], _micros(call.arguments[0]))
    ),
    "dt.since": _since,
    "dt.since_epoch": _since_epoch,
    "dt.strftime": _in_utc(_strftime),
    "dt.add": lambda call: sf.try_add(call.arguments[0], _duration(call)),
    "dt.sub": lambda call: sf.try_subtract(call.arguments[0], _duration(call)),
    "from_epoch": lambda call: sf.try_multiply(call.arguments[0], sf.lit(_unit(call)).cast("long")),
}
