"""Render an expression as one Spark column with the same values as the Python backend."""

import decimal
from collections.abc import Mapping
from typing import assert_never

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex._expr import infer, lca
from narthex._expr.functions import FUNCTIONS
from narthex._expr.python import BROUGHT_TOGETHER
from narthex._ir import (
    DECIMAL_DIGITS,
    Call,
    Case,
    DataType,
    Decimal,
    Float,
    List,
    Literal,
    LiteralValue,
    Map,
    Node,
    Null,
    Ref,
    Str,
    Struct,
    Var,
    base_type,
    bound_name,
    inner,
)
from narthex_spark_apps.expressions.calls import (
    NotRenderedError,
    RenderedCall,
    Rendering,
    convert,
    item_type,
    kept,
    whole,
)
from narthex_spark_apps.expressions.collections import COLLECTIONS
from narthex_spark_apps.expressions.numbers import NUMBERS
from narthex_spark_apps.expressions.texts import TEXTS
from narthex_spark_apps.expressions.times import TIMES
from narthex_spark_apps.facts.column_types import spark_type


@attrs.frozen(kw_only=True)
class Scope:
    """The context of an expression: columns with their types, and the processing time of the row.

    Attributes:
        now: Long microseconds; None where a replay would not repeat the row's processing time.
    """

    types: Mapping[str, DataType]
    columns: Mapping[str, SparkColumn]
    now: SparkColumn | None = None


def render(node: Node, scope: Scope) -> SparkColumn:
    """Render an expression as a column whose values equal those of the Python backend.

    Raises:
        ExpressionTypeError: The expression has no type over the columns of the scope.
        NotRenderedError: Spark has no exact expression for a part of it.
    """
    infer(node, scope.types)
    return _rendered(node, scope)


def literal(value: LiteralValue, of: DataType) -> SparkColumn:
    """Return a constant of a type as a column."""
    plain = inner(base_type(of))
    if value is None or isinstance(plain, Null):
        return sf.lit(None).cast(spark_type(plain))
    if isinstance(value, tuple):
        return _nested_literal(value, plain)
    match plain:
        case Decimal(scale=scale) if isinstance(value, int):
            exact = decimal.Decimal(value).scaleb(-scale, decimal.Context(prec=DECIMAL_DIGITS))
            return sf.lit(exact).cast(spark_type(plain))
        case Float() if isinstance(value, int | float):
            return sf.lit(float(value))
        case _ if isinstance(value, bytes):
            return sf.lit(bytearray(value))
        case _:
            return sf.lit(value).cast(spark_type(plain))


def _nested_literal(value: tuple[LiteralValue, ...], of: DataType) -> SparkColumn:
    match of:
        case Struct(fields=fields):
            members = zip(fields, value, strict=True)
            return sf.struct(*(literal(one, f.type).alias(f.name) for f, one in members))
        case Map(of=item):
            pairs = [entry for entry in value if isinstance(entry, tuple)]
            cells = [of for key, one in pairs for of in (literal(key, Str()), literal(one, item))]
            return sf.create_map(*cells).cast(spark_type(of))
        case _:
            item = item_type(of)
            return sf.array(*(literal(one, item) for one in value)).cast(spark_type(of))


def _rendered(node: Node, scope: Scope) -> SparkColumn:
    match node:
        case Ref(name=name):
            return scope.columns[name]
        case Var(name=name):
            return scope.columns[bound_name(name)]
        case Literal(value=value, type=of):
            return literal(value, of)
        case Call() if FUNCTIONS[node.function].binds:
            return _binding(node, scope)
        case Call():
            return _call(node, scope)
        case Case():
            return _case(node, scope)
        case _:
            assert_never(node)


def _call(call: Call, scope: Scope) -> SparkColumn:
    if call.function == "now":
        if scope.now is None:
            raise NotRenderedError("`now()` where rows have no processing time")
        return scope.now
    rendering = _RENDERINGS.get(call.function)
    if rendering is None:
        raise NotRenderedError(f"`{call.function}`")
    types = tuple(infer(argument, scope.types) for argument in call.arguments)
    result = infer(call, scope.types)
    arguments = tuple(_rendered(argument, scope) for argument in call.arguments)
    together = _together(call, types, arguments)
    rendered = rendering(RenderedCall(call=call, types=types, result=result, arguments=together))
    return kept(rendered, result)


def _binding(call: Call, scope: Scope) -> SparkColumn:
    over, body = call.arguments
    item, key = item_type(infer(over, scope.types)), bound_name(str(dict(call.options)["var"]))
    types = {**scope.types, key: item}

    def of_item(member: SparkColumn) -> SparkColumn:
        columns = {**scope.columns, key: member}
        return _rendered(body, attrs.evolve(scope, types=types, columns=columns))

    members = _rendered(over, scope)
    if call.function == "list.filter":
        return sf.filter(members, of_item)
    return whole(sf.transform(members, of_item), List(infer(body, types)))


def _together(
    call: Call, types: tuple[DataType, ...], arguments: tuple[SparkColumn, ...]
) -> tuple[SparkColumn, ...]:
    if call.function not in BROUGHT_TOGETHER:
        return arguments
    common: DataType | None = types[0]
    for of in types[1:]:
        common = None if common is None else lca(common, of)
    if common is None:
        return arguments
    return tuple(
        convert(argument, of, common) for argument, of in zip(arguments, types, strict=True)
    )


def _case(case: Case, scope: Scope) -> SparkColumn:
    result = infer(case, scope.types)

    def value_of(node: Node) -> SparkColumn:
        found = infer(node, scope.types)
        return kept(convert(_rendered(node, scope), found, result), result)

    chosen = sf
    for branch in case.branches:
        chosen = chosen.when(_rendered(branch.condition, scope), value_of(branch.value))
    return chosen.otherwise(value_of(case.otherwise))


def _cast(rendered: RenderedCall) -> SparkColumn:
    target = rendered.call.target
    if target is None:
        return rendered.arguments[0]
    return convert(rendered.arguments[0], rendered.types[0], base_type(target))


_RENDERINGS: Mapping[str, Rendering] = {
    **NUMBERS,
    **TEXTS,
    **TIMES,
    **COLLECTIONS,
    "and": lambda call: call.arguments[0] & call.arguments[1],
    "or": lambda call: call.arguments[0] | call.arguments[1],
    "not": lambda call: ~call.arguments[0],
    "isnull": lambda call: call.arguments[0].isNull(),
    "fillnull": lambda call: sf.coalesce(*call.arguments),
    "cast": _cast,
}
