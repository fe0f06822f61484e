"""An expression as a value: authors build it with `col(...)`, evaluators render it."""

from typing import TypeAlias

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


def bound_name(variable: str) -> str:
    """Return the name of a variable's item in rows and schemas; it never clashes with a column."""
    return f"\0{variable}"
