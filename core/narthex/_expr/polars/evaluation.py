"""Expressions on columns: the rendering for Polars.

Instants are Int64 microseconds, dates Int32 days, decimals Int128 unscaled: see
`narthex._expr.polars.columns`. Functions that Polars has with exactly our meaning are rendered; the
others, and all on decimals, lists or structs, are computed row by row by `narthex._expr.python`, so
that all evaluators return the same values.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

import attrs
import polars as pl

from narthex._expr.functions import FUNCTIONS
from narthex._expr.polars.columns import cells_of, polars_type, series_of
from narthex._expr.polars.functions import NATIVE, is_native
from narthex._expr.python import NoPresentError, apply, literal_cell, prepare
from narthex._expr.python.signature import Signature, convert, kept
from narthex._expr.typing import fit, infer, references
from narthex._ir.expression_nodes import Call, Case, Literal, Node, Ref, Var
from narthex._ir.facts import Cell
from narthex._ir.types import Bool, DataType, Datetime, Float, Int, Null, inner


class UnboundError(LookupError):
    """A variable outside the function that binds it."""


@attrs.frozen(kw_only=True)
class TypedPolarsExpr:
    """A Polars expression and the type of its values.

    Attributes:
        by_row: Whether it calls Python; non-native functions on it are then computed in the same
            call.
    """

    expr: pl.Expr
    type: DataType
    by_row: bool = False


def evaluate(
    node: Node,
    columns: pl.DataFrame,
    schema: Mapping[str, DataType],
    now_us: int | None = None,
    *,
    target: DataType | None = None,
) -> pl.Series:
    """Return the values of an expression on all rows of a frame.

    Args:
        node: The expression.
        columns: A frame whose columns have the types that
            `narthex._expr.polars.columns.polars_type` returns; it may have more columns.
        schema: The types of the columns that the expression reads.
        now_us: The value of `now()`, microseconds.
        target: The wanted type of the result, if it is not the expression's own.

    Raises:
        ExpressionTypeError: It has no type, or its type is not promotable to the target.
        NoPresentError: It contains `now()`, and `now_us` is None.
    """
    wanted = node if target is None else fit(node, schema, target=target)
    rendered = render(wanted, schema, now_us)
    series = columns.select(rendered.expr.alias("value")).to_series()
    if series.len() != columns.height:
        series = series.new_from_index(0, columns.height)
    return series.cast(polars_type(rendered.type))


def render(
    node: Node, schema: Mapping[str, DataType], now_us: int | None = None
) -> TypedPolarsExpr:
    """Render an expression for Polars.

    Raises:
        ExpressionTypeError: It has no type over the schema.
        NoPresentError: It contains `now()`, and `now_us` is None.
    """
    infer(node, schema)
    return _Rendering(schema, now_us).render(node)


class _Rendering:
    """The rendering of one expression whose types have been checked."""

    def __init__(self, schema: Mapping[str, DataType], now_us: int | None) -> None:
        self.schema = schema
        self.now_us = now_us

    def render(self, node: Node) -> TypedPolarsExpr:
        match node:
            case Ref(name=name):
                return TypedPolarsExpr(expr=pl.col(name), type=infer(node, self.schema))
            case Var():
                raise UnboundError(f"variable `{node.name}` is not bound in a column")
            case Literal(value=value, type=of):
                return _literal(literal_cell(value, of), of)
            case Call() if FUNCTIONS[node.function].binds:
                return self._by_row(node)
            case Call():
                return self._call(node)
            case Case():
                return self._case(node)
            case _:
                assert_never(node)

    def _call(self, call: Call) -> TypedPolarsExpr:
        result = infer(call, self.schema)
        if call.function == "now":
            if self.now_us is None:
                raise NoPresentError("`now()` has no meaning here: no instant was given")
            return _literal(self.now_us, Datetime())
        arguments = [self.render(argument) for argument in call.arguments]
        types = tuple(argument.type for argument in arguments)
        signature = Signature(call=call, arguments=types, result=result)
        if not is_native(signature):
            if any(argument.by_row for argument in arguments):
                return self._by_row(call)
            return TypedPolarsExpr(expr=_by_row(signature, arguments), type=result, by_row=True)
        common = signature.common
        operands = [one.expr if common is None else _as_type(one, common) for one in arguments]
        return TypedPolarsExpr(expr=NATIVE[call.function](signature, operands), type=result)

    def _by_row(self, call: Call) -> TypedPolarsExpr:
        """Render a call that is evaluated row by row as a whole, with all its arguments."""
        result = infer(call, self.schema)
        prepared, now_us = prepare(call, self.schema), self.now_us
        types = {name: infer(Ref(name), self.schema) for name in sorted(references(call))}
        if not types:
            return _literal(prepared({}, now_us), result)

        def computed(columns: Sequence[pl.Series]) -> pl.Series:
            cells = [cells_of(one, of) for one, of in zip(columns, types.values(), strict=True)]
            rows = zip(*cells, strict=True)
            values = [prepared(dict(zip(types, row, strict=True)), now_us) for row in rows]
            return series_of("", values, result)

        expr = pl.map_batches(
            [pl.col(name) for name in types],
            computed,
            return_dtype=polars_type(result),
            is_elementwise=True,
        )
        return TypedPolarsExpr(expr=expr, type=result, by_row=True)

    def _case(self, case: Case) -> TypedPolarsExpr:
        result = infer(case, self.schema)
        value = _as_type(self.render(case.otherwise), result)
        for branch in reversed(case.branches):
            condition = _holds(self.render(branch.condition))
            then = _as_type(self.render(branch.value), result)
            value = pl.when(condition).then(then).otherwise(value)
        return TypedPolarsExpr(expr=value, type=result)


def _holds(condition: TypedPolarsExpr) -> pl.Expr:
    if inner(condition.type) != Bool():
        return pl.lit(value=False)
    return condition.expr.fill_null(value=False)


def _literal(cell: Cell, of: DataType) -> TypedPolarsExpr:
    if isinstance(cell, tuple | dict):
        return TypedPolarsExpr(expr=pl.lit(series_of("", [cell], of)).first(), type=of)
    return TypedPolarsExpr(expr=pl.lit(cell, dtype=polars_type(of)), type=of)


def _as_type(value: TypedPolarsExpr, target: DataType) -> pl.Expr:
    if polars_type(value.type) == polars_type(target):
        return value.expr
    if isinstance(inner(value.type), Int) and isinstance(inner(target), Float):
        return value.expr.cast(pl.Float64)
    if isinstance(value.type, Null):
        return value.expr.cast(polars_type(target))

    def converted(series: pl.Series) -> pl.Series:
        cells = [
            kept(convert(cell, value.type, target), target) for cell in cells_of(series, value.type)
        ]
        return series_of(series.name, cells, target)

    return value.expr.map_batches(converted, return_dtype=polars_type(target))


def _by_row(signature: Signature, arguments: list[TypedPolarsExpr]) -> pl.Expr:
    types = [argument.type for argument in arguments]
    result = signature.result or Null()

    def computed(columns: Sequence[pl.Series]) -> pl.Series:
        height = 0 if any(column.len() == 0 for column in columns) else max(map(len, columns))
        cells = [
            cells_of(column, of) * (height if column.len() == 1 else 1)
            for column, of in zip(columns, types, strict=True)
        ]
        values = [apply(signature, row) for row in zip(*cells, strict=True)]
        return series_of("", values, result)

    return pl.map_batches(
        [argument.expr for argument in arguments],
        computed,
        return_dtype=polars_type(result),
        is_elementwise=True,
    )
