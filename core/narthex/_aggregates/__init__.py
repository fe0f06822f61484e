"""Aggregates as algebras: exact, mergeable, independent of row order and of partitioning.

`catalog` finds the algebra of an aggregate, `window_ranges` the time span of a window, and `folds`
computes a result from rows and tiles. Two callers compute the results of windows: lookups in
`narthex_stores.indexes.ordered_tables.window_results`, and groups keyed by window in
`narthex._runtime.steps.windowed_groups`.
"""

from narthex._aggregates.algebra import Algebra, Order, Sharing, State
from narthex._aggregates.catalog import MissingInputError, algebra
from narthex._aggregates.counts import RowCount
from narthex._aggregates.extremes import Extreme
from narthex._aggregates.folds import (
    AggregateSlot,
    Folding,
    FoldRow,
    Partial,
    fold,
    folding,
    partials,
    seen_until,
)
from narthex._aggregates.sums import ExactAverage, ExactSum, FloatAverage, FloatSum
from narthex._aggregates.tiles import Cover, TileRange, cover_span
from narthex._aggregates.validity import IntervalFolding
from narthex._aggregates.window_ranges import Span, UnsupportedWindowError, span

__all__ = [
    "AggregateSlot",
    "Algebra",
    "Cover",
    "ExactAverage",
    "ExactSum",
    "Extreme",
    "FloatAverage",
    "FloatSum",
    "FoldRow",
    "Folding",
    "IntervalFolding",
    "MissingInputError",
    "Order",
    "Partial",
    "RowCount",
    "Sharing",
    "Span",
    "State",
    "TileRange",
    "UnsupportedWindowError",
    "algebra",
    "cover_span",
    "fold",
    "folding",
    "partials",
    "seen_until",
    "span",
]
