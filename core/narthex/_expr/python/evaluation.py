"""The evaluation of an expression on one row."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

from narthex._expr.functions import FUNCTIONS, Nulls
from narthex._expr.python.collections import COLLECTIONS, kept_items, mapped_items
from narthex._expr.python.numbers import NUMBERS
from narthex._expr.python.signature import Compute, Signature, convert, items, kept
from narthex._expr.python.texts import TEXTS
from narthex._expr.python.times import TIMES
from narthex._expr.typing import infer
from narthex._ir.expression_nodes import (
    Call,
    Case,
    Literal,
    LiteralValue,
    Node,
    Ref,
    Var,
    bound_name,
)
from narthex._ir.facts import Cell
from narthex._ir.types import (
    DataType,
    List,
    Map,
    Members,
    Null,
    Struct,
    TypeMapper,
    inner,
    item_type,
)

_LiteralCell: TypeAlias = Callable[[LiteralValue], Cell]
"""Converts a constant of one type to a cell."""

Prepared: TypeAlias = Callable[[Mapping[str, Cell], int | None], Cell]
"""Returns the value of an expression on a row, at an instant."""


class NoPresentError(ValueError):
    """An expression contains `now()`, but there is no instant for it."""


def evaluate(
    node: Node,
    row: Mapping[str, Cell],
    schema: Mapping[str, DataType] | None = None,
    *,
    now_us: int | None = None,
) -> Cell:
    """Return the value of an expression on one row.

    Without a schema, ints and decimals look the same: an expression over decimals needs one.

    Raises:
        ExpressionTypeError: It has no type over the schema.
        NoPresentError: It contains `now()`, and `now_us` is None.
    """
    return prepare(node, schema)(row, now_us)


def prepare(node: Node, schema: Mapping[str, DataType] | None = None) -> Prepared:
    """Return a prepared evaluator of the expression for many rows.

    Raises:
        ExpressionTypeError: It has no type over the schema.
    """
    if schema is not None:
        infer(node, schema)
    return _prepared(node, schema)


def apply(signature: Signature, cells: tuple[Cell, ...]) -> Cell:
    """Return the value of one call from the values of its arguments."""
    function = FUNCTIONS[signature.call.function]
    if function.nulls is Nulls.PROPAGATE and None in cells:
        return None
    value = _COMPUTE[signature.call.function](signature, signature.brought_together(cells))
    return kept(value, signature.result)


def _prepared(node: Node, schema: Mapping[str, DataType] | None) -> Prepared:
    match node:
        case Ref(name=name):
            return lambda row, _: row[name]
        case Var(name=name):
            key = bound_name(name)
            return lambda row, _: row[key]
        case Literal(value=value, type=of):
            cell = literal_cell(value, of)
            return lambda _row, _now: cell
        case Call() if FUNCTIONS[node.function].binds:
            return _prepared_binding(node, schema)
        case Call():
            return _prepared_call(node, schema)
        case Case():
            return _prepared_case(node, schema)
        case _:
            assert_never(node)


def literal_cell(value: LiteralValue, of: DataType | None = None) -> Cell:
    """Return a constant as a cell.

    Constants of structs and maps are tuples; only with the type can they be converted.
    """
    if not isinstance(value, tuple) or of is None:
        return value
    return _LITERAL_CELLS(of)(value)


def _same_cell(value: LiteralValue) -> Cell:
    return value


def _list_cell(_: List, item: _LiteralCell) -> _LiteralCell:
    def convert_items(value: LiteralValue) -> Cell:
        return tuple(map(item, value)) if isinstance(value, tuple) else value

    return convert_items


def _map_cell(_: Map, member: _LiteralCell) -> _LiteralCell:
    def convert_entries(value: LiteralValue) -> Cell:
        if not isinstance(value, tuple):
            return value
        pairs = [entry for entry in value if isinstance(entry, tuple)]
        return {str(key): member(item) for key, item in pairs}

    return convert_entries


def _struct_cell(_: Struct, members: Members[_LiteralCell]) -> _LiteralCell:
    def convert_members(value: LiteralValue) -> Cell:
        if not isinstance(value, tuple):
            return value
        pairs = zip(members.items(), value, strict=True)
        return {name: member(item) for (name, member), item in pairs}

    return convert_members


_LITERAL_CELLS: TypeMapper[_LiteralCell] = TypeMapper(
    int=_same_cell,
    float=_same_cell,
    bool=_same_cell,
    str=_same_cell,
    bytes=_same_cell,
    datetime=_same_cell,
    date=_same_cell,
    decimal=lambda _: _same_cell,
    list=_list_cell,
    map=_map_cell,
    embedding=lambda _, __: _same_cell,
    struct=_struct_cell,
    null=lambda: _same_cell,
)


def _prepared_binding(call: Call, schema: Mapping[str, DataType] | None) -> Prepared:
    members = _prepared(call.arguments[0], schema)
    key = bound_name(str(dict(call.options).get("var")))
    within, result = schema, None
    if schema is not None:
        item = item_type(inner(infer(call.arguments[0], schema)))
        within = {**schema, key: item or Null()}
        result = infer(call, schema)
    body = _prepared(call.arguments[1], within)
    whole = kept_items if call.function == "list.filter" else mapped_items

    def each(row: Mapping[str, Cell], now_us: int | None) -> Cell:
        over = members(row, now_us)
        if over is None:
            return None
        scope = dict(row)
        found: list[tuple[Cell, Cell]] = []
        for item in items(over):
            scope[key] = item
            found.append((item, body(scope, now_us)))
        return whole(found, result)

    return each


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
