"""Arithmetic, comparison and `num.*` as Spark columns."""

import functools
import math
import operator
from collections.abc import Callable, Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex._ir import (
    DataType,
    Decimal,
    Float,
    Int,
    Literal,
    Members,
    Null,
    Str,
    Struct,
    TypeMapper,
    inner,
)
from narthex_spark_apps.expressions.calls import NotRenderedError, RenderedCall, Rendering, no_nan

INT_MIN = -(2**63)
TWO_63 = float(2**63)
_WHOLE_FLOATS = float(2**53)
_LARGEST_POWER = 16
_PLAIN_SCALE = 6
"""Up to this many digits after the point, Java writes a decimal without an exponent."""
_EXACT_SCALE = 6
"""Up to this many digits after the point, Spark keeps all digits of a product."""


def integral_quotient(left: SparkColumn, right: SparkColumn) -> SparkColumn:
    """Divide whole numbers, truncated toward zero; null for a division by zero."""
    return sf.call_function("div", left, right)


def _arithmetic(
    exact: Callable[[SparkColumn, SparkColumn], SparkColumn],
    rounded: Callable[[SparkColumn, SparkColumn], SparkColumn],
) -> Rendering:
    def render(call: RenderedCall) -> SparkColumn:
        left, right = call.arguments
        match inner(call.result):
            case Str():
                return sf.concat(left, right)
            case Decimal() | Float():
                if isinstance(inner(call.result), Float):
                    return no_nan(rounded(call.as_double(0), call.as_double(1)))
                return rounded(left, right)
            case Null():
                return sf.lit(None)
            case _:
                return exact(left, right)

    return render


def _mul(call: RenderedCall) -> SparkColumn:
    result = inner(call.result)
    if isinstance(result, Decimal):
        if result.scale > _EXACT_SCALE:
            raise NotRenderedError(f"a product with {result.scale} digits after the point")
        return _as_decimal(call, 0) * _as_decimal(call, 1)
    return _arithmetic(sf.try_multiply, operator.mul)(call)


def _as_decimal(call: RenderedCall, index: int) -> SparkColumn:
    column = call.arguments[index]
    return column if isinstance(call.plain(index), Decimal) else column.cast("decimal(19,0)")


def _negative(column: SparkColumn) -> SparkColumn:
    # Only the text distinguishes -0.0 from 0.0, which compare equal.
    return column.cast("string").startswith("-")


def quotient(left: SparkColumn, right: SparkColumn) -> SparkColumn:
    """Divide doubles as IEEE-754 does; null for 0 / 0."""
    infinite = sf.when(_negative(left) == _negative(right), sf.lit(math.inf)).otherwise(
        sf.lit(-math.inf)
    )
    by_zero = sf.when((left != 0) & ~sf.isnan(left), infinite)
    return sf.when(right == 0, by_zero).otherwise(no_nan(left / right))


def _floordiv(call: RenderedCall) -> SparkColumn:
    if isinstance(inner(call.result), Float):
        return _float_floordiv(call.as_double(0), call.as_double(1))
    if any(isinstance(call.plain(index), Decimal) for index in (0, 1)):
        raise NotRenderedError("`//` of decimals")
    left, right = call.arguments
    cut, rest = integral_quotient(left, right), left % right
    floor = sf.when((rest != 0) & ((rest < 0) != (right < 0)), cut - 1).otherwise(cut)
    return sf.when((left != sf.lit(INT_MIN)) | (right != -1), floor)


def _float_floordiv(left: SparkColumn, right: SparkColumn) -> SparkColumn:
    divided = no_nan(left / right)
    whole = sf.abs(divided) >= _WHOLE_FLOATS
    floor = sf.when(whole | (divided == 0), divided).otherwise(sf.floor(divided).cast("double"))
    return sf.when(right != 0, floor)


def _mod(call: RenderedCall) -> SparkColumn:
    floats = isinstance(inner(call.result), Float)
    left, right = (call.as_double(0), call.as_double(1)) if floats else call.arguments
    rest = left % right
    signed = sf.when((rest != 0) & ((rest < 0) != (right < 0)), rest + right).otherwise(rest)
    return sf.when(right != 0, no_nan(signed) if floats else signed)


def _struct_has_map(_: Struct, members: Members[bool]) -> bool:
    return any(members.values())


_HAS_MAP: TypeMapper[bool] = TypeMapper(
    int=False,
    float=False,
    bool=False,
    str=False,
    bytes=False,
    datetime=False,
    date=False,
    decimal=lambda _: False,
    list=lambda _, item: item,
    map=lambda _, __: True,
    embedding=lambda _, __: False,
    struct=_struct_has_map,
    null=lambda: False,
)


def comparable(*types: DataType) -> None:
    """Refuse types that Spark cannot compare.

    Raises:
        NotRenderedError: A type is a map, or contains maps.
    """
    if any(map(_HAS_MAP, types)):
        raise NotRenderedError("comparison of maps")


def _compared(holds: Callable[[SparkColumn, SparkColumn], SparkColumn]) -> Rendering:
    def render(call: RenderedCall) -> SparkColumn:
        comparable(call.plain(0), call.plain(1))
        return holds(*call.arguments)

    return render


def _is_in(call: RenderedCall) -> SparkColumn:
    comparable(*(inner(of) for of in call.types))
    cell, *options = call.arguments
    found = functools.reduce(operator.or_, [cell == option for option in options])
    known = functools.reduce(operator.and_, [one.isNotNull() for one in call.arguments])
    return sf.when(known, found)


def _signed(change: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    def render(call: RenderedCall) -> SparkColumn:
        column = call.arguments[0]
        match call.plain(0):
            case Int():
                return sf.when(column != sf.lit(INT_MIN), change(column))
            case Float():
                return no_nan(change(column))
            case _:
                return change(column)

    return render


def _to_int(rounding: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    def render(call: RenderedCall) -> SparkColumn:
        column = call.arguments[0]
        if isinstance(call.plain(0), Int):
            return column
        fits = (column >= -TWO_63) & (column < TWO_63)
        return sf.when(fits, rounding(column).cast("long"))

    return render


def _round(call: RenderedCall) -> SparkColumn:
    places = call.option("precision") or 0
    if isinstance(places, int) and places > 0:
        return no_nan(sf.round(call.as_double(), places))
    return _to_int(lambda column: sf.round(column, 0))(call)


def _double_to(compute: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    return lambda call: no_nan(compute(call.as_double()))


def _not_to_the_last_digit(call: RenderedCall) -> SparkColumn:
    raise NotRenderedError(f"`{call.call.function}` of floats, whose last digit is Java's own")


def _to_string(call: RenderedCall) -> SparkColumn:
    match call.plain(0):
        case Int():
            return call.arguments[0].cast("string")
        case Decimal(scale=scale) if scale <= _PLAIN_SCALE:
            return call.arguments[0].cast("string")
        case _:
            raise NotRenderedError("`num.to_string` of that number")


def _pow(call: RenderedCall) -> SparkColumn:
    if isinstance(inner(call.result), Int):
        return _int_pow(call)
    return _not_to_the_last_digit(call)


def _int_pow(call: RenderedCall) -> SparkColumn:
    match call.call.arguments[1]:
        case Literal(value=int(exponent)) if 0 <= exponent <= _LARGEST_POWER:
            base = call.arguments[0]
            one = sf.when(base.isNotNull(), sf.lit(1).cast("long"))
            return functools.reduce(sf.try_multiply, [base] * exponent, one)
        case _:
            raise NotRenderedError("`num.pow` of ints whose exponent is not a small constant")


NUMBERS: Mapping[str, Rendering] = {
    "add": _arithmetic(sf.try_add, operator.add),
    "sub": _arithmetic(sf.try_subtract, operator.sub),
    "mul": _mul,
    "div": lambda call: quotient(call.as_double(0), call.as_double(1)),
    "floordiv": _floordiv,
    "mod": _mod,
    "eq": _compared(operator.eq),
    "ne": _compared(operator.ne),
    "lt": _compared(operator.lt),
    "le": _compared(operator.le),
    "gt": _compared(operator.gt),
    "ge": _compared(operator.ge),
    "is_in": _is_in,
    "neg": _signed(operator.neg),
    "num.abs": _signed(sf.abs),
    "num.round": _round,
    "num.ceil": _to_int(sf.ceil),
    "num.floor": _to_int(sf.floor),
    "num.sqrt": _double_to(sf.sqrt),
    **{
        f"num.{name}": _not_to_the_last_digit
        for name in ("log", "sin", "cos", "tan", "arcsin", "arccos", "arctan")
    },
    "num.is_nan": lambda call: sf.when(call.arguments[0].isNotNull(), sf.isnan(call.as_double())),
    "num.is_infinite": lambda call: sf.abs(call.as_double()) == math.inf,
    "num.to_string": _to_string,
    "num.pow": _pow,
}
