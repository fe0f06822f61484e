# mypy: disable-error-code="explicit-any"
"""Expressions from the messages of Fennel's client, by the builders that authors use."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from narthex._ir.expression_nodes import Branch, Call, Case, Literal, Node
from narthex._ir.types import Null
from narthex.compat.time_formats import in_nanoseconds
from narthex.compat.wire.expression_messages import (
    BinaryMessage,
    CaseMessage,
    DictCallMessage,
    EntryMessage,
    ExpressionMessage,
    FormatMessage,
    InstantCallMessage,
    InstantLiteralMessage,
    ListCallMessage,
    LiteralMessage,
    LogMessage,
    MembersMessage,
    NameMessage,
    NumberCallMessage,
    PartMessage,
    SinceMessage,
    TextCallMessage,
    UnaryMessage,
)
from narthex.compat.wire.fields import choice_of
from narthex.compat.wire.types import data_type, literal_of_json, struct_type
from narthex.errors import NotYetSupported, RecordNotUnderstood
from narthex.expr import Expr, col, datetime, from_epoch, now, repeat, var

__all__ = ["expression_of"]

_BINARY: Final = (
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "floordiv",
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "and",
    "or",
)
_UNARY: Final = ("neg", "not")
_UNITS: Final = (
    "",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "year",
    "microsecond",
    "millisecond",
)


def expression_of(message: ExpressionMessage) -> Node:
    """Return the expression that a message describes.

    Raises:
        RecordNotUnderstood: It describes none.
        DefinitionError: A part of it is invalid.
    """
    return _read(message).node


def _read(message: ExpressionMessage) -> Expr:
    name, part = choice_of(message)
    return _KINDS[name](part)


def _named(names: tuple[str, ...], number: int, what: str) -> str:
    if not 0 <= number < len(names) or not names[number]:
        raise RecordNotUnderstood(f"an expression has the unknown {what} {number}")
    return names[number]


def _unit(number: int) -> str:
    return _named(_UNITS, number, "unit")


def _literal(part: LiteralMessage) -> Expr:
    of = data_type(part.type)
    return Expr(Literal(literal_of_json(part.json, of), of))


def _unary(part: UnaryMessage) -> Expr:
    return _read(part.operand).call(_named(_UNARY, part.operator, "operator"))


def _binary(part: BinaryMessage) -> Expr:
    name = _named(_BINARY, part.operator, "operator")
    return _read(part.left).call(name, _read(part.right))


def _case(part: CaseMessage) -> Expr:
    branches = (Branch(_read(b.when).node, _read(b.then).node) for b in part.branches)
    last = Literal(None, Null()) if part.otherwise is None else _read(part.otherwise).node
    return Expr(Case(tuple(branches), last))


def _list_call(part: ListCallMessage) -> Expr:
    items = _read(part.operand).list
    match choice_of(part.function):
        case "item", index:
            return items.at(_read(index))
        case "contains", argument:
            return items.contains(_read(argument.operand))
        case ("filter" | "map") as name, bound:
            function = items.filter if name == "filter" else items.map
            return function(bound.variable, _read(bound.body))
        case name, _:
            return _called(items, name)


def _number_call(part: NumberCallMessage) -> Expr:
    number = _read(part.operand).num
    match choice_of(part.function):
        case "round", digits:
            return number.round(digits.precision)
        case "pow", argument:
            return number.pow(_read(argument.operand))
        case "log", LogMessage(base=base):
            return number.log(None if base in {0.0, math.e} else base)
        case name, _:
            return _called(number, name)


def _text_call(part: TextCallMessage) -> Expr:
    operand = _read(part.operand)
    text = operand.str
    match choice_of(part.function):
        case ("contains" | "startswith" | "endswith" | "concat") as name, argument:
            return _called(text, name, _read(argument.operand))
        case "strptime", FormatMessage(format=form, timezone=zone):
            return text.strptime(form, timezone=_zone(zone) or "UTC")
        case "parse", parsed:
            return Expr(Call("str.parse", (operand.node,), target=data_type(parsed.type)))
        case ("split" | "json_extract") as name, NameMessage(name=constant):
            return _called(text, name, constant)
        case "to_int", _:
            raise NotYetSupported("the conversion of a text to an int", hint="use `str.parse(int)`")
        case name, _:
            return _called(text, name)


def _dict_call(part: DictCallMessage) -> Expr:
    entries = _read(part.operand).dict
    match choice_of(part.function):
        case "get", EntryMessage(key=key, default=None):
            return entries.get(_read(key))
        case "get", EntryMessage(key=key, default=ExpressionMessage() as default):
            return entries.get(_read(key), _read(default))
        case "contains", argument:
            return entries.contains(_read(argument.operand))
        case _:
            return entries.len()


def _instant_call(part: InstantCallMessage) -> Expr:
    instant = _read(part.operand).dt
    match choice_of(part.function):
        case "since", SinceMessage(other=other, unit=unit):
            return instant.since(_read(other), _unit(unit))
        case "strftime", FormatMessage(format=form, timezone=zone):
            return instant.strftime(in_nanoseconds(form), timezone=_zone(zone))
        case "part", PartMessage(unit=unit, timezone=zone):
            return instant.parts(_unit(unit), timezone=_zone(zone))
        case _, since:
            return instant.since_epoch(_unit(since.unit))


def _zone(zone: NameMessage | None) -> str | None:
    return None if zone is None else zone.name


def _called(functions: object, name: str, *arguments: object) -> Expr:
    function: Callable[..., Expr] = getattr(functions, name)
    return function(*arguments)


def _instant_literal(part: InstantLiteralMessage) -> Expr:
    clock = (part.year, part.month, part.day, part.hour, part.minute, part.second)
    return datetime(*clock, part.microsecond, timezone=_zone(part.timezone) or "UTC")


def _members(function: str) -> Callable[[MembersMessage], Expr]:
    def read(part: MembersMessage) -> Expr:
        of = struct_type(part.struct)
        names = [member.name for member in of.fields]
        if sorted(names) != sorted(part.members):
            raise RecordNotUnderstood(f"struct `{of.name}` and its expression differ in members")
        nodes = tuple(_read(part.members[name]).node for name in names)
        return Expr(Call(function, nodes, target=of))

    return read


_KINDS: Final[Mapping[str, Callable[[Any], Expr]]] = {
    "ref": lambda part: col(part.name),
    "var": lambda part: var(part.name),
    "literal": _literal,
    "unary": _unary,
    "binary": _binary,
    "case": _case,
    "isnull": lambda part: _read(part.operand).isnull(),
    "fillnull": lambda part: _read(part.operand).fillnull(_read(part.fill)),
    "list": _list_call,
    "number": _number_call,
    "struct": lambda part: _read(part.operand).struct.get(part.function.member),
    "dict": _dict_call,
    "text": _text_call,
    "instant": _instant_call,
    "instant_literal": _instant_literal,
    "make_struct": _members("struct.make"),
    "zip": _members("list.zip"),
    "from_epoch": lambda part: from_epoch(_read(part.operand), _unit(part.unit)),
    "now": lambda _: now(),
    "repeat": lambda part: repeat(_read(part.operand), _read(part.count)),
}
