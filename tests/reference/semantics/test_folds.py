"""The reference's folds match their definition and the algebras of the engines."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narthex._aggregates import fold as fold_algebras
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
)
from narthex._ir.aggregate_types import Misfit, type_aggregate
from narthex._ir.facts import Cell
from narthex._ir.types import DataType, Date, Datetime, Decimal, Float, Int, List, Optional, Str
from narthex._ir.windows import Continuous
from narthex_reference.cell_equality import same
from narthex_reference.semantics.folds import fold

W = Continuous("forever")
_FLOATS = st.floats(-1e9, 1e9) | st.sampled_from([math.inf, -math.inf, math.nan, 1e100, -0.0])
COLUMNS: list[tuple[DataType, st.SearchStrategy[Cell]]] = [
    (Optional(Int()), st.none() | st.integers(-(2**63), 2**63 - 1)),
    (Int(), st.integers(-3, 3)),
    (Optional(Float()), st.none() | _FLOATS),
    (Optional(Decimal(3)), st.none() | st.integers(-(10**28), 10**28)),
    (Optional(Str()), st.none() | st.text("ab", max_size=2)),
    (Optional(List(Int())), st.none() | st.lists(st.integers(0, 1), max_size=2).map(tuple)),
    (Date(), st.integers(-10, 10)),
    (Datetime(), st.integers(-10, 10)),
]
SPECS: list[AggregateSpec] = [
    Count(into="x", window=W),
    Count(into="x", window=W, of="c"),
    Count(into="x", window=W, of="c", dropnull=True),
    Count(into="x", window=W, of="c", unique=True, approx=True),
    Sum(into="x", window=W, of="c"),
    Average(into="x", window=W, of="c", default=None),
    Average(into="x", window=W, of="c", default=-2.0),
    Min(into="x", window=W, of="c", default=3),
    Max(into="x", window=W, of="c"),
    Stddev(into="x", window=W, of="c"),
    LastK(into="x", window=W, of="c", limit=3, dedup=False),
    LastK(into="x", window=W, of="c", limit=2, dedup=True, dropnull=True),
    FirstK(into="x", window=W, of="c", limit=3, dedup=False, dropnull=False),
    FirstK(into="x", window=W, of="c", limit=2, dedup=True, dropnull=True),
    Distinct(into="x", window=W, of="c", unordered=True),
    Quantile(into="x", window=W, of="c", p=0.5, approx=True),
    Quantile(into="x", window=W, of="c", p=0.0, default=1.5, approx=True),
    Quantile(into="x", window=W, of="c", p=1.0, approx=True),
    ExpDecaySum(into="x", window=W, of="c", half_life_us=5),
]
FITTING = [
    (spec, of, cells)
    for spec in SPECS
    for of, cells in COLUMNS
    if not isinstance(type_aggregate(spec, of if spec.of else None), Misfit)
]


@pytest.mark.parametrize(("spec", "of", "cells"), FITTING)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_fold_and_its_algebra_agree(
    spec: AggregateSpec, of: DataType, cells: st.SearchStrategy[Cell], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(st.integers(0, 9), cells), max_size=8))
    ordered = [(instant, at.to_bytes(1, "big"), cell) for at, (instant, cell) in enumerate(rows)]
    asked_at = data.draw(st.integers(9, 30))

    found = fold(spec, of, sorted(ordered, key=lambda row: row[:2]), asked_at)

    typed = type_aggregate(spec, of if spec.of else None)
    assert not isinstance(typed, Misfit)
    wide = [(instant, row_id, (cell,)) for instant, row_id, cell in ordered]
    (wanted,) = fold_algebras((typed,), ("c",), wide, asked_at)
    assert same(found, wanted), (found, wanted)


@pytest.mark.parametrize(
    ("spec", "of", "cells", "wanted"),
    [
        (Average(into="x", window=W, of="c"), Decimal(2), [150, 250], 2.0),
        (Stddev(into="x", window=W, of="c"), Decimal(1), [10, 30], 1.0),
        (Stddev(into="x", window=W, of="c"), Float(), [1.0, math.inf], math.nan),
        (Min(into="x", window=W, of="c", default=250), Decimal(2), [], 250),
        (Max(into="x", window=W, of="c", default=2), Float(), [], 2.0),
        (Max(into="x", window=W, of="c"), Float(), [1.0, math.nan], math.nan),
        (Quantile(into="x", window=W, of="c", p=0.5), Int(), [4, 1, 3, 2], 3.0),
        (Quantile(into="x", window=W, of="c", p=1.0), Int(), [4, 1, 3, 2], 4.0),
        (Quantile(into="x", window=W, of="c", p=0.0), Decimal(1), [4, 1], 0.1),
        (Sum(into="x", window=W, of="c"), Float(), [1e308, 1e308], math.inf),
        (Sum(into="x", window=W, of="c"), Int(), [2**62, 2**62], 2**63 - 1),
        (Count(into="x", window=W, of="c", unique=True), Optional(Str()), ["a", None, "a"], 2),
    ],
)
def test_folds_match_their_definition(
    spec: AggregateSpec, of: DataType, cells: Sequence[Cell], wanted: Cell
) -> None:
    values = [(at, b"", cell) for at, cell in enumerate(cells)]

    assert same(fold(spec, of, values, 0), wanted)
