# mypy: disable-error-code="explicit-any"
"""Sums that do not depend on the order: exact for integers, compensated for floats."""

import math
from collections.abc import Iterable, Sequence

from narthex._aggregates.algebra import State
from narthex._ir.facts import Cell
from narthex._ir.types import DECIMAL_DIGITS, DataType, Decimal, Float, inner, unrestricted

_LEAST = -(1 << 63)
_GREATEST = (1 << 63) - 1


class NotNumericError(TypeError):
    """A sum over a column that is not numeric."""


def base_type(of: DataType | None) -> DataType:
    """Return the type inside Optional and restrictions.

    Raises:
        NotNumericError: The type is None.
    """
    if of is None:
        raise NotNumericError("the aggregate needs a column")
    return unrestricted(inner(unrestricted(of)))


def is_float(of: DataType | None) -> bool:
    """Return whether sums of the type are rounded."""
    return isinstance(base_type(of), Float)


def unit_of(of: DataType | None) -> int:
    """Return the unscaled units of the number one: 10^scale for a Decimal, else 1."""
    plain = base_type(of)
    return 10**plain.scale if isinstance(plain, Decimal) else 1


def bounds_of(of: DataType | None) -> tuple[int, int]:
    """Return the least and the greatest cell of an int or a decimal type."""
    if isinstance(base_type(of), Decimal):
        return -(10**DECIMAL_DIGITS) + 1, 10**DECIMAL_DIGITS - 1
    return _LEAST, _GREATEST


def narrow(number: int) -> State:
    """Return an integer in a form that MessagePack can encode: as bytes beyond 64 bits."""
    if _LEAST <= number <= _GREATEST:
        return number
    return number.to_bytes(number.bit_length() // 8 + 1, signed=True)


def widen(state: State) -> int:
    """Return the integer from the form that `narrow` returns."""
    return int.from_bytes(state, signed=True) if isinstance(state, bytes) else int(state)


def widen_all(states: Sequence[State]) -> Sequence[State]:
    """Return the integers from the forms that `narrow` returns."""
    return [widen(state) for state in states] if bytes in set(map(type, states)) else states


def present(cells: Sequence[Cell]) -> list[State]:
    """Return the cells that are not null."""
    return [cell for cell in cells if cell is not None]


def compensated(parts: Sequence[float]) -> tuple[float, float]:
    """Return the sum of floats as two that do not overlap: the rounded sum, and its rounding error.

    For infinities and NaN the sum is the value itself, and the error is zero.
    """
    try:
        high = math.fsum(parts)
        if math.isfinite(high):
            return high, math.fsum((*parts, -high))
    except (OverflowError, ValueError):
        high = sum(parts)
    return high, 0.0


def pairs(states: Iterable[Sequence[float]], at: int = 0) -> list[float]:
    """Return both floats of each compensated sum, concatenated."""
    parts: list[float] = []
    for state in states:
        parts += state[at : at + 2]
    return parts


def default_cell(default: float | None, of: DataType | None) -> Cell:
    """Return a default, which is a literal of the type, as a cell."""
    if default is not None and is_float(of):
        return float(default)
    return default
