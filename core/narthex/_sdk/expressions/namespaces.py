"""The methods of an expression by kind of value, such as `.num` and `.str`."""

from typing import Generic, NoReturn, Protocol, TypeVar

from narthex._base.times import DurationError, parse_duration
from narthex._expr.json_paths import PathError, parse_path
from narthex._expr.time_formats import (
    FormatError,
    check_read_format,
    check_written_format,
    expanded,
)
from narthex._expr.time_units import UNIT_US
from narthex._expr.time_zones import UnknownZoneError, zone
from narthex._ir.expression_nodes import LiteralValue
from narthex.errors import DurationInvalid, ExpressionInvalid

E_co = TypeVar("E_co", covariant=True)


class CallBuilder(Protocol[E_co]):
    """Applies a function to the expression before the dot."""

    def __call__(self, function: str, *operands: object, **options: LiteralValue) -> E_co:
        """Return the call as an expression."""


class ParseBuilder(Protocol[E_co]):
    """Applies `str.parse` to the expression before the dot."""

    def __call__(self, target: object, /) -> E_co:
        """Return the call as an expression."""


def _zone_option(timezone: str | None) -> dict[str, LiteralValue]:
    """Return the option for a time zone; none for UTC, which is the default."""
    if timezone in {None, "UTC"}:
        return {}
    try:
        zone(str(timezone))
    except UnknownZoneError as error:
        _refuse(f"timezone: {error}")
    return {"timezone": str(timezone)}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_precision(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_base(value: object) -> bool:
    return isinstance(value, int | float) and value > 0 and value != 1


def _refuse(message: str, hint: str = "") -> NoReturn:
    raise ExpressionInvalid(message, hint=hint)


class Numbers(Generic[E_co]):
    """Functions of numbers."""

    def __init__(self, call: CallBuilder[E_co]) -> None:
        self._call = call

    def abs(self) -> E_co:
        return self._call("num.abs")

    def round(self, precision: int = 0) -> E_co:
        """Round halves away from 0; return an int without a precision, otherwise a float."""
        if not _is_precision(precision):
            _refuse(f"`round` got the precision {precision!r}; it takes a whole number, 0 or more")
        return self._call("num.round", precision=precision)

    def ceil(self) -> E_co:
        return self._call("num.ceil")

    def floor(self) -> E_co:
        return self._call("num.floor")

    def sqrt(self) -> E_co:
        return self._call("num.sqrt")

    def log(self, base: float | None = None) -> E_co:
        """Take the logarithm; without a base, the natural one."""
        if base is None:
            return self._call("num.log")
        if not _is_base(base):
            _refuse(f"`log` got the base {base!r}; it takes a positive number other than 1")
        return self._call("num.log", base=float(base))

    def pow(self, exponent: object) -> E_co:
        return self._call("num.pow", exponent)

    def sin(self) -> E_co:
        return self._call("num.sin")

    def cos(self) -> E_co:
        return self._call("num.cos")

    def tan(self) -> E_co:
        return self._call("num.tan")

    def arcsin(self) -> E_co:
        return self._call("num.arcsin")

    def arccos(self) -> E_co:
        return self._call("num.arccos")

    def arctan(self) -> E_co:
        return self._call("num.arctan")

    def is_nan(self) -> E_co:
        return self._call("num.is_nan")

    def is_infinite(self) -> E_co:
        return self._call("num.is_infinite")

    def to_string(self) -> E_co:
        return self._call("num.to_string")


class Strings(Generic[E_co]):
    """Functions of text."""

    def __init__(self, call: CallBuilder[E_co], parse: ParseBuilder[E_co]) -> None:
        self._call = call
        self._parse = parse

    def len(self) -> E_co:
        return self._call("str.len")

    def lower(self) -> E_co:
        return self._call("str.lower")

    def upper(self) -> E_co:
        return self._call("str.upper")

    def concat(self, other: object) -> E_co:
        return self._call("str.concat", other)

    def contains(self, other: object) -> E_co:
        return self._call("str.contains", other)

    def startswith(self, other: object) -> E_co:
        return self._call("str.startswith", other)

    def endswith(self, other: object) -> E_co:
        return self._call("str.endswith", other)

    def split(self, sep: str) -> E_co:
        """Split at each separator, a constant."""
        if not _is_text(sep):
            _refuse(f"`split` got the separator {sep!r}; it takes text that is not empty")
        return self._call("str.split", sep=sep)

    def json_extract(self, path: str) -> E_co:
        """Return the value at a JSON path such as `$.user.names[0]` as text; null without one.

        A string is returned as it is, any other value as JSON.
        """
        if not _is_text(path):
            _refuse(f"`json_extract` got the path {path!r}; it takes text such as `$.name`")
        try:
            parse_path(path)
        except PathError as error:
            _refuse(f"`json_extract`: {error}")
        return self._call("str.json_extract", path=path)

    def strptime(self, format: str, timezone: str | None = "UTC") -> E_co:
        """Parse an instant; a wall-clock time without an offset is in the time zone."""
        try:
            check_read_format(format)
        except FormatError as error:
            _refuse(f"`strptime`: {error}")
        return self._call("str.strptime", format=expanded(format), **_zone_option(timezone))

    def parse(self, dtype: object) -> E_co:
        """Parse JSON as a value of the type."""
        return self._parse(dtype)


class Dates(Generic[E_co]):
    """Functions of instants; parts and texts are in a time zone, by default UTC."""

    def __init__(self, call: CallBuilder[E_co], timezone: str | None = None) -> None:
        self._call = call
        self._timezone = timezone

    def _part(self, name: str, timezone: str | None = None) -> E_co:
        return self._call(f"dt.{name}", **_zone_option(timezone or self._timezone))

    @property
    def year(self) -> E_co:
        return self._part("year")

    @property
    def month(self) -> E_co:
        return self._part("month")

    @property
    def week(self) -> E_co:
        return self._part("week")

    @property
    def day(self) -> E_co:
        return self._part("day")

    @property
    def hour(self) -> E_co:
        return self._part("hour")

    @property
    def minute(self) -> E_co:
        return self._part("minute")

    @property
    def second(self) -> E_co:
        return self._part("second")

    @property
    def millisecond(self) -> E_co:
        return self._part("millisecond")

    @property
    def microsecond(self) -> E_co:
        return self._part("microsecond")

    def parts(self, unit: str, timezone: str | None = None) -> E_co:
        """Return the part of that name."""
        name = str(unit).lower()
        if name not in {*UNIT_US, "month"}:
            _refuse(f"`parts` got the unit {unit!r}; it takes {', '.join([*UNIT_US, 'month'])}")
        return self._part(name, timezone)

    def with_tz(self, timezone: str) -> "Dates[E_co]":
        """Set the time zone of parts and texts."""
        _zone_option(timezone)
        return Dates(self._call, timezone)

    def since(self, other: object, unit: str = "second") -> E_co:
        """Count whole units since another instant, truncated toward zero."""
        return self._call("dt.since", other, unit=_unit("since", unit))

    def since_epoch(self, unit: str = "second") -> E_co:
        """Count whole units since 1970, truncated toward zero."""
        return self._call("dt.since_epoch", unit=_unit("since_epoch", unit))

    def strftime(self, format: str, timezone: str | None = None) -> E_co:
        """Format the instant."""
        try:
            check_written_format(format)
        except FormatError as error:
            _refuse(f"`strftime`: {error}")
        option = _zone_option(timezone or self._timezone)
        return self._call("dt.strftime", format=expanded(format), **option)

    def add(self, duration: str) -> E_co:
        """Return the instant a duration later."""
        return self._call("dt.add", duration_us=_duration(duration))

    def sub(self, duration: str) -> E_co:
        """Return the instant a duration earlier."""
        return self._call("dt.sub", duration_us=_duration(duration))


def _unit(function: str, unit: str) -> str:
    name = str(unit).lower()
    if name not in UNIT_US:
        _refuse(f"`{function}` got the unit {unit!r}; it takes {', '.join(UNIT_US)}")
    return name


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except DurationError as error:
        raise DurationInvalid(str(error)) from error


class Lists(Generic[E_co]):
    """Functions of lists."""

    def __init__(self, call: CallBuilder[E_co]) -> None:
        self._call = call

    def len(self) -> E_co:
        return self._call("list.len")

    def at(self, index: object) -> E_co:
        """Return the item at an index, from the end if negative; null if out of range."""
        return self._call("list.at", index)

    def contains(self, item: object) -> E_co:
        return self._call("list.contains", item)

    def hasnull(self) -> E_co:
        return self._call("list.hasnull")

    def sum(self) -> E_co:
        return self._call("list.sum")

    def min(self) -> E_co:
        return self._call("list.min")

    def max(self) -> E_co:
        return self._call("list.max")

    def mean(self) -> E_co:
        return self._call("list.mean")

    def all(self) -> E_co:
        return self._call("list.all")

    def any(self) -> E_co:
        return self._call("list.any")

    def filter(self, var: str, predicate: object) -> E_co:
        """Keep the items for which an expression of `var(...)` is true."""
        return self._bound("list.filter", var, predicate)

    def map(self, var: str, expr: object) -> E_co:
        """Return the value of an expression of `var(...)` for each item."""
        return self._bound("list.map", var, expr)

    def _bound(self, function: str, variable: str, body: object) -> E_co:
        if not _is_text(variable):
            name = function.removeprefix("list.")
            _refuse(f"`{name}` got the variable {variable!r}; it takes a name")
        return self._call(function, body, var=variable)


class Structs(Generic[E_co]):
    """Functions of structs."""

    def __init__(self, call: CallBuilder[E_co]) -> None:
        self._call = call

    def get(self, field: str) -> E_co:
        """Return the member of that name, a constant."""
        if not _is_text(field):
            _refuse(f"`struct.get` got {field!r}; it takes the name of a member")
        return self._call("struct.get", field=field)


class Dicts(Generic[E_co]):
    """Functions of dicts."""

    def __init__(self, call: CallBuilder[E_co]) -> None:
        self._call = call

    def get(self, key: object, default: object = None) -> E_co:
        """Return the entry of that key; without one, the default or null."""
        if default is None:
            return self._call("dict.get", key)
        return self._call("dict.get", key, default)

    def len(self) -> E_co:
        return self._call("dict.len")

    def contains(self, key: object) -> E_co:
        return self._call("dict.contains", key)
