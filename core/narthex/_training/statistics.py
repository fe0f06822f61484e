# mypy: disable-error-code="type-arg, misc, explicit-any"
"""Statistics of a feature over the rows of a training set, for a later comparison of its values.

The percentiles of numbers give the bins of a population stability index, and the share of rows in
each: two training sets, or a training set and answered queries, are compared without their rows.
"""

import math
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from narthex._base.records import Json
from narthex._formats.arrow import array_of, cells_of
from narthex._formats.json_cells import render_cell
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bool,
    DataType,
    Date,
    Datetime,
    Decimal,
    Float,
    Int,
    Str,
    base_type,
    inner,
)

PERCENTILES: Final = 101
"""The number of percentiles, from the least value to the greatest one."""

MOST_TOP: Final = 50
"""The greatest number of frequent values that are listed."""

LONGEST_TOP: Final = 200
"""The greatest number of characters of a listed text."""

_NUMBERS: Final = (Int, Float, Decimal)
_ORDERED: Final = (Int, Float, Decimal, Date, Datetime)
_COUNTED: Final = (Int, Bool, Str, Date, Decimal)
"""The types whose values are counted one by one: few of them are frequent in the others."""


@attrs.frozen(kw_only=True)
class FeatureStatistics:
    """Statistics of one feature.

    Attributes:
        rows: The number of rows.
        nulls: How many of them have no value.
        defaults: How many have the value that the feature has for a key that was never seen; None
            if it has none, or is not looked up by a key.
        not_finite: How many have an infinite value or NaN; the following numbers are without them.
        mean: The mean of numbers.
        stddev: Their sample standard deviation; None for fewer than two.
        least: The least value, of a type with an order.
        greatest: The greatest value.
        percentiles: For numbers, 101 values: at position p the least one for which at least p
            percent of all values are not greater; empty without values.
        distinct: How many different values there are, of a type whose values are counted.
        top: The most frequent values and how often each occurs, the most frequent first; without
            texts of more than 200 characters, or with the character NUL.
    """

    rows: int
    nulls: int
    defaults: int | None = None
    not_finite: int = 0
    mean: float | None = None
    stddev: float | None = None
    least: Json = None
    greatest: Json = None
    percentiles: tuple[float, ...] = ()
    distinct: int | None = None
    top: tuple[tuple[Json, int], ...] = ()

    def plain(self) -> dict[str, Json]:
        """Return the statistics as JSON."""
        return {
            **attrs.asdict(self),
            "percentiles": [*self.percentiles],
            "top": [[value, count] for value, count in self.top],
        }

    @classmethod
    def of_plain(cls, plain: Json) -> "FeatureStatistics":
        """Read statistics from JSON.

        Raises:
            ValueError: They are none.
        """
        match plain:
            case {
                "rows": int(rows),
                "nulls": int(nulls),
                "defaults": int() | None as defaults,
                "not_finite": int(not_finite),
                "mean": int() | float() | None as mean,
                "stddev": int() | float() | None as stddev,
                "least": least,
                "greatest": greatest,
                "percentiles": list(percentiles),
                "distinct": int() | None as distinct,
                "top": list(top),
            }:
                return cls(
                    rows=rows,
                    nulls=nulls,
                    defaults=defaults,
                    not_finite=not_finite,
                    mean=mean,
                    stddev=stddev,
                    least=least,
                    greatest=greatest,
                    percentiles=tuple(float(str(one)) for one in percentiles),
                    distinct=distinct,
                    top=tuple(map(_counted, top)),
                )
            case _:
                raise ValueError("the statistics of a feature are malformed")


def statistics_of(column: pa.ChunkedArray, of: DataType, default: Cell = None) -> FeatureStatistics:
    """Return the statistics of a feature.

    Args:
        column: Its values, one per row, as `narthex._formats.arrow` writes them.
        of: Its type.
        default: Its value for a key that was never seen; None without one.
    """
    base = base_type(inner(of))
    found = FeatureStatistics(
        rows=len(column),
        nulls=column.null_count,
        defaults=None if default is None else _equal(column, of, default),
    )
    values = column.drop_null()
    if isinstance(base, _NUMBERS):
        numbers = _numbers(values)
        is_finite = np.isfinite(numbers)
        values = values.filter(pa.array(is_finite))
        found = attrs.evolve(found, not_finite=int(np.count_nonzero(~is_finite)))
        found = _with_moments(found, numbers[is_finite])
    if isinstance(base, _ORDERED) and len(values):
        ends = pc.min_max(values)
        least, greatest = (_rendered(ends[end], base) for end in ("min", "max"))
        found = attrs.evolve(found, least=least, greatest=greatest)
    if isinstance(base, _COUNTED):
        found = _with_counts(found, values, base)
    return found


def _equal(column: pa.ChunkedArray, of: DataType, default: Cell) -> int | None:
    wanted = array_of([default], of)[0]
    if pa.types.is_nested(column.type):
        return None
    return len(column.filter(pc.equal(column, wanted)))


def _numbers(values: pa.ChunkedArray) -> np.ndarray:
    numbers: np.ndarray = values.cast(pa.float64(), safe=False).to_numpy()
    return numbers


def _with_moments(found: FeatureStatistics, finite: np.ndarray) -> FeatureStatistics:
    if not len(finite):
        return found
    shares = np.linspace(0.0, 1.0, PERCENTILES)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(finite.mean())
        stddev = float(finite.std(ddof=1)) if len(finite) > 1 else math.nan
    return attrs.evolve(
        found,
        mean=mean if math.isfinite(mean) else None,
        stddev=stddev if math.isfinite(stddev) else None,
        percentiles=tuple(np.quantile(finite, shares, method="inverted_cdf").tolist()),
    )


def _with_counts(
    found: FeatureStatistics, values: pa.ChunkedArray, base: DataType
) -> FeatureStatistics:
    counted = values.value_counts()
    counts = [int(count or 0) for count in counted.field("counts").to_pylist()]
    cells = cells_of(counted.field("values"), base)
    rendered = [(render_cell(c, base), count) for c, count in zip(cells, counts, strict=True)]
    top = sorted(filter(_is_listed, rendered), key=lambda one: (-one[1], str(one[0])))[:MOST_TOP]
    return attrs.evolve(found, distinct=len(rendered), top=tuple(top))


def _counted(pair: Json) -> tuple[Json, int]:
    match pair:
        case [value, int(count)]:
            return value, count
        case _:
            raise ValueError("a counted value is malformed")


def _is_listed(counted: tuple[Json, int]) -> bool:
    value, _ = counted
    # PostgreSQL stores no text with the character NUL.
    return not isinstance(value, str) or (len(value) <= LONGEST_TOP and "\0" not in value)


def _rendered(scalar: pa.Scalar, base: DataType) -> Json:
    (cell,) = cells_of(pa.array([scalar.as_py()], scalar.type), base)
    return render_cell(cell, base)
