"""Bugs of aggregates as algebras, and of the spans of windows."""

import pytest

from narthex._aggregates import (
    counts,
    decay,
    extremes,
    lists,
    moments,
    numeric,
    quantiles,
    sums,
    window_ranges,
)
from narthex._aggregates.algebra import Algebra
from narthex._ir import window_spans
from tests.reference.mutants.edits import Mutant, edited

# ruff: noqa: SLF001 (a bug goes where the meaning is)


def _oldest_is_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists.OldestValues, "newest_first", True)


ALGEBRAS = [
    Mutant(
        "a merged sum is its left part",
        edited(sums.ExactSum.merge, "widen(left) + widen(right)", "widen(left)"),
    ),
    Mutant(
        "long sums wrap around",
        edited(
            numeric.narrow,
            "number.to_bytes(number.bit_length() // 8 + 1, signed=True)",
            "(number + 2**63) % 2**64 - 2**63",
        ),
    ),
    Mutant(
        "what a float sum lacks is forgotten",
        edited(numeric.compensated, "math.fsum((*parts, -high))", "0.0"),
    ),
    Mutant(
        "the average of decimals is of their units",
        edited(sums.ExactAverage.finish, "(count * self.unit)", "count"),
    ),
    Mutant(
        "an average counts nulls",
        edited(sums.FloatAverage.each, "(0, 0.0, 0.0) if", "(1, 0.0, 0.0) if"),
    ),
    Mutant(
        "the deviation is a sample's",
        edited(
            moments.ExactStddev.finish,
            "(count * self.unit) ** 2",
            "(count * max(count - 1, 1) * self.unit**2)",
        ),
    ),
    Mutant(
        "the distance of merged means is half looked at",
        edited(
            moments.FloatStddev.merge,
            "* left[0] * right[0] / count\n    return",
            "* left[0] / count\n    return",
        ),
    ),
    Mutant(
        "NaN is less than nothing", edited(extremes.Extreme._extreme, "number != number", "False")
    ),
    Mutant("zero is not an extreme", edited(extremes.Extreme.finish, "state is None", "not state")),
    Mutant(
        "a count drops no null alone",
        edited(counts.RowCount.each, "0 if cell is None else 1", "1"),
    ),
    Mutant(
        "a value on both sides is two",
        edited(counts.DistinctCount.merge, "sorted({*left, *right})", "sorted([*left, *right])"),
    ),
    Mutant(
        "equal values stay in a list without repetition",
        edited(lists._Values._trim, "identity not in seen", "True"),
    ),
    Mutant(
        "rows of one instant have no order",
        edited(lists._Values._trim, "key=_age", "key=lambda row: row[0]"),
    ),
    Mutant(
        "a list is one too long",
        edited(lists._Values._trim, "rows[: self.limit]", "rows[: (self.limit or 99) + 1]"),
    ),
    Mutant("the first values come newest first", _oldest_is_newest),
    Mutant(
        "a quantile rounds up", edited(quantiles.ExactQuantile.finish, "math.floor(", "math.ceil(")
    ),
    Mutant(
        "the values of an approximate quantile are as they came",
        edited(
            quantiles._few,
            "sorted(values, key=_ascending if any(map(math.isnan, values)) else None)",
            "values",
        ),
    ),
    Mutant(
        "a sum decays in steps",
        edited(decay.DecayingSum.finish, "-rest / self.half_life_us", "0"),
    ),
    Mutant(
        "a position keeps the last arrival",
        edited(Algebra.scatter, "for at in members", "for at in members[1:]"),
    ),
]
SPANS = [
    Mutant(
        "a continuous window is open at its begin",
        edited(
            window_ranges.span,
            "return as_of - duration, as_of",
            "return as_of - duration + 1, as_of",
        ),
    ),
    Mutant(
        "before the epoch windows are cut toward it",
        edited(
            window_spans.newest_closed,
            "(until - length) // stride * stride",
            "int((until - length) / stride) * stride",
        ),
    ),
    Mutant(
        "hopping windows end at a multiple of their stride",
        edited(
            window_spans.newest_closed,
            "(until - length) // stride * stride",
            "until // stride * stride - length",
        ),
    ),
    Mutant(
        "a lookback of a tumbling window looks ahead",
        edited(window_spans.newest_closed, "as_of - window.lookback", "as_of + window.lookback"),
    ),
    Mutant(
        "an instant is in the span that ends with it",
        edited(
            window_spans.spans_of,
            "(event_time - length) // stride + 1",
            "(event_time - length) // stride",
        ),
    ),
    Mutant(
        "the newest span has no lookback",
        edited(window_spans.newest_closed, "as_of - window.lookback", "as_of"),
    ),
    Mutant(
        "a row leaves a continuous window too early",
        edited(
            window_spans.counted_during,
            "event_time + window.duration + 1",
            "event_time + window.duration",
        ),
    ),
    Mutant(
        "a row counts before its lookback",
        edited(window_spans.counted_during, "length + window.lookback", "length"),
    ),
    Mutant("the gap of a session is exclusive", edited(window_spans.sessions, "<= gap", "< gap")),
]
MUTANTS = [*ALGEBRAS, *SPANS]
"""Each must be caught by the laws of algebras and spans, or by the reference's folds."""
