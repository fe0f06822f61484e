"""Compute the aggregate of a list of values, by its definition.

Values are (instant, row_id, cell), oldest first; at one instant the lesser row_id is older.
These folds share nothing with the algebras of the engines, which they judge.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias, assert_never

from narthex._formats import cell_bytes
from narthex._ir import (
    DECIMAL_DIGITS,
    AggregateSpec,
    Average,
    Cell,
    Count,
    DataType,
    Decimal,
    Distinct,
    ExpDecaySum,
    FirstK,
    Float,
    LastK,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
    inner,
    unrestricted,
)

PlacedCell: TypeAlias = tuple[int, bytes, Cell]


class NotANumberError(TypeError):
    """The aggregate does not accept the cell."""


def fold(
    spec: AggregateSpec, of: DataType | None, values: Sequence[PlacedCell], asked_at: int
) -> Cell:
    """Return the aggregate of values.

    Args:
        spec: The aggregate; its window is ignored, because the values are those in the window.
        of: The type of the values; None for a bare count.
        values: The values to aggregate, oldest first.
        asked_at: The instant of the lookup, for decayed sums.
    """
    match spec:
        case Count():
            return _count(spec, of, [cell for _, _, cell in values])
        case LastK() | FirstK() | Distinct():
            return _listed(spec, of, [cell for _, _, cell in values])
        case ExpDecaySum():
            return _decayed(spec, of, values, asked_at)
        case Sum() | Average() | Min() | Max() | Stddev() | Quantile():
            return _number(spec, of, [number(cell) for _, _, cell in values if cell is not None])
        case _:
            assert_never(spec)


def _count(spec: Count, of: DataType | None, cells: list[Cell]) -> int:
    counted = _present(cells) if spec.dropnull else cells
    return len(_different(counted, of)) if spec.unique else len(counted)


def _listed(
    spec: LastK | FirstK | Distinct, of: DataType | None, cells: list[Cell]
) -> tuple[Cell, ...]:
    kept = _present(cells) if spec.dropnull else cells
    match spec:
        case LastK():
            newest_first = kept[::-1]
            return tuple(
                (_different(newest_first, of) if spec.dedup else newest_first)[: spec.limit]
            )
        case FirstK():
            return tuple((_different(kept, of) if spec.dedup else kept)[: spec.limit])
        case Distinct():
            return tuple(_different(kept, of))


def _present(cells: list[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell is not None]


def _different(cells: list[Cell], of: DataType | None) -> list[Cell]:
    """Return the first of each equal cells."""
    if of is None:
        raise NotANumberError("an aggregate of a column whose type is not known")
    render = cell_bytes(of)
    found: dict[bytes, Cell] = {}
    for cell in cells:
        found.setdefault(render(cell), cell)
    return list(found.values())


def _number(
    spec: Sum | Average | Min | Max | Stddev | Quantile,
    of: DataType | None,
    numbers: list[int | float],
) -> Cell:
    match spec:
        case Sum():
            return _within(_sum(numbers, floats=_is_float(of)), of)
        case Average():
            return _mean(numbers, unit(of)) if numbers else spec.default
        case Stddev():
            return _deviation(numbers) / unit(of) if numbers else spec.default
        case Quantile():
            return _quantile(spec.p, numbers) / unit(of) if numbers else spec.default
        case Min():
            return _extreme(numbers, sign=1) if numbers else default_cell(spec.default, of)
        case Max():
            return _extreme(numbers, sign=-1) if numbers else default_cell(spec.default, of)


def _within(total: int | float, of: DataType | None) -> int | float:
    """Return a sum, or the nearest cell of its type if it is beyond all of them."""
    if isinstance(total, float):
        return total
    if of is not None and isinstance(unrestricted(inner(unrestricted(of))), Decimal):
        digits = "9" * DECIMAL_DIGITS
        return max(-int(digits), min(int(digits), total))
    return max(-(2**63), min(2**63 - 1, total))


def _is_float(of: DataType | None) -> bool:
    return of is not None and isinstance(unrestricted(inner(unrestricted(of))), Float)


def unit(of: DataType | None) -> int:
    """Return the number of cell units in one: a decimal's cells are unscaled."""
    plain = of if of is None else unrestricted(inner(unrestricted(of)))
    return 10**plain.scale if isinstance(plain, Decimal) else 1


def default_cell(default: float | None, of: DataType | None) -> Cell:
    """Return the default of an extreme, which is a literal of the type, as a cell."""
    return float(default) if default is not None and _is_float(of) else default


def number(cell: Cell) -> int | float:
    """Return a cell as the number that it is.

    Raises:
        NotANumberError: The cell is not a number.
    """
    if isinstance(cell, int | float):
        return cell
    raise NotANumberError(f"{cell!r} is not a number")


def _sum(numbers: Sequence[int | float], *, floats: bool) -> int | float:
    """Return the sum, rounded once if at all."""
    if not floats:
        return sum(int(one) for one in numbers)
    if not all(math.isfinite(one) for one in numbers):
        return float(sum(numbers))
    exact = sum((Fraction(one) for one in numbers), Fraction(0))
    return _rounded(exact)


def _mean(numbers: Sequence[int | float], unit_of_one: int) -> float:
    if not all(math.isfinite(one) for one in numbers):
        return float(sum(numbers))
    exact = sum((Fraction(one) for one in numbers), Fraction(0))
    return _rounded(exact / len(numbers) / unit_of_one)


def _rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _deviation(numbers: Sequence[int | float]) -> float:
    """Return the root of the mean squared distance from the mean."""
    if not all(math.isfinite(one) for one in numbers):
        return math.nan
    exact = [Fraction(one) for one in numbers]
    mean = sum(exact, Fraction(0)) / len(exact)
    return math.sqrt(_rounded(sum(((one - mean) ** 2 for one in exact), Fraction(0)) / len(exact)))


def _quantile(p: float, numbers: Sequence[int | float]) -> float:
    """Return the element at floor(p·n), clamped, of the ascending numbers; NaN is the greatest."""
    ascending = sorted(numbers, key=lambda one: (math.isnan(one), one))
    return float(ascending[min(math.floor(p * len(ascending)), len(ascending) - 1)])


def _extreme(numbers: Sequence[int | float], *, sign: int) -> int | float:
    """Return the least, or with the sign turned the greatest; any NaN makes the result NaN."""
    if any(math.isnan(one) for one in numbers):
        return math.nan
    return min(numbers, key=lambda one: sign * one)


def _decayed(
    spec: ExpDecaySum, of: DataType | None, values: Sequence[PlacedCell], asked_at: int
) -> float:
    """Return the sum of the values, each halved once per half-life since its instant."""
    parts = [
        number(cell) * 2.0 ** -((asked_at - instant) / spec.half_life_us)
        for instant, _, cell in values
        if cell is not None
    ]
    return float(_sum(parts, floats=True)) / unit(of)
