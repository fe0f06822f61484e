# mypy: disable-error-code="explicit-any"
"""Sums that do not depend on the order: exact of integers, compensated of floats."""

import math
from collections.abc import Iterable, Sequence

from narthex._aggregates.algebra import State
from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Decimal, Float, inner, unrestricted

_LEAST = -(1 << 63)
_GREATEST = (1 << 63) - 1


class NotNumericError(TypeError):
    """A sum over a column that is not numeric."""


def base_type(of: DataType | None) -> DataType:
    """Return the type below Optional and restrictions.

    Raises:
        NotNumericError: There is no type.
    """
    if of is None:
        raise NotNumericError("the aggregate needs a column")
    return unrestricted(inner(unrestricted(of)))


def is_float(of: DataType | None) -> bool:
    """Say whether sums of the type round."""
    return isinstance(base_type(of), Float)


def unit_of(of: DataType | None) -> int:
    """Return how many unscaled units one is: 10^scale of a Decimal, else 1."""
    plain = base_type(of)
    return 10**plain.scale if isinstance(plain, Decimal) else 1


def narrow(number: int) -> State:
    """Return an integer as MessagePack can say it: beyond 64 bits, as bytes."""
    if _LEAST <= number <= _GREATEST:
        return number
    return number.to_bytes(number.bit_length() // 8 + 1, signed=True)


def widen(state: State) -> int:
    """Return the integer that `narrow` took."""
    return int.from_bytes(state, signed=True) if isinstance(state, bytes) else int(state)


def widen_all(states: Sequence[State]) -> Sequence[State]:
    """Return the integers that `narrow` took."""
    return [widen(state) for state in states] if bytes in set(map(type, states)) else states


def present(cells: Sequence[Cell]) -> list[State]:
    """Return the cells that are not null."""
    return [cell for cell in cells if cell is not None]


def compensated(parts: Sequence[float]) -> tuple[float, float]:
    """Return the sum of floats as two that do not overlap: the rounded sum, and what it lacks.

    Infinities and NaN give themselves, without a rest.
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
    """Return a default, a literal of the type, as a cell."""
    if default is not None and is_float(of):
        return float(default)
    return default
