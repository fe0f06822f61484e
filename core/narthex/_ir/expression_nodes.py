"""An expression as a value: what authors' `col(...)` builds, what evaluators render."""

from typing import TypeAlias

import attrs

from narthex._base.records import record
from narthex._ir.types import DataType

LiteralValue: TypeAlias = "None | bool | int | float | str | bytes | tuple[LiteralValue, ...]"


@record
@attrs.frozen
class Ref:
    """The value of a column of the row."""

    name: str


@record
@attrs.frozen
class Var:
    """The item at hand, inside the second part of `list.map` and `list.filter`."""

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
        function: Its name there, such as `add` or `str.lower`.
        arguments: Expressions, in order.
        options: Constants that are part of the function (a unit, a pattern), sorted by name.
        target: The type that `str.parse` and `cast` give; the struct of `struct.make`, `list.zip`.
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
    """The first branch whose condition holds; else `otherwise`."""

    branches: tuple[Branch, ...]
    otherwise: "Node"


Node: TypeAlias = Ref | Var | Literal | Call | Case


def bound_name(variable: str) -> str:
    """Return the name under which a row and a schema hold a variable's item; no column has it."""
    return f"\0{variable}"
