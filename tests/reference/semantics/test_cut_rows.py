"""However rows are cut, mixed and merged, an aggregate of the engines is the reference's fold."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from narthex._aggregates import Algebra, Order, Sharing, State, algebra
from narthex._ir.aggregate_specs import (
    AggregateSpec,
    Average,
    Count,
    Distinct,
    ExpDecaySum,
    FirstK,
    LastK,
    Max,
    Min,
    Quantile,
    Stddev,
    Sum,
    TypedAggregate,
)
from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Decimal, Float, Int, Optional, Str
from narthex._ir.windows import Continuous
from narthex_reference.semantics.folds import fold

W = Continuous("forever")
LATER = 100
NUMBERS: list[tuple[DataType, tuple[Cell, ...]]] = [
    (Optional(Int()), (3, None, 0, -5, 2**63 - 1, 2**62, 3, 1)),
    (Optional(Decimal(2)), (4, None, 0, 9, 4, 1, 7)),
    (Optional(Float()), (1e16, None, 1.0, -1e16, 0.5)),
    (Optional(Float()), (2.5, 1.0, None, 0.0, 7.25, 3.0)),
    (Float(), (2.0, math.nan, 1.0, 3.0)),
    (Optional(Int()), (None, 0, None)),
    (Int(), ()),
]
OF_NUMBERS: list[AggregateSpec] = [
    Count(into="x", window=W, of="c", dropnull=True),
    Sum(into="x", window=W, of="c"),
    Average(into="x", window=W, of="c"),
    Stddev(into="x", window=W, of="c"),
    Min(into="x", window=W, of="c", default=5),
    Max(into="x", window=W, of="c"),
    Quantile(into="x", window=W, of="c", p=0.5),
    Quantile(into="x", window=W, of="c", p=0.3, approx=True),
    ExpDecaySum(into="x", window=W, of="c", half_life_us=7),
]
TEXTS = ("a", None, "b", "a", "c", "c", None)
OF_TEXTS: list[AggregateSpec] = [
    Count(into="x", window=W),
    Count(into="x", window=W, of="c", unique=True),
    Count(into="x", window=W, of="c", unique=True, approx=True),
    LastK(into="x", window=W, of="c", limit=3, dedup=False),
    LastK(into="x", window=W, of="c", limit=2, dedup=True),
    FirstK(into="x", window=W, of="c", limit=3, dedup=False, dropnull=False),
    FirstK(into="x", window=W, of="c", limit=2, dedup=True, dropnull=True),
    Distinct(into="x", window=W, of="c", unordered=True),
]


@pytest.mark.parametrize(
    ("spec", "of", "cells"),
    [
        *((spec, of, cells) for of, cells in NUMBERS for spec in OF_NUMBERS),
        *((spec, Optional(Str()), TEXTS) for spec in OF_TEXTS),
    ],
)
def test_every_cut_of_the_rows_has_the_result_of_the_fold(
    spec: AggregateSpec, of: DataType, cells: Sequence[Cell]
) -> None:
    rows = [((at // 2, bytes([at])), cell) for at, cell in enumerate(cells)]
    wanted = fold(spec, of, [(*order, cell) for order, cell in rows], LATER)
    found = algebra(TypedAggregate(spec, of, of))

    results = [found.finish(state, LATER) for state in states(found, rows)]

    assert [one for one in results if not is_same(one, wanted)] == [], wanted


def states(found: Algebra, rows: Sequence[tuple[Order, Cell]]) -> Iterator[State]:
    """Yield the state of all rows, made in many ways."""
    yield gathered(found, rows)
    for number in range(4):
        order = np.random.default_rng(number).permutation(len(rows))
        mixed = [rows[int(at)] for at in order]
        pieces = [gathered(found, mixed[at :: number + 1]) for at in range(number + 1)]
        yield found.merge_all(pieces)
        left = found.identity()
        for piece in pieces:
            left = found.merge(left, piece)
        yield left
        each = found.each([cell for _, cell in mixed], [order for order, _ in mixed])
        yield from found.scatter(each, Sharing.of([0] * len(each)))
        if len(pieces) == 2:
            yield from found.merge_pairs(pieces[:1], pieces[1:])


def gathered(found: Algebra, rows: Sequence[tuple[Order, Cell]]) -> State:
    return found.gather([cell for _, cell in rows], [order for order, _ in rows])


def is_same(found: Cell, wanted: Cell) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        both_undefined = math.isnan(found) and math.isnan(wanted)
        return both_undefined or math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return found == wanted
