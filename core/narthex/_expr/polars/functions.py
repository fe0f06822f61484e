"""The functions that Polars has with exactly our meaning."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import polars as pl
from pyarrow import compute

from narthex._expr.case_mapping import NEWER, change_case
from narthex._expr.python.signature import Signature
from narthex._expr.time_units import UNIT_US
from narthex._expr.time_zones import FIRST_US, LAST_US
from narthex._ir.types import Float, Int, Null, Str, TypeMapper, inner

Native: TypeAlias = Callable[[Signature, Sequence[pl.Expr]], pl.Expr]
"""Renders a call from its rendered arguments."""

_LONGEST = 2**31
_FLOATS_BY_ROW = frozenset({"mod"})
_OF_ANY_TYPE = frozenset({"isnull", "list.len", "list.at", "struct.get", "dict.len"})
"""The functions that do not depend on the content of lists, dicts and structs."""
_HAS_NATIVE_FUNCTIONS: TypeMapper[bool] = TypeMapper(
    int=True,
    float=True,
    bool=True,
    str=True,
    bytes=True,
    datetime=True,
    date=True,
    decimal=lambda _: False,
    list=lambda _, __: False,
    map=lambda _, __: False,
    embedding=lambda _, __: True,
    struct=lambda _, __: False,
    null=lambda: False,
)
"""Whether Polars computes functions of the type as we do; else they are computed row by row."""


def is_native(signature: Signature) -> bool:
    """Return whether a call is rendered for Polars; otherwise it is computed row by row."""
    name = signature.call.function
    types = [inner(of) for of in (*(signature.arguments or ()), signature.result or Null())]
    if name not in NATIVE or name in _OF_ANY_TYPE:
        return name in NATIVE
    if not all(map(_HAS_NATIVE_FUNCTIONS, types)):
        return False
    if signature.option("timezone") is not None:
        return False
    floats = any(isinstance(of, Float) for of in types)
    return not (floats and name in _FLOATS_BY_ROW) and not _rounds_digits(signature)


def _rounds_digits(signature: Signature) -> bool:
    return signature.call.function == "num.round" and signature.option("precision") not in {0, None}


def _is(signature: Signature, kind: type) -> bool:
    return signature.result is not None and isinstance(inner(signature.result), kind)


def _wide(operand: pl.Expr) -> pl.Expr:
    return operand.cast(pl.Int128)


def _narrow(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.Int64, strict=False)


def _defined(value: pl.Expr) -> pl.Expr:
    return value.fill_nan(None)


def _arithmetic(function: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Native:
    def native(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
        left, right = operands
        if _is(signature, Str):
            return left + right
        if _is(signature, Int):
            return _narrow(function(_wide(left), _wide(right)))
        return _defined(function(left.cast(pl.Float64), right.cast(pl.Float64)))

    return native


def _divided(columns: Sequence[pl.Series]) -> pl.Series:
    left, right = columns
    if left.len() != right.len():
        left, right = (
            one.new_from_index(0, other.len()) if one.len() == 1 else one
            for one, other in ((left, right), (right, left))
        )
    return pl.Series(compute.divide(left.to_arrow(), right.to_arrow()), dtype=pl.Float64)


# Polars divides by a constant through its reciprocal, which is not the nearest double; Arrow
# divides as IEEE-754 specifies.
def _quotient(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    operands = [left.cast(pl.Float64), right.cast(pl.Float64)]
    return pl.map_batches(operands, _divided, return_dtype=pl.Float64, is_elementwise=True)


def _floordiv(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    left, right = operands
    divisible = right != 0
    if _is(signature, Int):
        return pl.when(divisible).then(_narrow(_wide(left) // _wide(right)))
    quotient = _quotient(left, right)
    return pl.when(divisible).then(_defined(quotient.floor()))


def _mod(_: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    left, right = operands
    return pl.when(right != 0).then(_narrow(_wide(left) % _wide(right)))


def _div(_: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    return _defined(_quotient(operands[0], operands[1]))


# Polars cannot negate Int128.
def _opposite(wide: pl.Expr) -> pl.Expr:
    return pl.lit(0, dtype=pl.Int128) - wide


def _neg(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    if _is(signature, Int):
        return _narrow(_opposite(_wide(operands[0])))
    return _defined(-operands[0])


def _abs(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    if _is(signature, Int):
        return _narrow(_wide(operands[0]).abs())
    return _defined(operands[0].abs())


def _to_int(rounding: Callable[[pl.Expr], pl.Expr]) -> Native:
    def native(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
        types = signature.arguments or ()
        if isinstance(inner(types[0]), Int):
            return operands[0]
        return _narrow(rounding(operands[0]))

    return native


def _to_float(function: Callable[[pl.Expr], pl.Expr]) -> Native:
    return lambda _, operands: _defined(function(operands[0].cast(pl.Float64)))


def _is_in(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    types = [inner(of) for of in signature.arguments or ()]
    floats = any(isinstance(of, Float) for of in types)
    cast = [one.cast(pl.Float64) if floats else one for one in operands]
    known = pl.all_horizontal(*(operand.is_not_null() for operand in operands))
    return pl.when(known).then(pl.any_horizontal(*(cast[0] == option for option in cast[1:])))


def _part(function: Callable[[pl.Expr], pl.Expr]) -> Native:
    def native(_: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
        dated = operands[0].is_between(FIRST_US, LAST_US)
        instant = pl.when(dated).then(operands[0]).cast(pl.Datetime("us"))
        return function(instant).cast(pl.Int64)

    return native


def _units(span: pl.Expr, signature: Signature) -> pl.Expr:
    unit = UNIT_US[str(signature.option("unit"))]
    whole = span.abs() // unit
    return _narrow(pl.when(span < 0).then(_opposite(whole)).otherwise(whole))


def _shift(direction: int) -> Native:
    def native(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
        duration = signature.option("duration_us")
        span = duration if isinstance(duration, int) else 0
        return _narrow(_wide(operands[0]) + direction * span)

    return native


def _at(_: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    # Polars panics at the least int; such an index is beyond any list.
    index = pl.when(operands[1].is_between(-_LONGEST, _LONGEST)).then(operands[1])
    return operands[0].list.get(index, null_on_oob=True)


def _from_epoch(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    return _narrow(_wide(operands[0]) * UNIT_US[str(signature.option("unit"))])


def _in_case(native: Callable[[pl.Series], pl.Series], plain: Callable[[str], str]) -> Native:
    def change(texts: pl.Series) -> pl.Series:
        if not texts.str.contains(f"[{NEWER}]").any():
            return native(texts)
        found = [None if one is None else change_case(one, plain) for one in texts.to_list()]
        return pl.Series(texts.name, found, dtype=pl.String)

    return lambda _, operands: operands[0].map_batches(
        change, return_dtype=pl.String, is_elementwise=True
    )


def _log(signature: Signature, operands: Sequence[pl.Expr]) -> pl.Expr:
    natural = operands[0].cast(pl.Float64).log()
    base = signature.option("base")
    if isinstance(base, float | int):
        return _defined(_quotient(natural, pl.lit(math.log(base))))
    return _defined(natural)


NATIVE: Mapping[str, Native] = MappingProxyType(
    {
        "add": _arithmetic(lambda left, right: left + right),
        "sub": _arithmetic(lambda left, right: left - right),
        "mul": _arithmetic(lambda left, right: left * right),
        "div": _div,
        "floordiv": _floordiv,
        "mod": _mod,
        "eq": lambda _, operands: operands[0] == operands[1],
        "ne": lambda _, operands: operands[0] != operands[1],
        "lt": lambda _, operands: operands[0] < operands[1],
        "le": lambda _, operands: operands[0] <= operands[1],
        "gt": lambda _, operands: operands[0] > operands[1],
        "ge": lambda _, operands: operands[0] >= operands[1],
        "is_in": _is_in,
        "and": lambda _, operands: operands[0] & operands[1],
        "or": lambda _, operands: operands[0] | operands[1],
        "not": lambda _, operands: ~operands[0],
        "isnull": lambda _, operands: operands[0].is_null(),
        "fillnull": lambda _, operands: operands[0].fill_null(operands[1]),
        "cast": lambda signature, operands: (
            operands[0].cast(pl.Float64) if _is(signature, Float) else operands[0]
        ),
        "neg": _neg,
        "num.abs": _abs,
        "num.round": _to_int(lambda operand: operand.round(0, mode="half_away_from_zero")),
        "num.ceil": _to_int(lambda operand: operand.ceil()),
        "num.floor": _to_int(lambda operand: operand.floor()),
        "num.sqrt": _to_float(lambda operand: operand.sqrt()),
        "num.log": _log,
        "num.is_nan": lambda _, operands: operands[0].cast(pl.Float64).is_nan(),
        "num.is_infinite": lambda _, operands: operands[0].cast(pl.Float64).is_infinite(),
        "str.len": lambda _, operands: operands[0].str.len_chars().cast(pl.Int64),
        "str.lower": _in_case(lambda texts: texts.str.to_lowercase(), str.lower),
        "str.upper": _in_case(lambda texts: texts.str.to_uppercase(), str.upper),
        "str.concat": lambda _, operands: operands[0] + operands[1],
        "str.contains": lambda _, operands: operands[0].str.contains(operands[1], literal=True),
        "str.startswith": lambda _, operands: operands[0].str.starts_with(operands[1]),
        "str.endswith": lambda _, operands: operands[0].str.ends_with(operands[1]),
        "dt.year": _part(lambda at: at.dt.year()),
        "dt.month": _part(lambda at: at.dt.month()),
        "dt.week": _part(lambda at: at.dt.week()),
        "dt.day": _part(lambda at: at.dt.day()),
        "dt.hour": _part(lambda at: at.dt.hour()),
        "dt.minute": _part(lambda at: at.dt.minute()),
        "dt.second": _part(lambda at: at.dt.second()),
        "dt.millisecond": _part(lambda at: at.dt.millisecond()),
        "dt.microsecond": _part(lambda at: at.dt.microsecond()),
        "dt.since": lambda signature, operands: _units(
            _wide(operands[0]) - _wide(operands[1]), signature
        ),
        "dt.since_epoch": lambda signature, operands: _units(_wide(operands[0]), signature),
        "dt.add": _shift(1),
        "dt.sub": _shift(-1),
        "from_epoch": _from_epoch,
        "list.len": lambda _, operands: operands[0].list.len().cast(pl.Int64),
        "list.at": _at,
        "dict.len": lambda _, operands: operands[0].list.len().cast(pl.Int64),
        "struct.get": lambda signature, operands: operands[0].struct.field(
            str(signature.option("field"))
        ),
    }
)
"""Renderings by name; functions without one are computed row by row."""
