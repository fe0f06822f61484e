"""What an author asks an aggregate to compute."""

from typing import TypeAlias

import attrs

from narthex._base.records import record
from narthex._ir.types import DataType
from narthex._ir.windows import Window


@record
@attrs.frozen(kw_only=True)
class Count:
    """How many rows; of a column with `unique`, how many distinct values."""

    into: str
    window: Window
    of: str | None = None
    unique: bool = False
    approx: bool = False
    dropnull: bool = False


@record
@attrs.frozen(kw_only=True)
class Sum:
    """The sum of a column; nulls are skipped, empty is zero."""

    into: str
    window: Window
    of: str


@record
@attrs.frozen(kw_only=True)
class Average:
    """The mean of a column; nulls are skipped."""

    into: str
    window: Window
    of: str
    default: float | None = 0.0


@record
@attrs.frozen(kw_only=True)
class Min:
    """The least value of a column; nulls are skipped.

    Attributes:
        default: The value of no rows, a literal of the column's type: instants are microseconds,
            dates days, decimals unscaled integers.
    """

    into: str
    window: Window
    of: str
    default: int | float | None = None


@record
@attrs.frozen(kw_only=True)
class Max:
    """The greatest value of a column; nulls are skipped.

    Attributes:
        default: As that of `Min`.
    """

    into: str
    window: Window
    of: str
    default: int | float | None = None


@record
@attrs.frozen(kw_only=True)
class Stddev:
    """The population standard deviation of a column; nulls are skipped."""

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
    """The distinct values of a column, in the order in which they were first seen."""

    into: str
    window: Window
    of: str
    unordered: bool
    dropnull: bool = False


@record
@attrs.frozen(kw_only=True)
class Quantile:
    """The element at floor(p·n), clamped, of a column's ascending values; nulls are skipped.

    Attributes:
        approx: Of more than 1,024 values, a number within 1 % of it.
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
    """The sum of a column's values, each halved once per half-life from its instant on."""

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
    """A spec with the types that the input's schema gives it.

    Attributes:
        spec: What was asked.
        input: The type of the column `of`; None for a bare count.
        output: The type of the result.
    """

    spec: AggregateSpec
    input: DataType | None
    output: DataType
