"""Every aggregate, with every parameter that it has, of every type of column that it takes."""

import math
from collections.abc import Mapping

import attrs
from hypothesis import strategies as st

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
from narthex._ir.aggregate_types import Misfit, type_aggregate
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    StructField,
)
from narthex._ir.windows import Continuous, Window

FOREVER = Continuous("forever")
_FLOATS = st.integers(-64, 64).map(lambda number: number / 8) | st.sampled_from([math.inf, -0.0])

COLUMNS: Mapping[str, tuple[DataType, st.SearchStrategy[Cell]]] = {
    "whole": (Optional(Int()), st.none() | st.integers(-3, 3) | st.sampled_from([2**58, -(2**58)])),
    "small": (Int(), st.integers(-2, 2)),
    "real": (Optional(Float()), st.none() | _FLOATS),
    "price": (Optional(Decimal(2)), st.none() | st.integers(-(10**20), 10**20)),
    "word": (Optional(Str()), st.none() | st.text("ab", max_size=1)),
    "flag": (Bool(), st.booleans()),
    "items": (List(Int()), st.lists(st.integers(0, 1), max_size=2).map(tuple)),
    "pairs": (Map(Int()), st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=2)),
    "point": (
        Struct("Point", (StructField("x", Int()),)),
        st.fixed_dictionaries({"x": st.integers(0, 1)}),
    ),
    "day": (Optional(Date()), st.none() | st.integers(-3, 3)),
    "then": (Datetime(), st.integers(-3, 3)),
}
"""Columns by name: their types, and their cells; sums of them fit a column of whole numbers."""

SPECS: tuple[AggregateSpec, ...] = (
    Count(into="x", window=FOREVER),
    Count(into="x", window=FOREVER, of="c"),
    Count(into="x", window=FOREVER, of="c", dropnull=True),
    Count(into="x", window=FOREVER, of="c", unique=True),
    Count(into="x", window=FOREVER, of="c", unique=True, dropnull=True),
    Count(into="x", window=FOREVER, of="c", unique=True, approx=True),
    Sum(into="x", window=FOREVER, of="c"),
    Average(into="x", window=FOREVER, of="c"),
    Average(into="x", window=FOREVER, of="c", default=None),
    Min(into="x", window=FOREVER, of="c"),
    Min(into="x", window=FOREVER, of="c", default=1),
    Max(into="x", window=FOREVER, of="c"),
    Max(into="x", window=FOREVER, of="c", default=1),
    Stddev(into="x", window=FOREVER, of="c"),
    Stddev(into="x", window=FOREVER, of="c", default=None),
    LastK(into="x", window=FOREVER, of="c", limit=3, dedup=False),
    LastK(into="x", window=FOREVER, of="c", limit=2, dedup=True),
    LastK(into="x", window=FOREVER, of="c", limit=2, dedup=True, dropnull=True),
    FirstK(into="x", window=FOREVER, of="c", limit=3, dedup=False, dropnull=False),
    FirstK(into="x", window=FOREVER, of="c", limit=2, dedup=True, dropnull=False),
    FirstK(into="x", window=FOREVER, of="c", limit=2, dedup=True, dropnull=True),
    Distinct(into="x", window=FOREVER, of="c", unordered=True),
    Distinct(into="x", window=FOREVER, of="c", unordered=False, dropnull=True),
    Quantile(into="x", window=FOREVER, of="c", p=0.0),
    Quantile(into="x", window=FOREVER, of="c", p=0.5, default=2.0),
    Quantile(into="x", window=FOREVER, of="c", p=1.0, approx=True),
    ExpDecaySum(into="x", window=FOREVER, of="c", half_life_us=3),
    ExpDecaySum(into="x", window=FOREVER, of="c", half_life_us=1000),
)


def typed(spec: AggregateSpec, column: str, *, into: str, window: Window) -> TypedAggregate | None:
    """Return an aggregate of a column, or None where it does not take such columns."""
    of = None if spec.of is None else column
    asked = attrs.evolve(spec, into=into, window=window, **({} if of is None else {"of": of}))
    found = type_aggregate(asked, None if of is None else COLUMNS[column][0])
    return None if isinstance(found, Misfit) else found


def catalog(window: Window, *, prefix: str = "x") -> tuple[TypedAggregate, ...]:
    """Return all aggregates of all columns over a window, each with a name of its own."""
    found: list[TypedAggregate] = []
    for spec in SPECS:
        for column in COLUMNS if spec.of is not None else ("small",):
            made = typed(spec, column, into=f"{prefix}{len(found)}", window=window)
            found += () if made is None else (made,)
    return tuple(found)
