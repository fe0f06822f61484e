"""An expression as a value: authors build it with `col(...)`, evaluators render it."""

from typing import Final, TypeAlias

import attrs

from narthex._base.records import record
from narthex._ir.types import DataType

LiteralValue: TypeAlias = "None | bool | int | float | str | bytes | tuple[LiteralValue, ...]"


@record
@attrs.frozen
class Ref:
    """The value of a column in the row."""

    name: str


@record
@attrs.frozen
class Var:
    """The current item, inside the second argument of `list.map` and `list.filter`."""

    name: str


@record
@attrs.frozen
class Literal:
    """A constant; instants are microseconds, dates days, decimals unscaled integers.

    Lists are tuples of their items, structs of their members, maps of pairs of key and value.
    """

    value: LiteralValue
    type: DataType


@record
@attrs.frozen
class Call:
    """A function of `narthex._expr.functions` applied to arguments.

    Attributes:
        function: Its name in that module, such as `add` or `str.lower`.
        arguments: Expressions, in order.
        options: Constants that are part of the function (a unit, a pattern), sorted by name.
        target: The result type of `str.parse` and `cast`; the struct of `struct.make`, `list.zip`.
    """

    function: str
    arguments: tuple["Node", ...]
    options: tuple[tuple[str, LiteralValue], ...] = ()
    target: DataType | None = None


@record
@attrs.frozen
class Branch:
    """One `when(...).then(...)`."""

    condition: "Node"
    value: "Node"


@record
@attrs.frozen
class Case:
    """The first branch whose condition is true; else `otherwise`."""

    branches: tuple[Branch, ...]
    otherwise: "Node"


Node: TypeAlias = Ref | Var | Literal | Call | Case

MOST_NESTING: Final = 200
"""The most levels of an expression, so that no recursion over one exhausts Python's stack.

`a + b + c` has two levels more than `a + b`, so about a hundred operators may follow each other.
"""


def nesting_of(node: Node) -> int:
    """Return how many levels of records and lists an expression has; each node is seen once."""
    levels: dict[int, int] = {}
    waiting = [node]
    while waiting:
        found = waiting[-1]
        inside = _inside(found)
        unseen = [one for one, _ in inside if id(one) not in levels]
        if unseen:
            waiting += unseen
        else:
            waiting.pop()
            levels[id(found)] = max((levels[id(one)] + up for one, up in inside), default=1)
    return levels[id(node)]


def _inside(node: Node) -> list[tuple[Node, int]]:
    """Return the expressions in a node, and how many levels it is above each."""
    match node:
        case Call(arguments=arguments):
            return [(one, 2) for one in arguments]
        case Case(branches=branches, otherwise=otherwise):
            parts = [part for one in branches for part in (one.condition, one.value)]
            return [(otherwise, 1), *((one, 3) for one in parts)]
        case _:
            return []


def bound_name(variable: str) -> str:
    """Return the name of a variable's item in rows and schemas; it never clashes with a column."""
    return f"\0{variable}"
