"""The call that a function computes, with its types, and the conversion of cells to them."""

from collections.abc import Callable
from typing import TypeAlias

import attrs

from narthex._expr.type_lattice import lca
from narthex._ir.expression_nodes import Call, LiteralValue
from narthex._ir.facts import Cell
from narthex._ir.types import (
    DataType,
    Decimal,
    Float,
    List,
    Map,
    Optional,
    Struct,
    inner,
)

BROUGHT_TOGETHER = frozenset(
    {"add", "sub", "floordiv", "mod"} | {"eq", "ne", "lt", "le", "gt", "ge", "is_in", "fillnull"}
)
"""The functions whose arguments are first converted to a common type."""

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
DECIMAL_LIMIT = 10**28


@attrs.frozen(kw_only=True)
class Signature:
    """A call with its types; without a schema they are unknown, and decimals are not allowed.

    Attributes:
        common: The type to which the arguments are first converted; None leaves them unchanged.
    """

    call: Call
    arguments: tuple[DataType, ...] | None
    result: DataType | None
    common: DataType | None = attrs.field(init=False)

    @common.default
    def _common(self) -> DataType | None:
        if self.arguments is None or self.call.function not in BROUGHT_TOGETHER:
            return None
        common: DataType | None = self.arguments[0]
        for of in self.arguments[1:]:
            common = None if common is None else lca(common, of)
        if common is None or all(inner(of) == inner(common) for of in self.arguments):
            return None
        return common

    def brought_together(self, cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        """Return the arguments as their common type, if the function requires one."""
        if self.common is None or self.arguments is None:
            return cells
        pairs = zip(cells, self.arguments, strict=True)
        return tuple([convert(cell, of, self.common) for cell, of in pairs])

    def option(self, name: str) -> LiteralValue:
        """Return a constant of the call; None if it has none of that name."""
        return dict(self.call.options).get(name)

    def scale(self, index: int) -> int:
        """Return an argument's digits after the decimal point; 0 unless it is a decimal."""
        found = inner(self.arguments[index]) if self.arguments is not None else None
        return found.scale if isinstance(found, Decimal) else 0


Compute: TypeAlias = Callable[[Signature, tuple[Cell, ...]], Cell]
"""Returns the value of a call from the values of its arguments."""

Number: TypeAlias = int | float


class WrongColumnCellError(TypeError):
    """A cell that does not have its column's type."""


def timezone_of(signature: Signature) -> str:
    """Return the time zone of a call; UTC by default."""
    return text(signature.option("timezone") or "UTC")


def number(cell: Cell) -> Number:
    """Take a cell as a number."""
    if isinstance(cell, int | float):
        return cell
    raise WrongColumnCellError(f"{cell!r} is not a number")


def whole(cell: Cell) -> int:
    """Take a cell as an int, an instant, a day or an unscaled decimal."""
    if isinstance(cell, int):
        return cell
    raise WrongColumnCellError(f"{cell!r} is not an int")


def text(cell: Cell) -> str:
    """Take a cell as text."""
    if isinstance(cell, str):
        return cell
    raise WrongColumnCellError(f"{cell!r} is not text")


def items(cell: Cell) -> tuple[Cell, ...]:
    """Take a cell as a list."""
    if isinstance(cell, tuple):
        return cell
    raise WrongColumnCellError(f"{cell!r} is not a tuple")


def entries(cell: Cell) -> dict[str, Cell]:
    """Take a cell as a struct or a map."""
    if isinstance(cell, dict):
        return cell
    raise WrongColumnCellError(f"{cell!r} is not a dict")


def int64(value: int) -> int | None:
    """Return an int of 64 bits; None if it is greater."""
    return value if INT_MIN <= value <= INT_MAX else None


def convert(cell: Cell, found: DataType, target: DataType) -> Cell:
    """Return the same value as the target type, to which `found` is promotable."""
    if cell is None or found is target:
        return cell
    match inner(target):
        case Float():
            return float(number(cell))
        case Decimal(scale=scale):
            return _rescaled(whole(cell), inner(found), scale)
        case List(of=of) if isinstance(inner(found), List):
            item = _of(inner(found))
            return tuple(convert(member, item, of) for member in items(cell))
        case Map(of=of):
            item = _of(inner(found))
            return {key: convert(member, item, of) for key, member in entries(cell).items()}
        case Struct() as struct:
            return _converted_struct(entries(cell), inner(found), struct)
        case _:
            return cell


def _of(found: DataType) -> DataType:
    return found.of if isinstance(found, List | Map | Optional) else found


def kept(cell: Cell, of: DataType | None) -> Cell:
    """Return the cell; None for a decimal of more than 28 digits."""
    if isinstance(cell, int) and of is not None and isinstance(inner(of), Decimal):
        return cell if abs(cell) < DECIMAL_LIMIT else None
    return cell


def _rescaled(unscaled: int, found: DataType, scale: int) -> int:
    digits = scale - (found.scale if isinstance(found, Decimal) else 0)
    return unscaled * int(10**digits)


def _converted_struct(cell: dict[str, Cell], found: DataType, target: Struct) -> Cell:
    if not isinstance(found, Struct):
        return cell
    pairs = zip(found.fields, target.fields, strict=True)
    return {one.name: convert(cell.get(one.name), one.type, other.type) for one, other in pairs}
