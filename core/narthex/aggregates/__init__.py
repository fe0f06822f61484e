"""Aggregates as algebras: exact, mergeable, blind to order and cuts."""

from narthex.aggregates.algebra import Algebra, Order, Sharing, State
from narthex.aggregates.catalog import MissingInputError, algebra
from narthex.aggregates.folds import (
    Folding,
    Partial,
    Row,
    Slot,
    fold,
    folding,
    partials,
    seen_until,
)
from narthex.aggregates.lives import LivingFolding
from narthex.aggregates.spans import Span, UnsupportedWindowError, span

__all__ = [
    "Algebra",
    "Folding",
    "LivingFolding",
    "MissingInputError",
    "Order",
    "Partial",
    "Row",
    "Sharing",
    "Slot",
    "Span",
    "State",
    "UnsupportedWindowError",
    "algebra",
    "fold",
    "folding",
    "partials",
    "seen_until",
    "span",
]
