"""Arithmetic, comparison and `num.*`, on single values."""

import decimal
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from narthex._expr.python.signature import (
    DECIMAL_LIMIT,
    Compute,
    Number,
    Signature,
    int64,
    number,
    whole,
)
from narthex._ir.facts import Cell
from narthex._ir.types import Decimal, Float, inner

_EXACT = decimal.Context(prec=1100, rounding=decimal.ROUND_HALF_UP)
_LARGEST_EXPONENT = 63


def defined(value: float) -> float | None:
    """Return the float; None for NaN."""
    return None if math.isnan(value) else value


def _fitting(signature: Signature, value: int) -> int | None:
    if signature.result is not None and isinstance(inner(signature.result), Decimal):
        return value if abs(value) < DECIMAL_LIMIT else None
    return int64(value)


def _exact_or_float(
    exact: Callable[[int, int], int | None], rounded: Callable[[float, float], float | None]
) -> Compute:
    def compute(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
        left, right = cells
        if isinstance(left, str) and isinstance(right, str):
            return left + right
        left, right = number(left), number(right)
        if isinstance(left, int) and isinstance(right, int):
            value = exact(left, right)
            return None if value is None else _fitting(signature, value)
        result = rounded(float(left), float(right))
        return None if result is None else defined(result)

    return compute


def _floor_of_quotient(left: float, right: float) -> float | None:
    if right == 0:
        return None
    quotient = left / right
    if not math.isfinite(quotient) or quotient == 0:
        return quotient
    return float(math.floor(quotient))


def _remainder(left: float, right: float) -> float | None:
    if right == 0 or math.isinf(left):
        return None
    remainder = math.fmod(left, right)
    return remainder + right if remainder and (remainder < 0) != (right < 0) else remainder


def quotient(left: float, right: float) -> float | None:
    """Divide as IEEE-754 does; None for 0 / 0."""
    if right != 0:
        return defined(left / right)
    if left == 0 or math.isnan(left):
        return None
    return math.copysign(math.inf, math.copysign(1.0, left) * math.copysign(1.0, right))


def _as_float(signature: Signature, cells: tuple[Cell, ...], index: int) -> float:
    value, scale = number(cells[index]), signature.scale(index)
    return value / 10**scale if scale else float(value)


def _div(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    return quotient(_as_float(signature, cells, 0), _as_float(signature, cells, 1))


def rank(cell: Cell) -> tuple[bool, Cell]:
    """Return the sort key of a value: NaN equals itself and is the greatest."""
    if isinstance(cell, float) and math.isnan(cell):
        return (True, 0.0)
    return (False, cell)


def same(left: Cell, right: Cell) -> bool:
    """Return whether two values are equal; inside lists and structs null equals null."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float) != isinstance(right, float) and left is not None is not right:
        return float(number(left)) == float(number(right))
    return rank(left) == rank(right)


def _before(left: Cell, right: Cell) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    left, right = number(left), number(right)
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    if math.isnan(left) or math.isnan(right):
        return not math.isnan(left)
    return left < right


def _compared(holds: Callable[[Cell, Cell], bool]) -> Compute:
    return lambda _, cells: holds(cells[0], cells[1])


def _number_to(compute: Callable[[Number], Cell]) -> Compute:
    return lambda _, cells: compute(number(cells[0]))


def _float_to(compute: Callable[[float], float]) -> Compute:
    def guarded(_: Signature, cells: tuple[Cell, ...]) -> Cell:
        try:
            return defined(compute(float(number(cells[0]))))
        except ValueError:
            return None

    return guarded


def _log(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    value, base = float(number(cells[0])), signature.option("base")
    if value < 0 or math.isnan(value):
        return None
    logarithm = -math.inf if value == 0 else math.log(value)
    return quotient(logarithm, math.log(base)) if isinstance(base, int | float) else logarithm


def _to_int(rounding: Callable[[float], int]) -> Compute:
    def compute(_: Signature, cells: tuple[Cell, ...]) -> Cell:
        value = number(cells[0])
        if isinstance(value, int):
            return value
        return int64(rounding(value)) if math.isfinite(value) else None

    return compute


def _half_away(value: float, places: int) -> decimal.Decimal:
    # A whole float is used exactly: its shortest text can end in other digits.
    shortest = decimal.Decimal(value if value.is_integer() else repr(value))
    return shortest.quantize(decimal.Decimal(1).scaleb(-places), context=_EXACT)


def _round(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    value, precision = number(cells[0]), signature.option("precision") or 0
    if isinstance(precision, int) and precision > 0:
        value = float(value)
        # A result of zero is 0.0, also for a negative number.
        return float(_half_away(value, precision)) + 0.0 if math.isfinite(value) else defined(value)
    return _to_int(lambda given: int(_half_away(given, 0)))(signature, cells)


def _to_string(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    value, scale = cells[0], signature.scale(0)
    if not scale:
        return repr(value)
    digits = str(abs(whole(value))).rjust(scale + 1, "0")
    sign = "-" if whole(value) < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _pow(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    base, exponent = number(cells[0]), number(cells[1])
    complete_result = signature.result is None or not isinstance(inner(signature.result), Float)
    if complete_result and isinstance(base, int) and isinstance(exponent, int):
        return _int_pow(base, exponent)
    return defined(_float_pow(float(base), float(exponent)))


def _int_pow(base: int, exponent: int) -> int | None:
    if exponent < 0 or (abs(base) > 1 and exponent > _LARGEST_EXPONENT):
        return None
    if base == -1:
        exponent %= 2
    return int64(base**exponent)


def _float_pow(base: float, exponent: float) -> float:
    odd = math.fmod(exponent, 2) in {1.0, -1.0} if math.isfinite(exponent) else False
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        if base != 0:
            return math.nan
        return math.copysign(math.inf, base) if odd else math.inf


NUMBERS: Mapping[str, Compute] = MappingProxyType(
    {
        "add": _exact_or_float(int.__add__, float.__add__),
        "sub": _exact_or_float(int.__sub__, float.__sub__),
        "mul": _exact_or_float(int.__mul__, float.__mul__),
        "div": _div,
        "floordiv": _exact_or_float(
            lambda left, right: left // right if right else None, _floor_of_quotient
        ),
        "mod": _exact_or_float(lambda left, right: left % right if right else None, _remainder),
        "eq": _compared(same),
        "ne": _compared(lambda left, right: not same(left, right)),
        "lt": _compared(_before),
        "ge": _compared(lambda left, right: not _before(left, right)),
        "gt": _compared(lambda left, right: _before(right, left)),
        "le": _compared(lambda left, right: not _before(right, left)),
        "is_in": lambda _, cells: any(same(cells[0], option) for option in cells[1:]),
        "neg": lambda signature, cells: (
            _fitting(signature, -cells[0])
            if isinstance(cells[0], int)
            else defined(-number(cells[0]))
        ),
        "num.abs": lambda signature, cells: (
            _fitting(signature, abs(cells[0]))
            if isinstance(cells[0], int)
            else defined(abs(number(cells[0])))
        ),
        "num.round": _round,
        "num.ceil": _to_int(math.ceil),
        "num.floor": _to_int(math.floor),
        "num.sqrt": _float_to(math.sqrt),
        "num.log": _log,
        "num.sin": _float_to(math.sin),
        "num.cos": _float_to(math.cos),
        "num.tan": _float_to(math.tan),
        "num.arcsin": _float_to(math.asin),
        "num.arccos": _float_to(math.acos),
        "num.arctan": _float_to(math.atan),
        "num.is_nan": _number_to(math.isnan),
        "num.is_infinite": _number_to(math.isinf),
        "num.to_string": _to_string,
        "num.pow": _pow,
    }
)
