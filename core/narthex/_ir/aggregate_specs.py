"""The aggregates that an author can declare, as frozen values."""

from typing import TypeAlias

import attrs

from narthex._base.records import record
from narthex._ir.types import DataType
from narthex._ir.windows import Window


@record
@attrs.frozen(kw_only=True)
class Count:
    """The number of rows or, of a column with `unique`, the number of distinct values."""

    into: str
    window: Window
    of: str | None = None
    unique: bool = False
    approx: bool = False
    dropnull: bool = False


@record
@attrs.frozen(kw_only=True)
class Sum:
    """The sum of a column; skips nulls and is zero for no rows."""

    into: str
    window: Window
    of: str


@record
@attrs.frozen(kw_only=True)
class Average:
    """The mean of a column; skips nulls."""

    into: str
    window: Window
    of: str
    default: float | None = 0.0


@record
@attrs.frozen(kw_only=True)
class Min:
    """The least value of a column; skips nulls.

    Attributes:
        default: The value for no rows, a literal of the column's type: instants are microseconds,
            dates days, decimals unscaled integers.
    """

    into: str
    window: Window
    of: str
    default: int | float | None = None


@record
@attrs.frozen(kw_only=True)
class Max:
    """The greatest value of a column; skips nulls.

    Attributes:
        default: As in `Min`.
    """

    into: str
    window: Window
    of: str
    default: int | float | None = None


@record
@attrs.frozen(kw_only=True)
class Stddev:
    """The population standard deviation of a column; skips nulls."""

    into: str
    window: Window
    of: str
    default: float | None = -1.0


@record
@attrs.frozen(kw_only=True)
class LastK:
    """The last `limit` values of a column, newest first."""

    into: str
    window: Window
    of: str
    limit: int
    dedup: bool
    dropnull: bool = False


@record
@attrs.frozen(kw_only=True)
class FirstK:
    """The first `limit` values of a column, oldest first."""

    into: str
    window: Window
    of: str
    limit: int
    dedup: bool
    dropnull: bool


@record
@attrs.frozen(kw_only=True)
class Distinct:
    """The distinct values of a column, in order of first appearance."""

    into: str
    window: Window
    of: str
    unordered: bool
    dropnull: bool = False


@record
@attrs.frozen(kw_only=True)
class Quantile:
    """The element at floor(p·n), clamped, of a column's ascending values; skips nulls.

    Attributes:
        approx: Whether the result for more than 1,024 values may differ by up to 1 %.
    """

    into: str
    window: Window
    of: str
    p: float
    default: float | None = None
    approx: bool = False


@record
@attrs.frozen(kw_only=True)
class ExpDecaySum:
    """The sum of a column's values, each halved once per half-life since its own instant."""

    into: str
    window: Window
    of: str
    half_life_us: int


AggregateSpec: TypeAlias = (
    Count | Sum | Average | Min | Max | Stddev | LastK | FirstK | Distinct | Quantile | ExpDecaySum
)


@record
@attrs.frozen
class TypedAggregate:
    """A spec with the types that result from the input's schema.

    Attributes:
        spec: The author's spec.
        input: The type of the column `of`; None for a bare count.
        output: The type of the result.
    """

    spec: AggregateSpec
    input: DataType | None
    output: DataType
