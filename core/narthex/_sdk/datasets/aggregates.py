"""The arguments of `aggregate`: `Count(window=…)`, `Sum(of=…, window=…)` and the others."""

from datetime import date
from decimal import Decimal
from typing import TypeAlias

import attrs

from narthex._base.times import parse_duration
from narthex._ir import aggregate_specs as specs
from narthex._ir.aggregate_specs import AggregateSpec
from narthex._ir.aggregate_types import is_ordered
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType, Float, inner, unrestricted
from narthex._ir.types import Decimal as DecimalType
from narthex._ir.windows import Window
from narthex._sdk.declare.literals import MisfitError, literal_of

Extremal: TypeAlias = int | float | Decimal | date
"""The default of a least or greatest value; an instant is also a `date`."""


@attrs.frozen(kw_only=True)
class Count:
    """The number of rows; with `unique`, the number of distinct values of a column.

    The result is an `int`; without rows, it is 0.

    Attributes:
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        of: The column; only `unique` and `dropnull` need it.
        unique: Count distinct values; not for `float` and `datetime` columns.
        approx: Whether an estimate is acceptable for more than 1,024 distinct values; one
            sigma is 0.8 %.
        dropnull: Leave nulls out; for `Optional` columns. Otherwise null counts as one value.
    """

    window: Window | None = None
    into_field: str = ""
    of: str | None = None
    unique: bool = False
    approx: bool = False
    dropnull: bool = False

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Count(
            into=into,
            window=window,
            of=self.of,
            unique=self.unique,
            approx=self.approx,
            dropnull=self.dropnull,
        )


@attrs.frozen(kw_only=True)
class Sum:
    """The sum of a column of numbers, of the column's type; nulls are skipped.

    Without rows, it is 0.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
    """

    of: str
    window: Window | None = None
    into_field: str = ""

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Sum(into=into, window=window, of=self.of)


@attrs.frozen(kw_only=True)
class Average:
    """The mean of a column of numbers, a `float`; nulls are skipped.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        default: The value without rows; with None it is null, and the result `Optional[float]`.
    """

    of: str
    window: Window | None = None
    into_field: str = ""
    default: float | None = 0.0

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Average(into=into, window=window, of=self.of, default=self.default)


@attrs.frozen(kw_only=True)
class Min:
    """The least value of a column of numbers, days or instants, of its type; nulls are skipped.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        default: The value without rows, of the column's type; with None it is null, and the
            result is `Optional`.
    """

    of: str
    window: Window | None = None
    into_field: str = ""
    default: Extremal | None = None

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Min(into=into, window=window, of=self.of)

    def build_of(self, into: str, window: Window, of: DataType) -> AggregateSpec:
        """Return the spec with the default as a literal of the column's type.

        Raises:
            MisfitError: The default is not a value of that type.
        """
        default = _extremal(self.default, of)
        return specs.Min(into=into, window=window, of=self.of, default=default)


@attrs.frozen(kw_only=True)
class Max:
    """The greatest value of a column of numbers, days or instants, of its type; nulls are skipped.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        default: The value without rows, of the column's type; with None it is null, and the
            result is `Optional`.
    """

    of: str
    window: Window | None = None
    into_field: str = ""
    default: Extremal | None = None

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Max(into=into, window=window, of=self.of)

    def build_of(self, into: str, window: Window, of: DataType) -> AggregateSpec:
        """Return the spec with the default as a literal of the column's type.

        Raises:
            MisfitError: The default is not a value of that type.
        """
        default = _extremal(self.default, of)
        return specs.Max(into=into, window=window, of=self.of, default=default)


@attrs.frozen(kw_only=True)
class Stddev:
    """The population standard deviation of a column of numbers, a `float`; nulls are skipped.

    For one row, it is 0.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        default: The value without rows; with None it is null, and the result `Optional[float]`.
    """

    of: str
    window: Window | None = None
    into_field: str = ""
    default: float | None = -1.0

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Stddev(into=into, window=window, of=self.of, default=self.default)


@attrs.frozen(kw_only=True)
class LastK:
    """The last values of a column as a list, newest first; without rows, an empty list.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        limit: The greatest number of values; at least 1.
        dedup: Include each value once, at its last occurrence.
        dropnull: Leave nulls out; otherwise they are values, and the list's items are `Optional`.
    """

    of: str
    window: Window | None = None
    limit: int
    dedup: bool
    into_field: str = ""
    dropnull: bool = False

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.LastK(
            into=into,
            window=window,
            of=self.of,
            limit=self.limit,
            dedup=self.dedup,
            dropnull=self.dropnull,
        )


@attrs.frozen(kw_only=True)
class FirstK:
    """The first values of a column as a list, oldest first; without rows, an empty list.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        limit: The greatest number of values; at least 1.
        dedup: Include each value once, at its first occurrence.
        dropnull: Leave nulls out; for `Optional` columns. Otherwise they are values.
    """

    of: str
    window: Window | None = None
    limit: int
    dedup: bool
    dropnull: bool
    into_field: str = ""

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.FirstK(
            into=into,
            window=window,
            of=self.of,
            limit=self.limit,
            dedup=self.dedup,
            dropnull=self.dropnull,
        )


@attrs.frozen(kw_only=True)
class Distinct:
    """The distinct values of a column as a list, in the order of their first occurrence.

    Without rows, it is an empty list. Columns with floats, days or instants are not supported.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        unordered: Whether any order is acceptable; the order is the same either way.
        dropnull: Leave null out; otherwise it is a value.
    """

    of: str
    window: Window | None = None
    unordered: bool
    into_field: str = ""
    dropnull: bool = False

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Distinct(
            into=into,
            window=window,
            of=self.of,
            unordered=self.unordered,
            dropnull=self.dropnull,
        )


@attrs.frozen(kw_only=True)
class Quantile:
    """The value below which a share `p` of a column's numbers lies, a `float`; nulls are skipped.

    Of n ascending values, it is the one at floor(p·n), counted from 0, at most the last one.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        p: From 0 to 1.
        default: The value without rows; with None it is null, and the result `Optional[float]`.
        approx: Whether a number within 1 % is acceptable for more than 1,024 values.
    """

    of: str
    window: Window | None = None
    p: float
    into_field: str = ""
    default: float | None = None
    approx: bool = False

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.Quantile(
            into=into,
            window=window,
            of=self.of,
            p=self.p,
            default=self.default,
            approx=self.approx,
        )


@attrs.frozen(kw_only=True)
class ExpDecaySum:
    """The sum of a column's numbers, each of which halves per `half_life` from its instant on.

    It is a `float` as of the instant of the lookup, to the microsecond. Nulls are skipped; without
    rows, it is 0.

    Attributes:
        of: The column.
        window: By default, the window of `groupby`.
        into_field: The column of the result; omitted if a keyword names it.
        half_life: A duration above zero, such as `1d`.
    """

    of: str
    window: Window | None = None
    half_life: str
    into_field: str = ""

    def build(self, into: str, window: Window) -> AggregateSpec:
        return specs.ExpDecaySum(
            into=into,
            window=window,
            of=self.of,
            half_life_us=parse_duration(self.half_life),
        )


Aggregate: TypeAlias = (
    Count | Sum | Average | Min | Max | Stddev | LastK | FirstK | Distinct | Quantile | ExpDecaySum
)


def _extremal(default: Extremal | None, of: DataType) -> float | None:
    base = unrestricted(inner(of))
    if default is None or not is_ordered(base):
        return None
    if isinstance(base, Float) and isinstance(default, int | float):
        return default
    if isinstance(base, DecimalType) and isinstance(default, float):
        default = Decimal(str(default))
    try:
        literal = literal_of(default, base)
    except MisfitError:
        raise MisfitError(f"default value `{default}` is not of type `{type_name(base)}`") from None
    return literal if isinstance(literal, int | float) else None
