"""The input types that each aggregate accepts, and its output type."""

from enum import Flag, auto
from typing import TypeAlias, assert_never

import attrs

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
from narthex._ir.literals import is_literal_of
from narthex._ir.type_names import type_name
from narthex._ir.types import (
    DataType,
    Decimal,
    Float,
    Int,
    List,
    Optional,
    TypeMapper,
    inner,
    unrestricted,
)

Typing: TypeAlias = "TypedAggregate | Misfit"


@attrs.frozen
class Misfit:
    """The reason, for people, why an aggregate cannot be computed from its column."""

    message: str


def type_aggregate(spec: AggregateSpec, of: DataType | None) -> Typing:
    """Return the spec with its types, or the reason why the column's type does not fit.

    `of` is the type of the column `spec.of`, or None when the spec names no column.
    """
    match spec:
        case Count():
            return _count(spec, of)
        case LastK() | FirstK():
            return _some(spec, of)
        case Distinct():
            return _distinct(spec, of)
        case Sum() | Average() | Stddev() | Quantile() | ExpDecaySum():
            return _numeric(spec, of)
        case Min() | Max():
            return _extreme(spec, of)
        case _:
            assert_never(spec)


class _ColumnUse(Flag):
    """The uses of a column of a type."""

    NONE = 0
    DISTINCT = auto()
    KEY = auto()
    ORDER = auto()


def is_hashable(of: DataType) -> bool:
    """Return whether equality of the type's values is exact, so that a value can be a key."""
    return _ColumnUse.DISTINCT in _USES(of)


def is_key(of: DataType) -> bool:
    """Return whether rows can be grouped by a column of the type: not nullable and not a float."""
    return _ColumnUse.KEY in _USES(of)


def is_ordered(of: DataType) -> bool:
    """Return whether a column of the type has a least and a greatest value."""
    return _ColumnUse.ORDER in _USES(of)


_USES: TypeMapper[_ColumnUse] = TypeMapper(
    int=_ColumnUse.DISTINCT | _ColumnUse.KEY | _ColumnUse.ORDER,
    float=_ColumnUse.ORDER,
    bool=_ColumnUse.DISTINCT | _ColumnUse.KEY,
    str=_ColumnUse.DISTINCT | _ColumnUse.KEY,
    bytes=_ColumnUse.KEY,
    datetime=_ColumnUse.KEY | _ColumnUse.ORDER,
    date=_ColumnUse.KEY | _ColumnUse.ORDER,
    decimal=lambda _: _ColumnUse.DISTINCT | _ColumnUse.KEY | _ColumnUse.ORDER,
    list=lambda _, item: _ColumnUse.KEY | item & _ColumnUse.DISTINCT,
    map=lambda _, value: _ColumnUse.KEY | value & _ColumnUse.DISTINCT,
    embedding=lambda _, __: _ColumnUse.NONE,
    struct=lambda _, __: _ColumnUse.KEY,
    optional=lambda _, uses: uses & ~_ColumnUse.KEY,
    null=lambda: _ColumnUse.NONE,
)


def _count(spec: Count, of: DataType | None) -> Typing:
    if spec.unique and of is None:
        return Misfit("a unique count needs a column, but `of` is missing")
    if spec.dropnull and of is None:
        return Misfit("a count that drops nulls needs a column, but `of` is missing")
    if of is not None and spec.unique and not is_hashable(of):
        return Misfit(
            f"column `{spec.of}` of type `{type_name(of)}` cannot be counted by its distinct values"
        )
    if of is not None and spec.dropnull and not isinstance(of, Optional):
        return Misfit(
            f"column `{spec.of}` of type `{type_name(of)}` has no nulls that a count could drop"
        )
    return TypedAggregate(spec, of, Int())


def _some(spec: LastK | FirstK, of: DataType | None) -> Typing:
    which = "last" if isinstance(spec, LastK) else "first"
    if of is None:
        return Misfit(f"the {which} values need a column, but `of` is missing")
    if spec.limit < 1:
        return Misfit(f"limit `{spec.limit}` is too small; it must be at least 1")
    if isinstance(spec, FirstK) and spec.dropnull and not isinstance(of, Optional):
        return Misfit(
            f"column `{spec.of}` of type `{type_name(of)}` has no nulls that `dropnull` could drop"
        )
    return TypedAggregate(spec, of, List(inner(of) if spec.dropnull else of))


def _distinct(spec: Distinct, of: DataType | None) -> Typing:
    if of is None:
        return Misfit("the distinct values need a column, but `of` is missing")
    if not is_hashable(of):
        return Misfit(f"column `{spec.of}` of type `{type_name(of)}` has no distinct values")
    return TypedAggregate(spec, of, List(inner(of) if spec.dropnull else of))


def _numeric(spec: Sum | Average | Stddev | Quantile | ExpDecaySum, of: DataType | None) -> Typing:
    base = None if of is None else unrestricted(inner(of))
    if not isinstance(base, Int | Float | Decimal):
        return Misfit(_not_of_type(spec, of, "a number"))
    match spec:
        case Sum():
            return TypedAggregate(spec, of, base)
        case ExpDecaySum(half_life_us=half_life_us):
            if half_life_us <= 0:
                return Misfit("its half-life is not above zero")
            return TypedAggregate(spec, of, Float())
        case Quantile(p=p) if not 0 <= p <= 1:
            return Misfit(f"`p` is {p:g}; it lies between 0 and 1")
        case Average() | Stddev() | Quantile():
            found = Float() if spec.default is not None else Optional(Float())
            return TypedAggregate(spec, of, found)
        case _:
            assert_never(spec)


def _extreme(spec: Min | Max, of: DataType | None) -> Typing:
    base = None if of is None else unrestricted(inner(of))
    if base is None or not is_ordered(base):
        return Misfit(_not_of_type(spec, of, "int, float, decimal, date or datetime"))
    if spec.default is None:
        return TypedAggregate(spec, of, Optional(base))
    if not is_literal_of(spec.default, base):
        return Misfit(f"default value `{spec.default}` is not of type `{type_name(base)}`")
    return TypedAggregate(spec, of, base)


def _not_of_type(spec: AggregateSpec, of: DataType | None, wanted: str) -> str:
    verb = type(spec).__name__.lower()
    if of is None:
        return f"`{verb}` needs a column, but `of` is missing"
    return f"`{verb}` of column `{spec.of}` has type `{type_name(of)}`; it takes {wanted}"
