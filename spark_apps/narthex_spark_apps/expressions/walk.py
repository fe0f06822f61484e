"""Render an expression as one Spark column with the same values as the Python backend."""

import decimal
from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

import attrs
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from narthex._expr import infer, lca
from narthex._expr.functions import FUNCTIONS
from narthex._expr.python import BROUGHT_TOGETHER
from narthex._ir import (
    DECIMAL_DIGITS,
    Bool,
    Bytes,
    Call,
    Case,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Literal,
    LiteralValue,
    Map,
    Members,
    Node,
    Null,
    Ref,
    Str,
    Struct,
    TypeMapper,
    Var,
    base_type,
    bound_name,
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

_RenderLiteral: TypeAlias = Callable[[LiteralValue], SparkColumn]
"""Returns a constant of one type as a column."""


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
    return _LITERALS(base_type(of))(value)


def _nullable(dtype: DataType, render_value: _RenderLiteral) -> _RenderLiteral:
    def render_constant(value: LiteralValue) -> SparkColumn:
        return sf.lit(None).cast(spark_type(dtype)) if value is None else render_value(value)

    return render_constant


def _cast_literal(dtype: DataType) -> _RenderLiteral:
    return _nullable(dtype, lambda value: sf.lit(value).cast(spark_type(dtype)))


def _float_literal(value: LiteralValue) -> SparkColumn:
    return sf.lit(float(value) if isinstance(value, int | float) else value)


def _bytes_literal(value: LiteralValue) -> SparkColumn:
    return sf.lit(bytearray(value) if isinstance(value, bytes) else value)


def _decimal_literal(dtype: Decimal) -> _RenderLiteral:
    def render_value(value: LiteralValue) -> SparkColumn:
        if not isinstance(value, int):
            return sf.lit(value).cast(spark_type(dtype))
        exact = decimal.Decimal(value).scaleb(-dtype.scale, decimal.Context(prec=DECIMAL_DIGITS))
        return sf.lit(exact).cast(spark_type(dtype))

    return _nullable(dtype, render_value)


def _members(value: LiteralValue) -> tuple[LiteralValue, ...]:
    if not isinstance(value, tuple):
        raise TypeError(f"the constant {value!r} of a list, map or struct is not a tuple")
    return value


def _list_literal(dtype: List | Embedding, item: _RenderLiteral) -> _RenderLiteral:
    def render_value(value: LiteralValue) -> SparkColumn:
        return sf.array(*map(item, _members(value))).cast(spark_type(dtype))

    return _nullable(dtype, render_value)


def _map_literal(dtype: Map, member: _RenderLiteral) -> _RenderLiteral:
    def render_value(value: LiteralValue) -> SparkColumn:
        entries = [entry for entry in _members(value) if isinstance(entry, tuple)]
        cells = [column for key, item in entries for column in (_text_literal(key), member(item))]
        return sf.create_map(*cells).cast(spark_type(dtype))

    return _nullable(dtype, render_value)


def _struct_literal(dtype: Struct, members: Members[_RenderLiteral]) -> _RenderLiteral:
    def render_value(value: LiteralValue) -> SparkColumn:
        pairs = zip(members.items(), _members(value), strict=True)
        return sf.struct(*(member(item).alias(name) for (name, member), item in pairs))

    return _nullable(dtype, render_value)


_text_literal = _cast_literal(Str())
_LITERALS: TypeMapper[_RenderLiteral] = TypeMapper(
    int=_cast_literal(Int()),
    float=_nullable(Float(), _float_literal),
    bool=_cast_literal(Bool()),
    str=_text_literal,
    bytes=_nullable(Bytes(), _bytes_literal),
    datetime=_cast_literal(Datetime()),
    date=_cast_literal(Date()),
    decimal=_decimal_literal,
    list=_list_literal,
    map=_map_literal,
    embedding=_list_literal,
    struct=_struct_literal,
    null=lambda: _cast_literal(Null()),
)


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
