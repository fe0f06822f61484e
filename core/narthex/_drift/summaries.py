"""Mergeable statistics of one feature over any rows: an hour of logged answers, or many hours.

Merging is associative and commutative, and a merge equals the summary of all rows at once; only the
list of frequent values is bounded, by parts (`CategoryCounts`).
"""

import enum
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np

from narthex._aggregates import hyperloglog
from narthex._base.records import Json
from narthex._drift.category_counts import (
    CategoryCounts,
    categories_of,
    merged_categories,
    packed_sketch,
    sketch_of,
    unpacked_sketch,
)
from narthex._drift.number_counts import (
    InvalidSummaryError,
    NumberCounts,
    bounded,
    count_of,
    counts_of,
    merged,
)
from narthex._ir.types import Bool, DataType, Date, Decimal, Float, Int, Str, base_type, inner
from narthex._training.statistics import MOST_TOP, PERCENTILES, FeatureStatistics

MOST_BYTES: Final = 1 << 20
"""The greatest size of a summary that is read."""

MOST_BINS: Final = 64
"""The greatest number of bins of a histogram."""


class FeatureKind(enum.Enum):
    """How the values of a feature are counted."""

    NUMBER = "number"
    CATEGORY = "category"
    OPAQUE = "opaque"
    """Only rows and nulls are counted: lists, structs, instants and the like."""


def kind_of(of: DataType) -> FeatureKind:
    """Return how values of a type are counted."""
    match base_type(inner(of)):
        case Int() | Float() | Decimal():
            return FeatureKind.NUMBER
        case Bool() | Str() | Date():
            return FeatureKind.CATEGORY
        case _:
            return FeatureKind.OPAQUE


@attrs.frozen(kw_only=True)
class FeatureSummary:
    """Statistics of one feature.

    Attributes:
        rows: The number of rows.
        nulls: How many of them have no value.
        not_finite: How many have an infinite value or NaN.
        numbers: The counts of the other values, of a feature of numbers.
        distinct: The sketch of the different finite numbers.
        categories: The counts of the values, of a feature of categories.
    """

    kind: FeatureKind
    rows: int = 0
    nulls: int = 0
    not_finite: int = 0
    numbers: NumberCounts = NumberCounts()
    distinct: hyperloglog.Sketch = attrs.field(factory=list)
    categories: CategoryCounts = attrs.field(factory=CategoryCounts)

    @property
    def values(self) -> int:
        """How many rows have a value that is neither null nor infinite nor NaN."""
        return self.rows - self.nulls - self.not_finite

    def encoded(self) -> bytes:
        """Encode the summary, compressed."""
        return zlib.compress(json.dumps(self.plain(), separators=(",", ":")).encode())

    @classmethod
    def decoded(cls, encoded: bytes) -> "FeatureSummary":
        """Decode a summary.

        Raises:
            InvalidSummaryError: It is none.
        """
        try:
            inflated = zlib.decompressobj().decompress(encoded, MOST_BYTES)
            return cls.of_plain(json.loads(inflated))
        except (ValueError, zlib.error) as error:
            raise InvalidSummaryError(f"a summary of a feature is malformed: {error}") from None

    def plain(self) -> dict[str, Json]:
        """Return the summary as JSON."""
        counted: dict[str, Json] = {
            "kind": self.kind.value,
            "rows": self.rows,
            "nulls": self.nulls,
            "not_finite": self.not_finite,
        }
        match self.kind:
            case FeatureKind.NUMBER:
                counted["numbers"] = self.numbers.plain()
                counted["distinct"] = packed_sketch(self.distinct)
            case FeatureKind.CATEGORY:
                counted["categories"] = self.categories.plain()
            case FeatureKind.OPAQUE:
                pass
        return counted

    @classmethod
    def of_plain(cls, plain: Json) -> "FeatureSummary":
        """Read a summary from JSON.

        Raises:
            InvalidSummaryError: It is none.
        """
        if not isinstance(plain, dict):
            raise InvalidSummaryError("a summary of a feature is malformed")
        kind = plain.get("kind")
        match kind:
            case FeatureKind.NUMBER.value:
                found = cls(
                    kind=FeatureKind.NUMBER,
                    numbers=NumberCounts.of_plain(plain.get("numbers")),
                    distinct=unpacked_sketch(plain.get("distinct")),
                )
            case FeatureKind.CATEGORY.value:
                found = cls(
                    kind=FeatureKind.CATEGORY,
                    categories=CategoryCounts.of_plain(plain.get("categories")),
                )
            case FeatureKind.OPAQUE.value:
                found = cls(kind=FeatureKind.OPAQUE)
            case _:
                raise InvalidSummaryError(f"`{kind}` is not a kind of feature")
        return attrs.evolve(
            found,
            rows=count_of(plain.get("rows")),
            nulls=count_of(plain.get("nulls")),
            not_finite=count_of(plain.get("not_finite")),
        )

    def histogram(self) -> list[tuple[float, int]]:
        """Return the bins of numbers: the bound towards zero of each, and how many are in it.

        There are at most 64, as narrow as the numbers allow; none for features of other kinds.
        """
        if not self.numbers.values:
            return []
        coarse = bounded(self.numbers, MOST_BINS)
        return [*zip(coarse.values, coarse.counts, strict=True)]

    def statistics(self) -> FeatureStatistics:
        """Return the statistics as those of a training set, rounded to the counted precision."""
        counted = FeatureStatistics(rows=self.rows, nulls=self.nulls, not_finite=self.not_finite)
        match self.kind:
            case FeatureKind.NUMBER:
                return attrs.evolve(
                    counted,
                    mean=self.numbers.mean,
                    stddev=self.numbers.stddev,
                    least=self.numbers.least,
                    greatest=self.numbers.greatest,
                    percentiles=_percentiles(self.numbers),
                    distinct=hyperloglog.estimate(self.distinct),
                    top=_top_numbers(self.numbers),
                )
            case FeatureKind.CATEGORY:
                top = tuple(
                    (json.loads(value), count) for value, count in self.categories.listed[:MOST_TOP]
                )
                return attrs.evolve(counted, distinct=self.categories.estimated_distinct, top=top)
            case FeatureKind.OPAQUE:
                return counted


def summary_of(values: Sequence[Json], kind: FeatureKind) -> FeatureSummary:
    """Summarize the values of some rows.

    Args:
        values: The values as answers render them, one per row.
        kind: How they are counted.

    Raises:
        InvalidSummaryError: A value of a feature of numbers is not a number.
    """
    present = [value for value in values if value is not None]
    counted = FeatureSummary(kind=kind, rows=len(values), nulls=len(values) - len(present))
    match kind:
        case FeatureKind.NUMBER:
            return _of_numbers(counted, present)
        case FeatureKind.CATEGORY:
            counts = Counter(json.dumps(value, ensure_ascii=False) for value in present)
            return attrs.evolve(counted, categories=categories_of(counts))
        case FeatureKind.OPAQUE:
            return counted


def merged_summary(parts: Iterable[FeatureSummary]) -> FeatureSummary:
    """Return the summary of the rows of all parts.

    Raises:
        InvalidSummaryError: There is none, or they are of several kinds.
    """
    given = list(parts)
    kinds = {part.kind for part in given}
    if len(kinds) != 1:
        raise InvalidSummaryError(f"{len(given)} summaries of {len(kinds)} kinds cannot be merged")
    return FeatureSummary(
        kind=given[0].kind,
        rows=sum(part.rows for part in given),
        nulls=sum(part.nulls for part in given),
        not_finite=sum(part.not_finite for part in given),
        numbers=merged(part.numbers for part in given),
        distinct=hyperloglog.union([part.distinct for part in given]),
        categories=merged_categories(part.categories for part in given),
    )


def _of_numbers(counted: FeatureSummary, present: Sequence[Json]) -> FeatureSummary:
    try:
        numbers = np.array([float(value) for value in present], dtype=np.float64)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidSummaryError("a value of a feature of numbers is not a number") from None
    is_finite = np.isfinite(numbers)
    finite = numbers[is_finite] + 0.0
    return attrs.evolve(
        counted,
        not_finite=int(np.count_nonzero(~is_finite)),
        numbers=counts_of(finite),
        distinct=sketch_of(map(repr, np.unique(finite).tolist())),
    )


def _percentiles(numbers: NumberCounts) -> tuple[float, ...]:
    """Return the least value, for each percentage, that so many of the numbers do not exceed."""
    if not numbers.values:
        return ()
    until = np.cumsum(numbers.counts)
    ranks = [max(1, math.ceil(p * int(until[-1]) / (PERCENTILES - 1))) for p in range(PERCENTILES)]
    places = np.searchsorted(until, ranks, side="left")
    return tuple(np.array(numbers.values)[places].tolist())


def _top_numbers(numbers: NumberCounts) -> tuple[tuple[Json, int], ...]:
    if numbers.dropped_bits:
        return ()
    counted = zip(numbers.values, numbers.counts, strict=True)
    return tuple(sorted(counted, key=lambda one: (-one[1], one[0]))[:MOST_TOP])
