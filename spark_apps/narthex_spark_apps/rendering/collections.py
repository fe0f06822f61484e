"""`list.*`, `struct.*` and `dict.*` as Spark columns."""

from collections.abc import Callable, Mapping

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex.expr.lattice import lca
from narthex.types import Float, inner
from narthex_spark_apps.rendering.calls import (
    WIDE_DIGITS,
    Rendered,
    Rendering,
    convert,
    item_type,
    kept,
    no_nan,
)
from narthex_spark_apps.rendering.numbers import comparable


def _at(call: Rendered) -> SparkColumn:
    members, index = call.arguments
    size = sf.array_size(members).cast("long")
    forward = sf.when(index < 0, sf.try_add(index, size)).otherwise(index)
    inside = (forward >= 0) & (forward < size)
    return sf.when(inside, sf.get(members, forward.cast("int")))


def _contains(call: Rendered) -> SparkColumn:
    members, wanted = call.arguments
    item, needle = item_type(call.types[0]), call.types[1]
    common = lca(item, needle)
    if common is not None:
        comparable(inner(common))
        members = sf.transform(members, lambda member: convert(member, item, common))
        wanted = convert(wanted, needle, common)
    found = sf.exists(members, lambda member: member == wanted)
    return sf.when(wanted.isNotNull(), found)


def _has_null(members: SparkColumn) -> SparkColumn:
    return sf.exists(members, lambda member: member.isNull())


def _sum(call: Rendered) -> SparkColumn:
    members = call.arguments[0]
    if isinstance(inner(call.result), Float):
        return no_nan(sf.aggregate(members, sf.lit(0.0), lambda total, member: total + member))
    exact = f"decimal({WIDE_DIGITS},0)"
    total = sf.aggregate(
        members,
        sf.lit(0).cast(exact),
        lambda total, member: (total + member.cast("decimal(19,0)")).cast(exact),
    )
    fits = total.between(sf.lit(-(2**63)).cast(exact), sf.lit(2**63 - 1).cast(exact))
    return sf.when(fits, total.cast("long"))


def _extreme(choose: Callable[[SparkColumn], SparkColumn]) -> Rendering:
    def render(call: Rendered) -> SparkColumn:
        members = call.arguments[0]
        return sf.when(~_has_null(members), choose(members))

    return render


def _mean(call: Rendered) -> SparkColumn:
    members = call.arguments[0]
    total = sf.aggregate(members, sf.lit(0.0), lambda total, member: total + member.cast("double"))
    return no_nan(total / sf.array_size(members))


def _dict_get(call: Rendered) -> SparkColumn:
    entries, key = call.arguments[0], call.arguments[1]
    value = convert(sf.try_element_at(entries, key), item_type(call.types[0]), call.result)
    if len(call.arguments) == 2:  # noqa: PLR2004 (without a default)
        return value
    default = convert(call.arguments[2], call.types[2], call.result)
    known = sf.map_contains_key(entries, key)
    return sf.when(known, kept(value, call.result)).when(~known, kept(default, call.result))


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
    "struct.get": lambda call: call.arguments[0][str(call.option("field"))],
    "dict.get": _dict_get,
    "dict.len": lambda call: sf.when(
        call.arguments[0].isNotNull(), sf.size(call.arguments[0]).cast("long")
    ),
    "dict.contains": lambda call: sf.map_contains_key(*call.arguments),
}
