"""Compare two engines' cells: equal, and floats within the tolerance of the contract."""

import math
from collections.abc import Sequence

from narthex._ir import Aggregate, Cell, Dataset, ExpDecaySum

TOLERANCE = 1e-9
"""Relative; sums of floats may be rounded in another order."""


def same_cells(left: Sequence[Cell], right: Sequence[Cell]) -> bool:
    """Whether two rows of cells are the same."""
    return len(left) == len(right) and all(map(same, left, right))


def same(left: Cell, right: Cell) -> bool:
    """Whether two cells are the same; NaN is itself, 1 is not 1.0, 0 is not False."""
    match left, right:
        case tuple(), tuple():
            return same_cells(left, right)
        case dict(), dict():
            return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
        case float(), float():
            return _same_float(left, right)
        case _:
            return type(left) is type(right) and left == right


def _same_float(left: float, right: float) -> bool:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def is_never_the_same(dataset: Dataset) -> bool:
    """Whether the values of a dataset change at every instant, so that rows cannot be compared."""
    terminal = dataset.pipelines[-1].terminal if dataset.pipelines else None
    return isinstance(terminal, Aggregate) and any(
        isinstance(spec, ExpDecaySum) for spec in terminal.specs
    )
