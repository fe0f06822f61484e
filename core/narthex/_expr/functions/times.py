"""`dt.*`, `now` and `from_epoch`."""

from narthex._expr import type_rules
from narthex._expr.functions.definition import TOO_BIG, Function
from narthex._expr.type_rules import gives
from narthex._ir.types import Datetime, Int, Str

_PARTS = {
    "year": "The year",
    "month": "The month, 1 to 12",
    "week": "The ISO week of the year, 1 to 53",
    "day": "The day of the month",
    "hour": "The hour, 0 to 23",
    "minute": "The minute, 0 to 59",
    "second": "The second, 0 to 59",
    "millisecond": "The whole milliseconds of the second",
    "microsecond": "The microseconds of the second",
}
_BEYOND = "the instant is not within the years 1 to 9999"


def _part(name: str, promise: str) -> Function:
    zoned = '.with_tz("Asia/Kolkata")' if name == "hour" else ""
    return Function(
        name=f"dt.{name}",
        arguments=(1, 1),
        rule=type_rules.in_zone(gives(Int(), (Datetime,))),
        form=f"t.dt.{name}",
        promise=promise,
        example=f'col("t").dt{zoned}.{name}',
        undefined=_BEYOND,
        options=("timezone",),
    )


def times() -> tuple[Function, ...]:
    """Return the functions on instants."""
    return (
        *(_part(name, promise) for name, promise in _PARTS.items()),
        Function(
            name="dt.since",
            arguments=(2, 2),
            rule=gives(Int(), (Datetime,), (Datetime,)),
            form='t.dt.since(other, unit="second")',
            promise="Whole units from the other instant on, cut toward 0; a year has 365 days",
            example='col("t").dt.since(datetime(2013, 1, 1), unit="day")',
            undefined=TOO_BIG,
            options=("unit",),
        ),
        Function(
            name="dt.since_epoch",
            arguments=(1, 1),
            rule=gives(Int(), (Datetime,)),
            form='t.dt.since_epoch(unit="second")',
            promise="Whole units from 1970 on, cut toward 0; a year has 365 days",
            example='col("t").dt.since_epoch(unit="year")',
            options=("unit",),
        ),
        Function(
            name="dt.strftime",
            arguments=(1, 1),
            rule=type_rules.in_zone(gives(Str(), (Datetime,))),
            form="t.dt.strftime(format, timezone=None)",
            promise="The instant in that format, as clocks of the zone show it",
            example='col("t").dt.with_tz("America/New_York").strftime("%a %e %b %Y, %H:%M %Z")',
            undefined=_BEYOND,
            options=("format", "timezone"),
        ),
        Function(
            name="dt.add",
            arguments=(1, 1),
            rule=gives(Datetime(), (Datetime,)),
            form="t.dt.add(duration)",
            promise="The instant a duration later; a day is 24 hours",
            example='col("t").dt.add("1d 12h")',
            undefined=TOO_BIG,
            options=("duration_us",),
        ),
        Function(
            name="dt.sub",
            arguments=(1, 1),
            rule=gives(Datetime(), (Datetime,)),
            form="t.dt.sub(duration)",
            promise="The instant a duration earlier; a day is 24 hours",
            example='col("t").dt.sub("90m")',
            undefined=TOO_BIG,
            options=("duration_us",),
        ),
        Function(
            name="now",
            arguments=(0, 0),
            rule=gives(Datetime()),
            form="now()",
            promise="The instant of the question; in a pipeline, the row's event time",
            example="now()",
        ),
        Function(
            name="from_epoch",
            arguments=(1, 1),
            rule=gives(Datetime(), (Int,)),
            form="from_epoch(a, unit)",
            promise="The instant that many units after 1970-01-01T00:00Z",
            example='from_epoch(lit(1_700_000_000), unit="second")',
            undefined=TOO_BIG,
            options=("unit",),
        ),
    )
