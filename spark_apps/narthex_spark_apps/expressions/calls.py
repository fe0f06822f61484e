"""A call with its types and its arguments as Spark columns."""

from collections.abc import Callable
from typing import TypeAlias

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex._ir import (
    DECIMAL_DIGITS,
    Call,
    DataType,
    Decimal,
    Embedding,
    Float,
    List,
    LiteralValue,
    Map,
    Null,
    Optional,
    Struct,
    inner,
)
from narthex_spark_apps.facts.column_types import spark_type

WIDE_DIGITS = 37
"""Spark's decimals have 38 digits; a sum needs one more than its parts, or it loses the last."""
_INT_DIGITS = 19


class NotRenderedError(NotImplementedError):
    """Spark has no exact expression for this; the Python backend must evaluate it."""


@attrs.frozen(kw_only=True)
class RenderedCall:
    """A call with rendered arguments; all types are without restrictions."""

    call: Call
    types: tuple[DataType, ...]
    result: DataType
    arguments: tuple[SparkColumn, ...]

    def option(self, name: str) -> LiteralValue:
        """Return a constant option of the call; None if the call does not have it."""
        return dict(self.call.options).get(name)

    def plain(self, index: int) -> DataType:
        """Return the type of an argument, without its Optional."""
        return inner(self.types[index])

    def as_double(self, index: int = 0) -> SparkColumn:
        """Return a number as the nearest double."""
        return self.arguments[index].cast("double")


Rendering: TypeAlias = Callable[[RenderedCall], SparkColumn]
"""Returns the column of a call."""


def no_nan(column: SparkColumn) -> SparkColumn:
    """Return a double, with null for NaN."""
    return sf.when(~sf.isnan(column), column)


def wide(column: SparkColumn, found: DataType, scale: int) -> SparkColumn:
    """Return an exact number as a decimal that no step of 28 digits overflows.

    Raises:
        NotRenderedError: It could overflow with this many digits after the point.
    """
    before = DECIMAL_DIGITS - found.scale if isinstance(found, Decimal) else _INT_DIGITS
    if before + scale > WIDE_DIGITS:
        raise NotRenderedError(
            f"a decimal with {before} digits before the point and {scale} after it"
        )
    return column.cast(f"decimal({WIDE_DIGITS},{scale})")


def kept(column: SparkColumn, of: DataType) -> SparkColumn:
    """Return a column in the width of its type; null for a decimal beyond 28 digits."""
    plain = inner(of)
    if isinstance(plain, Decimal):
        return column.cast(f"decimal({DECIMAL_DIGITS},{plain.scale})")
    return column


def whole(members: SparkColumn, of: DataType) -> SparkColumn:
    """Return a list of the type; null if it has a null item that the type does not allow."""
    if isinstance(item_type(of), Optional | Null):
        return members
    return sf.when(~sf.exists(members, lambda member: member.isNull()), members)


def convert(column: SparkColumn, found: DataType, target: DataType) -> SparkColumn:
    """Return the same value as the target type; a decimal stays wide (see `kept`)."""
    source, wanted = inner(found), inner(target)
    if source == wanted:
        return column
    match wanted:
        case Float():
            return column.cast("double")
        case Decimal(scale=scale):
            return wide(column, source, scale)
        case List(of=of):
            item = item_type(source)
            return sf.transform(column, lambda member: kept(convert(member, item, of), of))
        case Map(of=of) if isinstance(source, Map):
            given = source.of
            return sf.transform_values(column, lambda _, value: kept(convert(value, given, of), of))
        case Struct() if isinstance(source, Struct):
            return _converted_struct(column, source, wanted)
        case _:
            return column.cast(spark_type(wanted))


def item_type(of: DataType) -> DataType:
    """Return the item type of a list or a map; floats for an embedding."""
    match inner(of):
        case List(of=item) | Map(of=item):
            return item
        case Embedding():
            return Float()
        case other:
            return other


def _converted_struct(column: SparkColumn, source: Struct, wanted: Struct) -> SparkColumn:
    members = [
        kept(convert(column[one.name], one.type, other.type), other.type).alias(other.name)
        for one, other in zip(source.fields, wanted.fields, strict=True)
    ]
    return sf.when(column.isNotNull(), sf.struct(*members))
