"""Cells as JSON for answers, and back.

Instants are RFC 3339 with microseconds, days ISO, decimals text with all their digits, bytes
base64; a float outside JSON is `"Infinity"`, `"-Infinity"` or `"NaN"`.
"""

import base64
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from narthex._base.records import Json
from narthex._base.times import render_instant
from narthex._formats.raw_times import parse_day, parse_instant, render_day
from narthex._ir.facts import Cell
from narthex._ir.types import (
    Bool,
    Bytes,
    DataType,
    Date,
    Datetime,
    Decimal,
    Embedding,
    Float,
    Int,
    List,
    Map,
    Optional,
    Str,
    Struct,
    inner,
    unrestricted,
)

_NOT_IN_JSON = MappingProxyType({"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan})
_EXACT = decimal.Context(prec=400)


class UnrenderedError(TypeError):
    """A cell, or its rendering, that does not have the stated type."""


def render_cell(cell: Cell, of: DataType) -> Json:
    """Render a cell of a type as JSON; null stays null, whatever the type."""
    plain = unrestricted(of)
    if isinstance(plain, Optional):
        return render_cell(cell, plain.of)
    if cell is None:
        return None
    match plain, cell:
        case ((List() | Embedding()), tuple()):
            item = plain.of if isinstance(plain, List) else Float()
            return [render_cell(member, item) for member in cell]
        case Map(of=member_type), dict():
            return {key: render_cell(member, member_type) for key, member in cell.items()}
        case Struct(fields=fields), dict():
            return {field.name: render_cell(cell.get(field.name), field.type) for field in fields}
        case _:
            return _render_scalar(cell, plain)


def render_cells(cells: Sequence[Cell], of: DataType) -> list[Json]:
    """Render the cells of a column, in one step if they already are JSON values."""
    plain = unrestricted(inner(unrestricted(of)))
    kinds = set(map(type, cells)) - {type(None)}
    match plain:
        case Int() | Bool() | Str() if kinds <= {int, bool, str}:
            return list(cells)  # type: ignore[arg-type] # by their kinds
        case Float() if kinds <= {float} and all(
            map(math.isfinite, (cell for cell in cells if cell is not None))  # type: ignore[arg-type]
        ):
            return list(cells)  # type: ignore[arg-type]
        case _:
            return [render_cell(cell, of) for cell in cells]


def _render_scalar(cell: Cell, of: DataType) -> Json:
    match of, cell:
        case Float(), int() | float():
            return _render_float(float(cell))
        case Datetime(), int():
            return render_instant(cell)
        case Date(), int():
            return render_day(cell)
        case Decimal(scale=scale), int():
            return f"{decimal.Decimal(cell).scaleb(-scale, context=_EXACT):f}"
        case Bytes(), bytes():
            return base64.b64encode(cell).decode()
        case ((Int() | Bool() | Str()), bool() | int() | str()):
            return cell
        case _:
            raise UnrenderedError(f"{cell!r} is not of {of!r}")


def _render_float(cell: float) -> Json:
    if math.isfinite(cell):
        return cell
    return next(name for name, value in _NOT_IN_JSON.items() if repr(value) == repr(cell))


def parse_cell(rendered: Json, of: DataType) -> Cell:
    """Parse a cell from the JSON of `render_cell`.

    Raises:
        UnrenderedError: It is not the rendering of a cell of that type.
    """
    plain = unrestricted(of)
    if isinstance(plain, Optional):
        return parse_cell(rendered, plain.of)
    if rendered is None:
        return None
    match plain, rendered:
        case ((List() | Embedding()), list()):
            item = plain.of if isinstance(plain, List) else Float()
            return tuple(parse_cell(member, item) for member in rendered)
        case Map(of=member_type), dict():
            return {key: parse_cell(member, member_type) for key, member in rendered.items()}
        case Struct(fields=fields), dict():
            return {
                field.name: parse_cell(rendered.get(field.name), field.type) for field in fields
            }
        case _:
            return _parse_scalar(rendered, plain)


def _parse_scalar(rendered: Json, of: DataType) -> Cell:
    match of, rendered:
        case Float(), bool():
            pass
        case Float(), int() | float():
            return float(rendered)
        case Int(), int() if not isinstance(rendered, bool):
            return rendered
        case Bool(), bool():
            return rendered
        case _, str():
            return _parse_text(rendered, of)
        case _:
            pass
    raise UnrenderedError(f"{rendered!r} is not of {of!r}")


def _parse_text(rendered: str, of: DataType) -> Cell:
    parse = _TEXTS.get(type(of))
    try:
        if parse is not None:
            return parse(rendered)
        if isinstance(of, Decimal):
            return int(decimal.Decimal(rendered).scaleb(of.scale, context=_EXACT))
    except (ValueError, KeyError, decimal.InvalidOperation) as error:
        raise UnrenderedError(f"{rendered!r} is not of {of!r}") from error
    raise UnrenderedError(f"{rendered!r} is not of {of!r}")


_TEXTS: Mapping[type, Callable[[str], Cell]] = MappingProxyType(
    {
        Str: str,
        Float: _NOT_IN_JSON.__getitem__,
        Datetime: parse_instant,
        Date: parse_day,
        Bytes: lambda rendered: base64.b64decode(rendered, validate=True),
    }
)
