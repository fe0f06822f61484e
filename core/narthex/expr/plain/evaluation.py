"""Walking an expression over one row."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

from narthex.expr.functions import FUNCTIONS, Nulls
from narthex.expr.nodes import Call, Case, Literal, LiteralValue, Node, Ref
from narthex.expr.plain.collections import COLLECTIONS
from narthex.expr.plain.numbers import NUMBERS
from narthex.expr.plain.signature import Compute, Signature, convert, kept
from narthex.expr.plain.texts import TEXTS
from narthex.expr.plain.times import TIMES
from narthex.expr.typing import infer
from narthex.facts import Cell
from narthex.types import DataType, inner

Prepared: TypeAlias = Callable[[Mapping[str, Cell], int | None], Cell]
"""Gives the value of an expression on a row, at an instant."""


class NoPresentError(ValueError):
    """An expression asks for `now()` where there is none."""


def evaluate(
    node: Node,
    row: Mapping[str, Cell],
    schema: Mapping[str, DataType] | None = None,
    *,
    now_us: int | None = None,
) -> Cell:
    """Give the value of an expression on one row.

    Without a schema, ints are not told from decimals: an expression over decimals needs one.

    Raises:
        ExpressionTypeError: It has no type over the schema.
        NoPresentError: It has `now()`, and `now_us` is None.
    """
    return prepare(node, schema)(row, now_us)


def prepare(node: Node, schema: Mapping[str, DataType] | None = None) -> Prepared:
    """Give what evaluates the expression on many rows.

    Raises:
        ExpressionTypeError: It has no type over the schema.
    """
    if schema is not None:
        infer(node, schema)
    return _prepared(node, schema)


def apply(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    """Give the value of one call from those of its arguments."""
    function = FUNCTIONS[signature.call.function]
    if function.nulls is Nulls.PROPAGATE and None in cells:
        return None
    value = _COMPUTE[signature.call.function](signature, signature.brought_together(cells))
    return kept(value, signature.result)


def _prepared(node: Node, schema: Mapping[str, DataType] | None) -> Prepared:
    match node:
        case Ref(name=name):
            return lambda row, _: row[name]
        case Literal(value=value):
            cell = literal_cell(value)
            return lambda _row, _now: cell
        case Call():
            return _prepared_call(node, schema)
        case Case():
            return _prepared_case(node, schema)
        case _:
            assert_never(node)


def literal_cell(value: LiteralValue) -> Cell:
    """Give a constant as a cell."""
    return value


def _prepared_call(call: Call, schema: Mapping[str, DataType] | None) -> Prepared:
    if call.function == "now":
        return _present
    arguments = tuple(_prepared(argument, schema) for argument in call.arguments)
    types = None if schema is None else tuple(infer(of, schema) for of in call.arguments)
    result = None if schema is None else infer(call, schema)
    signature = Signature(call=call, arguments=types, result=result)
    return lambda row, now_us: apply(signature, tuple([one(row, now_us) for one in arguments]))


def _present(_: Mapping[str, Cell], now_us: int | None) -> Cell:
    if now_us is None:
        raise NoPresentError("`now()` has no meaning here: no instant was given")
    return now_us


def _prepared_case(case: Case, schema: Mapping[str, DataType] | None) -> Prepared:
    result = None if schema is None else infer(case, schema)

    def value_of(node: Node) -> Prepared:
        prepared = _prepared(node, schema)
        if schema is None or result is None:
            return prepared
        found = infer(node, schema)
        if inner(found) == inner(result):
            return prepared
        return lambda row, now_us: kept(convert(prepared(row, now_us), found, result), result)

    branches = [(_prepared(one.condition, schema), value_of(one.value)) for one in case.branches]
    otherwise = value_of(case.otherwise)

    def choose(row: Mapping[str, Cell], now_us: int | None) -> Cell:
        for condition, value in branches:
            if condition(row, now_us) is True:
                return value(row, now_us)
        return otherwise(row, now_us)

    return choose


def _and(_: Signature, cells: tuple[Cell, ...]) -> Cell:
    if False in cells:
        return False
    return None if None in cells else True


def _or(_: Signature, cells: tuple[Cell, ...]) -> Cell:
    if True in cells:
        return True
    return None if None in cells else False


def _cast(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    target = signature.call.target
    if target is None:
        return cells[0]
    if signature.arguments is None:
        return convert(cells[0], target, target)
    return convert(cells[0], signature.arguments[0], target)


_COMPUTE: Mapping[str, Compute] = MappingProxyType(
    {
        **NUMBERS,
        **TEXTS,
        **TIMES,
        **COLLECTIONS,
        "and": _and,
        "or": _or,
        "not": lambda _, cells: not cells[0],
        "isnull": lambda _, cells: cells[0] is None,
        "fillnull": lambda _, cells: cells[1] if cells[0] is None else cells[0],
        "cast": _cast,
    }
)
