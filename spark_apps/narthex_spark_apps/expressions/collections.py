"""`list.*`, `struct.*` and `dict.*` as Spark columns."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex._expr import lca
from narthex._expr.functions import MOST_REPEATS
from narthex._ir import DataType, Float, Null, Optional, Struct, base_type, inner
from narthex_spark_apps.expressions.calls import (
    NotRenderedError,
    RenderedCall,
    Rendering,
    convert,
    item_type,
    kept,
    no_nan,
    whole,
)
from narthex_spark_apps.expressions.numbers import comparable


def _at(call: RenderedCall) -> SparkColumn:
    members, index = call.arguments
    size = sf.array_size(members).cast("long")
    forward = sf.when(index < 0, sf.try_add(index, size)).otherwise(index)
    inside = (forward >= 0) & (forward < size)
    return sf.when(inside, sf.get(members, forward.cast("int")))


def _contains(call: RenderedCall) -> SparkColumn:
    members, wanted = call.arguments
    item, needle = item_type(call.types[0]), call.types[1]
    common = lca(item, needle)
    if common is not None:
        comparable(inner(common))
        members = sf.transform(members, lambda member: convert(member, item, common))
        wanted = convert(wanted, needle, common)
    is_contained = sf.exists(members, lambda member: member == wanted)
    return sf.when(wanted.isNotNull(), is_contained)


def _has_null(members: SparkColumn) -> SparkColumn:
    return sf.exists(members, lambda member: member.isNull())


def _sum(call: RenderedCall) -> SparkColumn:
    members = call.arguments[0]
    if isinstance(inner(call.result), Float):
        return no_nan(sf.aggregate(members, sf.lit(0.0), lambda total, member: total + member))
    exact = "decimal(38,0)"
    total = sf.aggregate(
        members,
        sf.lit(0).cast(exact),
        lambda total, member: (total + member.cast("decimal(19,0)")).cast(exact),
    )
    fits = total.between(sf.lit(-(2**63)).cast(exact), sf.lit(2**63 - 1).cast(exact))
    return sf.when(fits, total.cast("long"))


def _extreme(choose: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    def render(call: RenderedCall) -> SparkColumn:
        members = call.arguments[0]
        return sf.when(~_has_null(members), choose(members))

    return render


def _mean(call: RenderedCall) -> SparkColumn:
    members = call.arguments[0]
    total = sf.aggregate(members, sf.lit(0.0), lambda total, member: total + member.cast("double"))
    return no_nan(total / sf.array_size(members))


def _dict_get(call: RenderedCall) -> SparkColumn:
    entries, key = call.arguments[0], call.arguments[1]
    value = convert(sf.try_element_at(entries, key), item_type(call.types[0]), call.result)
    if len(call.arguments) == 2:  # noqa: PLR2004 (without a default)
        return value
    default = convert(call.arguments[2], call.types[2], call.result)
    known = sf.map_contains_key(entries, key)
    return sf.when(known, kept(value, call.result)).when(~known, kept(default, call.result))


def _members(
    call: RenderedCall, columns: Sequence[SparkColumn], types: Sequence[DataType]
) -> SparkColumn:
    target = base_type(call.call.target or Null())
    if not isinstance(target, Struct):
        raise NotRenderedError("a struct without a type")
    present = sf.lit(True)
    members: list[SparkColumn] = []
    for field, column, of in zip(target.fields, columns, types, strict=True):
        members.append(kept(convert(column, of, field.type), field.type).alias(field.name))
        if not isinstance(field.type, Optional):
            present = present & column.isNotNull()
    return sf.when(present, sf.struct(*members))


def _make_struct(call: RenderedCall) -> SparkColumn:
    return _members(call, call.arguments, call.types)


def _zip(call: RenderedCall) -> SparkColumn:
    items = [item_type(of) for of in call.types]
    lists = call.arguments
    sizes = [sf.array_size(one) for one in lists]
    shortest = sizes[0] if len(sizes) == 1 else sf.least(*sizes)
    known = functools.reduce(operator.and_, [one.isNotNull() for one in lists])

    def row(first: SparkColumn, index: SparkColumn) -> SparkColumn:
        return _members(call, [first, *(sf.get(one, index) for one in lists[1:])], items)

    return sf.when(known, sf.transform(sf.slice(lists[0], sf.lit(1), shortest), row))


def _repeat(call: RenderedCall) -> SparkColumn:
    value, count = call.arguments
    repeated = sf.array_repeat(value, count.cast("int"))
    some = (count >= 0) & (count <= MOST_REPEATS)
    return whole(sf.when(some, repeated), call.result)


COLLECTIONS: Mapping[str, Rendering] = {
    "list.len": lambda call: sf.array_size(call.arguments[0]).cast("long"),
    "list.at": _at,
    "list.contains": _contains,
    "list.hasnull": lambda call: _has_null(call.arguments[0]),
    "list.sum": _sum,
    "list.min": _extreme(sf.array_min),
    "list.max": _extreme(sf.array_max),
    "list.mean": _mean,
    "list.all": lambda call: sf.forall(call.arguments[0], lambda member: member),
    "list.any": lambda call: sf.exists(call.arguments[0], lambda member: member),
    "list.zip": _zip,
    "repeat": _repeat,
    "struct.make": _make_struct,
    "struct.get": lambda call: call.arguments[0][str(call.option("field"))],
    "dict.get": _dict_get,
    "dict.len": lambda call: sf.when(
        call.arguments[0].isNotNull(), sf.size(call.arguments[0]).cast("long")
    ),
    "dict.contains": lambda call: sf.map_contains_key(*call.arguments),
}
