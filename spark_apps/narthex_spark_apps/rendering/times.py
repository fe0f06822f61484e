"""`dt.*` and `from_epoch` as Spark columns; instants are long microseconds."""

import re
from collections.abc import Callable, Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex.expr.instants import FIRST_US, LAST_US, UNIT_US, expanded
from narthex.times import SECOND_US
from narthex_spark_apps.rendering.calls import Rendered, Rendering
from narthex_spark_apps.rendering.numbers import integral_quotient

_EXACT = "decimal(20,0)"


def _with_year(instant: SparkColumn, value: SparkColumn) -> SparkColumn:
    return sf.when(instant.between(sf.lit(FIRST_US), sf.lit(LAST_US)), value)


def _part(compute: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    def render(call: Rendered) -> SparkColumn:
        instant = call.arguments[0]
        return _with_year(instant, compute(sf.timestamp_micros(instant)).cast("long"))

    return render


def _micros(instant: SparkColumn) -> SparkColumn:
    return sf.pmod(instant, sf.lit(SECOND_US).cast("long"))


def _unit(call: Rendered) -> int:
    return UNIT_US[str(call.option("unit"))]


def _duration(call: Rendered) -> SparkColumn:
    return sf.lit(call.option("duration_us")).cast("long")


def _since(call: Rendered) -> SparkColumn:
    left, right = call.arguments
    unit = _unit(call)
    if unit == 1:
        return sf.try_subtract(left, right)
    # Two instants may lie further apart than a long can say; the units between them do not.
    span = left.cast(_EXACT) - right.cast(_EXACT)
    return integral_quotient(span, sf.lit(unit).cast(_EXACT))


def _since_epoch(call: Rendered) -> SparkColumn:
    instant, unit = call.arguments[0], _unit(call)
    return instant if unit == 1 else integral_quotient(instant, sf.lit(unit).cast("long"))


def _strftime(call: Rendered) -> SparkColumn:
    instant = call.arguments[0]
    at = sf.timestamp_micros(instant)
    written: dict[str, tuple[SparkColumn, int]] = {
        "Y": (sf.year(at), 4),
        "m": (sf.month(at), 2),
        "d": (sf.dayofmonth(at), 2),
        "H": (sf.hour(at), 2),
        "M": (sf.minute(at), 2),
        "S": (sf.second(at), 2),
        "f": (_micros(instant), 6),
        "j": (sf.dayofyear(at), 3),
    }
    pieces: list[SparkColumn] = []
    for piece in re.split(r"(%.)", expanded(str(call.option("format")))):
        if piece[:1] == "%" and piece[1:] in written:
            number, width = written[piece[1]]
            pieces.append(sf.lpad(number.cast("string"), width, "0"))
        else:
            pieces.append(sf.lit("%" if piece == "%%" else piece))
    return _with_year(instant, sf.concat(*pieces))


TIMES: Mapping[str, Rendering] = {
    "dt.year": _part(sf.year),
    "dt.month": _part(sf.month),
    "dt.week": _part(sf.weekofyear),
    "dt.day": _part(sf.dayofmonth),
    "dt.hour": _part(sf.hour),
    "dt.minute": _part(sf.minute),
    "dt.second": _part(sf.second),
    "dt.millisecond": lambda call: _with_year(
        call.arguments[0],
        integral_quotient(_micros(call.arguments[0]), sf.lit(1000).cast("long")),
    ),
    "dt.microsecond": lambda call: _with_year(call.arguments[0], _micros(call.arguments[0])),
    "dt.since": _since,
    "dt.since_epoch": _since_epoch,
    "dt.strftime": _strftime,
    "dt.add": lambda call: sf.try_add(call.arguments[0], _duration(call)),
    "dt.sub": lambda call: sf.try_subtract(call.arguments[0], _duration(call)),
    "from_epoch": lambda call: sf.try_multiply(call.arguments[0], sf.lit(_unit(call)).cast("long")),
}
