"""The algebra of each aggregate spec."""

from typing import TypeAlias, assert_never

from narthex._aggregates.algebra import Algebra
from narthex._aggregates.counts import ApproximateCount, DistinctCount, RowCount
from narthex._aggregates.decay import DecayingSum
from narthex._aggregates.extremes import Extreme
from narthex._aggregates.lists import NewestValues, OldestValues
from narthex._aggregates.moments import ExactStddev, FloatStddev
from narthex._aggregates.numeric import bounds_of, default_cell, is_float, unit_of
from narthex._aggregates.quantiles import ApproximateQuantile, ExactQuantile
from narthex._aggregates.sums import ExactAverage, ExactSum, FloatAverage, FloatSum
from narthex._formats.cells import cell_bytes, from_storage, to_storage
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
from narthex._ir.types import DataType

_OfColumn: TypeAlias = (
    Sum | Average | Min | Max | Stddev | LastK | FirstK | Distinct | Quantile | ExpDecaySum
)


class MissingInputError(ValueError):
    """An aggregate of a column whose type is missing."""


def algebra(aggregate: TypedAggregate) -> Algebra:
    """Return the algebra of an aggregate; it does not depend on the window.

    Raises:
        MissingInputError: It requires a column, and `input` is None.
    """
    spec = aggregate.spec
    if isinstance(spec, Count):
        return _count(spec, aggregate.input)
    if aggregate.input is None:
        raise MissingInputError(f"`{spec.into}` aggregates a column of unknown type")
    return _of_column(spec, aggregate.input)


def _count(spec: Count, of: DataType | None) -> Algebra:
    if not spec.unique:
        return RowCount(dropnull=spec.dropnull)
    if of is None:
        raise MissingInputError(f"`{spec.into}` counts values of an unknown column")
    counted = ApproximateCount if spec.approx else DistinctCount
    return counted(encode=cell_bytes(of), dropnull=spec.dropnull)


def _of_column(spec: _OfColumn, of: DataType) -> Algebra:
    match spec:
        case Sum() | Average() | Stddev():
            return _float(spec) if is_float(of) else _exact(spec, of)
        case Min(default=default):
            return Extreme(choose=min, floats=is_float(of), default=default_cell(default, of))
        case Max(default=default):
            return Extreme(choose=max, floats=is_float(of), default=default_cell(default, of))
        case LastK() | FirstK() | Distinct():
            return _values(spec, of)
        case Quantile():
            return _quantile(spec, of)
        case ExpDecaySum(half_life_us=half_life_us):
            return DecayingSum(half_life_us=half_life_us, unit=unit_of(of))
        case _:
            assert_never(spec)


def _quantile(spec: Quantile, of: DataType) -> Algebra:
    default = _float_default(spec.default)
    if spec.approx:
        return ApproximateQuantile(p=spec.p, unit=unit_of(of), default=default)
    return ExactQuantile(p=spec.p, unit=None if is_float(of) else unit_of(of), default=default)


def _values(spec: LastK | FirstK | Distinct, of: DataType) -> Algebra:
    identify = cell_bytes(of)
    lower, lift = to_storage(of), from_storage(of)
    match spec:
        case LastK(limit=limit, dedup=dedup, dropnull=dropnull):
            return NewestValues(
                limit=limit,
                dropnull=dropnull,
                identify=identify if dedup else None,
                lower=lower,
                lift=lift,
            )
        case FirstK(limit=limit, dedup=dedup, dropnull=dropnull):
            return OldestValues(
                limit=limit,
                dropnull=dropnull,
                identify=identify if dedup else None,
                lower=lower,
                lift=lift,
            )
        case Distinct(dropnull=dropnull):
            return OldestValues(
                limit=None, dropnull=dropnull, identify=identify, lower=lower, lift=lift
            )
        case _:
            assert_never(spec)


def _float(spec: Sum | Average | Stddev) -> Algebra:
    match spec:
        case Sum():
            return FloatSum()
        case Average(default=default):
            return FloatAverage(default=_float_default(default))
        case Stddev(default=default):
            return FloatStddev(default=_float_default(default))
        case _:
            assert_never(spec)


def _exact(spec: Sum | Average | Stddev, of: DataType) -> Algebra:
    match spec:
        case Sum():
            least, greatest = bounds_of(of)
            return ExactSum(least=least, greatest=greatest)
        case Average(default=default):
            return ExactAverage(unit=unit_of(of), default=_float_default(default))
        case Stddev(default=default):
            return ExactStddev(unit=unit_of(of), default=_float_default(default))
        case _:
            assert_never(spec)


def _float_default(default: float | None) -> float | None:
    return None if default is None else float(default)


def parameters(spec: AggregateSpec) -> tuple[bool | int, ...]:
    """Return all parameters, besides kind and column, that change the state of an aggregate."""
    match spec:
        case Count():
            return (spec.unique, spec.approx, spec.dropnull)
        case LastK() | FirstK():
            return (spec.limit, spec.dedup, spec.dropnull)
        case Distinct():
            return (spec.dropnull,)
        case ExpDecaySum():
            return (spec.half_life_us,)
        case Quantile():
            return (spec.approx,)
        case Sum() | Average() | Min() | Max() | Stddev():
            return ()
        case _:
            assert_never(spec)
