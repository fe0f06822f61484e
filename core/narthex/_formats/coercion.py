"""The type check where rows enter: raw values become cells of their column's type, or are refused.

Values are not coerced after ingestion. Numbers may come as text; a float for an int must be whole;
an instant may be a Unix time in any unit or a text; NaN counts as null. Restrictions (between,
oneof, regex) are enforced only here. Undeclared columns are ignored.
"""

import base64
import binascii
import decimal
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import TypeAlias

import attrs
from typing_extensions import override

from narthex._base.patterns import matches
from narthex._base.times import FIRST_DAY, FIRST_INSTANT, LAST_DAY, LAST_INSTANT, to_micros
from narthex._formats.json_cells import parse_cell, render_cell
from narthex._formats.raw_times import (
    EPOCH_ORDINAL,
    NoInstantError,
    instant_of_epoch,
    parse_day,
    parse_instant,
)
from narthex._ir.facts import Cell
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    Between,
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Members,
    Null,
    OneOf,
    Optional,
    Regex,
    Restricted,
    Str,
    Struct,
    TypeMapper,
)

__all__ = [
    "Mistake",
    "MistypedError",
    "Raw",
    "coerce",
    "coerce_row",
    "coercion",
    "parse_cell",
    "render_cell",
]

Raw: TypeAlias = object
"""A raw value: any JSON value; also bytes, decimals, dates and datetimes."""

Coercion: TypeAlias = Callable[[Raw], Cell]
"""Returns a raw value as a cell of one type; raises MistypedError."""

_INT = re.compile(r"\s*[+-]?[0-9]+(\.0*)?\s*")
_FLOAT = re.compile(
    r"\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|infinity|nan)\s*", re.IGNORECASE
)
_BOOLS = MappingProxyType({"true": True, "false": False, "1": True, "0": False})
_INT_LIMIT = 2**63
_DECIMAL_LIMIT = 10**28
_EXACT_DIGITS = 400
_EXACT = decimal.Context(
    prec=_EXACT_DIGITS, traps=[decimal.InvalidOperation, decimal.Inexact, decimal.Overflow]
)
_LONGEST_INT = 400
"""The greatest number of characters of an int that is parsed: 64 bits need twenty."""


class MistypedError(ValueError):
    """A value that cannot be of the type; the message names first what was found, then the type."""


@attrs.frozen(kw_only=True)
class Mistake:
    """The reason why one column of a row is refused."""

    column: str
    reason: str

    @override
    def __str__(self) -> str:
        return f"`{self.column}`: {self.reason}"


def coerce_row(
    row: Mapping[str, Raw], schema: Mapping[str, DataType]
) -> dict[str, Cell] | tuple[Mistake, ...]:
    """Return the cells of a row, or every reason why it does not fit the schema.

    A missing column is null.
    """
    cells: dict[str, Cell] = {}
    mistakes: list[Mistake] = []
    for column, of in schema.items():
        try:
            cells[column] = coerce(row.get(column), of)
        except MistypedError as error:
            mistakes.append(Mistake(column=column, reason=str(error)))
    return tuple(mistakes) if mistakes else cells


def coerce(value: Raw, of: DataType) -> Cell:
    """Return a raw value as a cell of a type.

    Raises:
        MistypedError: It cannot be a value of that type.
    """
    return coercion(of)(value)


def coercion(of: DataType) -> Coercion:
    """Return `coerce` to one type, prepared for many values."""
    return _COERCIONS(of)


def _required(
    dtype: DataType, accept: Coercion, exact: Callable[[Raw], Cell] | None = None
) -> Coercion:
    """Make a coercion that refuses null.

    Args:
        dtype: The type, for messages.
        accept: The coercion of other values.
        exact: Returns a value that already is a cell of the type, else None; most values are.
    """

    def to_cell(value: Raw) -> Cell:
        if exact is not None and (cell := exact(value)) is not None:
            return cell
        if _is_null(value):
            raise MistypedError(f"found null; the column is `{type_name(dtype)}`, not Optional")
        return accept(value)

    return to_cell


def _optional(_: Optional, required: Coercion) -> Coercion:
    return lambda value: None if _is_null(value) else required(value)


def _exact_int(value: Raw) -> Cell:
    return value if type(value) is int and -_INT_LIMIT <= value < _INT_LIMIT else None


def _exact_float(value: Raw) -> Cell:
    return value if type(value) is float and not math.isnan(value) else None


def _exact_str(value: Raw) -> Cell:
    return value if type(value) is str and value.isascii() else None


def _exact_bool(value: Raw) -> Cell:
    return value if type(value) is bool else None


def _is_null(value: Raw) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _refused(value: Raw, of: DataType) -> MistypedError:
    return MistypedError(f"found {_shown(repr(value))}; the column is `{type_name(of)}`")


def _shown(value: object) -> str:
    """Render a value on one line."""
    shown = str(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."  # noqa: PLR2004 (what fits a line)


def _restricted(dtype: Restricted, base: Coercion) -> Coercion:
    def accept(value: Raw) -> Cell:
        cell = base(value)
        match dtype, cell:
            case Between(), int() | float():
                _hold_between(cell, dtype)
            case OneOf(options=options), int() | str() if cell not in options:
                raise _refused(cell, dtype)
            case Regex(pattern=pattern), str() if not matches(pattern, cell):
                raise _refused(cell, dtype)
            case _:
                pass
        return cell

    return _required(dtype, accept)


def _hold_between(cell: float, of: Between) -> None:
    above = cell > of.min if of.strict_min else cell >= of.min
    below = cell < of.max if of.strict_max else cell <= of.max
    if not (above and below):
        signs = f"{'<' if of.strict_min else '<='} x {'<' if of.strict_max else '<='}"
        raise MistypedError(f"found {cell!r}; the column holds {of.min} {signs} {of.max}")


def _int(value: Raw) -> Cell:
    match value:
        case bool():
            raise _refused(value, Int())
        case int():
            whole = value
        case float() if value.is_integer():
            whole = int(value)
        case str() if len(value) <= _LONGEST_INT and _INT.fullmatch(value):
            whole = int(value.split(".", maxsplit=1)[0])
        case decimal.Decimal() if value.is_finite() and value == value.to_integral_value():
            whole = int(value)
        case _:
            raise _refused(value, Int())
    if not -_INT_LIMIT <= whole < _INT_LIMIT:
        raise MistypedError(f"found {whole}; an int has 64 bits")
    return whole


def _float(value: Raw) -> Cell:
    match value:
        case bool():
            raise _refused(value, Float())
        case int() | float() | decimal.Decimal():
            return _double(value)
        case str() if _FLOAT.fullmatch(value):
            return _double(float(value))
        case _:
            raise _refused(value, Float())


def _double(value: float | decimal.Decimal) -> float:
    try:
        number = float(value)
    except (OverflowError, ValueError) as error:
        raise _refused(value, Float()) from error
    if math.isnan(number):
        raise _refused(value, Float())
    return number


def _bool(value: Raw) -> Cell:
    match value:
        case bool():
            return value
        case int() | float() if value in {0, 1}:
            return bool(value)
        case str() if value.strip().lower() in _BOOLS:
            return _BOOLS[value.strip().lower()]
        case _:
            raise _refused(value, Bool())


def _str(value: Raw) -> Cell:
    if not isinstance(value, str):
        raise _refused(value, Str())
    return _text(value)


def _text(value: str) -> str:
    """Return a text that UTF-8 can encode; refuse half characters."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise MistypedError(
            f"found {value!r}, which has half a character (a lone surrogate)"
        ) from error
    return value


def _bytes(value: Raw) -> Cell:
    match value:
        case bytes() | bytearray():
            return bytes(value)
        case str():
            try:
                return base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError) as error:
                raise MistypedError(f"found {_shown(repr(value))}, which is not base64") from error
        case _:
            raise _refused(value, Bytes())


def _datetime(value: Raw) -> Cell:
    try:
        match value:
            case bool():
                raise _refused(value, Datetime())
            case int() | float():
                return _known(instant_of_epoch(value))
            case str() if _FLOAT.fullmatch(value):
                whole = _INT.fullmatch(value) is not None
                return _known(instant_of_epoch(_digits(value) if whole else float(value)))
            case str():
                return _known(parse_instant(value.strip()))
            case datetime():
                return _known(to_micros(value))
            case date():
                return _known(parse_instant(value.isoformat()))
            case _:
                raise _refused(value, Datetime())
    except (NoInstantError, OverflowError, ValueError) as error:
        raise MistypedError(f"{error}") from error


def _digits(text: str) -> int:
    return int(text.split(".", maxsplit=1)[0])


def _known(instant: int) -> int:
    if not FIRST_INSTANT <= instant <= LAST_INSTANT:
        raise MistypedError(
            f"found {instant} microseconds since 1970; an instant is of the years 1 to 9999"
        )
    return instant


def _date(value: Raw) -> Cell:
    try:
        match value:
            case bool() | datetime():
                raise _refused(value, Date())
            case int() if FIRST_DAY <= value <= LAST_DAY:
                return value
            case int():
                raise MistypedError(
                    f"found day {value} since 1970; a day is of the years 1 to 9999"
                )
            case str():
                return parse_day(value.strip())
            case date():
                return value.toordinal() - EPOCH_ORDINAL
            case _:
                raise _refused(value, Date())
    except NoInstantError as error:
        raise MistypedError(str(error)) from error


def _decimal(dtype: Decimal) -> Coercion:
    def accept(value: Raw) -> Cell:
        match value:
            case bool():
                raise _refused(value, dtype)
            case float() if math.isfinite(value):
                number = decimal.Decimal(repr(value))
            case int() | decimal.Decimal():
                number = decimal.Decimal(value)
            case str() if _FLOAT.fullmatch(value):
                number = decimal.Decimal(value.strip())
            case _:
                raise _refused(value, dtype)
        return _unscaled(number, dtype)

    return _required(dtype, accept)


def _unscaled(number: decimal.Decimal, dtype: Decimal) -> int:
    if not number.is_finite():
        raise _refused(number, dtype)
    if number and number.adjusted() > 28:  # noqa: PLR2004 (the digits of a decimal)
        raise MistypedError(f"found {_shown(number)}; a decimal has 28 digits")
    try:
        unscaled = number.scaleb(dtype.scale, context=_EXACT)
    except decimal.DecimalException:
        unscaled = decimal.Decimal("0.5")  # it has too many digits for an exact result
    if unscaled != unscaled.to_integral_value():
        raise MistypedError(
            f"found {_shown(number)}; the column has {dtype.scale} digits after the point"
        )
    if abs(unscaled) >= _DECIMAL_LIMIT:
        raise MistypedError(f"found {_shown(number)}; a decimal has 28 digits")
    return int(unscaled)


def _list(dtype: List | Embedding, item: Coercion) -> Coercion:
    size = dtype.size if isinstance(dtype, Embedding) else None

    def accept(value: Raw) -> Cell:
        if not isinstance(value, list | tuple):
            raise _refused(value, dtype)
        if size is not None and len(value) != size:
            raise MistypedError(f"found {len(value)} numbers; the column is `{type_name(dtype)}`")
        cells: list[Cell] = []
        try:
            for member in value:
                cells.append(item(member))  # noqa: PERF401 (their number is needed on an error)
        except MistypedError as error:
            raise MistypedError(f"item {len(cells)}: {error}") from error
        return tuple(cells)

    return _required(dtype, accept)


def _map(dtype: Map, entry: Coercion) -> Coercion:
    def accept(value: Raw) -> Cell:
        if not isinstance(value, dict):
            raise _refused(value, dtype)
        for key in value:
            if not isinstance(key, str):
                raise MistypedError(f"found the key {key!r}; keys of a dict are text")
            _text(key)
        return {key: _part("entry", key, member, entry) for key, member in value.items()}

    return _required(dtype, accept)


def _struct(dtype: Struct, members: Members[Coercion]) -> Coercion:
    coercions = tuple(members.items())

    def accept(value: Raw) -> Cell:
        if not isinstance(value, dict):
            raise _refused(value, dtype)
        return {name: _part("member", name, value.get(name), part) for name, part in coercions}

    return _required(dtype, accept)


def _part(kind: str, name: str, value: Raw, part: Coercion) -> Cell:
    try:
        return part(value)
    except MistypedError as error:
        raise MistypedError(f"{kind} `{name}`: {error}") from error


def _refuse(value: Raw) -> Cell:
    raise _refused(value, Null())


_COERCIONS: TypeMapper[Coercion] = TypeMapper(
    int=_required(Int(), _int, _exact_int),
    float=_required(Float(), _float, _exact_float),
    bool=_required(Bool(), _bool, _exact_bool),
    str=_required(Str(), _str, _exact_str),
    bytes=_required(Bytes(), _bytes),
    datetime=_required(Datetime(), _datetime),
    date=_required(Date(), _date),
    decimal=_decimal,
    list=_list,
    map=_map,
    embedding=_list,
    struct=_struct,
    optional=_optional,
    null=lambda: _required(Null(), _refuse),
    restricted=_restricted,
)
