"""Expressions over the columns of a step, with their types."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from narthex._expr import ExpressionTypeError, infer
from narthex._ir import (
    Bool,
    Branch,
    Call,
    Case,
    DataType,
    Datetime,
    Float,
    Int,
    List,
    Literal,
    Node,
    Optional,
    Ref,
    Str,
    inner,
)

Typed: TypeAlias = tuple[Node, DataType]


def predicates(columns: Mapping[str, DataType]) -> tuple[Node, ...]:
    """Return expressions that are true or false of every row."""
    found: list[Node] = []
    for name, of in columns.items():
        node = Ref(name)
        if isinstance(of, Optional):
            found.append(Call("not", (Call("isnull", (node,)),)))
        for test in _tests(node, inner(of)):
            total = Call("fillnull", (test, Literal(False, Bool())))
            found.append(total if isinstance(of, Optional) else test)
    return tuple(node for node in found if _type(node, columns) == Bool())


def _tests(node: Node, of: DataType) -> Iterator[Node]:
    match of:
        case Int():
            yield Call("gt", (node, Literal(0, Int())))
            yield Call("ne", (node, Literal(1, Int())))
        case Float():
            yield Call("lt", (node, Literal(1.0, Float())))
        case Str():
            yield Call("eq", (node, Literal("a", Str())))
        case Bool():
            yield node
        case Datetime():
            yield Call("ge", (node, Literal(15_000_000, Datetime())))
        case _:
            pass


def values(columns: Mapping[str, DataType]) -> tuple[Typed, ...]:
    """Return expressions with a type, some of which have no value on some rows."""
    found: list[Node] = []
    for name, of in columns.items():
        node = Ref(name)
        found.append(node)
        match inner(of):
            case Int():
                found += [
                    Call("add", (node, Literal(1, Int()))),
                    Call("div", (Literal(6, Int()), node)),
                    Call("mod", (node, Literal(2, Int()))),
                ]
            case Float():
                found += [Call("mul", (node, Literal(2.0, Float()))), Call("num.floor", (node,))]
            case Str():
                found += [Call("str.len", (node,)), Call("str.upper", (node,))]
            case List():
                found.append(Call("list.len", (node,)))
            case _:
                pass
        if isinstance(of, Optional):
            found.append(Call("isnull", (node,)))
    tests = predicates(columns)
    if tests:
        one = Literal(1, Int())
        found.append(Case((Branch(tests[0], one),), Literal(0, Int())))
    typed = [(node, _type(node, columns)) for node in found]
    return tuple((node, of) for node, of in typed if of is not None)


def _type(node: Node, columns: Mapping[str, DataType]) -> DataType | None:
    try:
        return infer(node, columns)
    except ExpressionTypeError:
        return None
