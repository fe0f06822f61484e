# mypy: disable-error-code="func-returns-value"
"""Cells as JSON for answers, and back.

Instants are RFC 3339 with microseconds, days ISO, decimals text with all their digits, bytes
base64; a float outside JSON is `"Infinity"`, `"-Infinity"` or `"NaN"`.
"""

import base64
import decimal
import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import TypeAlias, TypeVar

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
    Members,
    Null,
    Str,
    Struct,
    TypeMapper,
    inner,
    unrestricted,
)

CellRenderer: TypeAlias = Callable[[Cell], Json]
CellsRenderer: TypeAlias = Callable[[Sequence[Cell]], Sequence[Json]]
CellParser: TypeAlias = Callable[[Json], Cell]

_CellType = TypeVar("_CellType", int, str, bytes)
_NOT_IN_JSON = MappingProxyType({"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan})
_EXACT = decimal.Context(prec=400)
_IN_JSON = frozenset({int, bool, str, type(None)})
_FLOATS = frozenset({float, type(None)})


class UnrenderedError(TypeError):
    """A cell, or its rendering, that does not have the stated type."""


def render_cell(cell: Cell, of: DataType) -> Json:
    """Render a cell of a type as JSON; null stays null, whatever the type."""
    return _RENDERERS(of)(cell)


def render_cells(cells: Sequence[Cell], of: DataType) -> list[Json]:
    """Render the cells of a column."""
    return list(cells_renderer(of)(cells))


def cells_renderer(of: DataType) -> CellsRenderer:
    """Return `render_cells` for one type, prepared for many columns.

    Cells that already are JSON values are returned unchanged, in one step.
    """
    render = _RENDERERS(of)
    match unrestricted(inner(unrestricted(of))):
        case Int() | Bool() | Str():
            are_json = _have_kinds_of_json
        case Float():
            are_json = _are_finite
        case _:
            return lambda cells: list(map(render, cells))

    def render_all(cells: Sequence[Cell]) -> Sequence[Json]:
        if are_json(cells):
            return cells  # type: ignore[return-value] # by their kinds
        return list(map(render, cells))

    return render_all


def _have_kinds_of_json(cells: Sequence[Cell]) -> bool:
    return _IN_JSON.issuperset(map(type, cells))


def _are_finite(cells: Sequence[Cell]) -> bool:
    return _FLOATS.issuperset(map(type, cells)) and all(
        map(math.isfinite, (cell for cell in cells if cell is not None))  # type: ignore[arg-type] # by their kinds
    )


def parse_cell(rendered: Json, of: DataType) -> Cell:
    """Parse a cell from the JSON of `render_cell`.

    Raises:
        UnrenderedError: It is not the rendering of a cell of that type.
    """
    return _PARSERS(of)(rendered)


def _null(value: object, dtype: DataType) -> None:
    """Return None for a null; refuse any other value."""
    if value is not None:
        raise UnrenderedError(f"{value!r} is not of {dtype!r}")


def _null_of_null(value: object) -> None:
    return _null(value, Null())


def _unchanged(dtype: Int | Bool | Str) -> CellRenderer:
    def render(cell: Cell) -> Json:
        return cell if isinstance(cell, bool | int | str) else _null(cell, dtype)

    return render


def _rendered_by(
    dtype: DataType, kind: type[_CellType], function: Callable[[_CellType], str]
) -> CellRenderer:
    def render(cell: Cell) -> Json:
        return function(cell) if isinstance(cell, kind) else _null(cell, dtype)

    return render


def _render_float(cell: Cell) -> Json:
    if not isinstance(cell, int | float):
        return _null(cell, Float())
    number = float(cell)
    if math.isfinite(number):
        return number
    return next(name for name, value in _NOT_IN_JSON.items() if repr(value) == repr(number))


def _render_bytes(cell: bytes) -> str:
    return base64.b64encode(cell).decode()


def _decimal_renderer(dtype: Decimal) -> CellRenderer:
    scale = dtype.scale

    def render(cell: int) -> str:
        return f"{decimal.Decimal(cell).scaleb(-scale, context=_EXACT):f}"

    return _rendered_by(dtype, int, render)


def _list_renderer(dtype: List | Embedding, item: CellRenderer) -> CellRenderer:
    def render(cell: Cell) -> Json:
        return [item(member) for member in cell] if isinstance(cell, tuple) else _null(cell, dtype)

    return render


def _map_renderer(dtype: Map, value: CellRenderer) -> CellRenderer:
    def render(cell: Cell) -> Json:
        if isinstance(cell, dict):
            return {key: value(member) for key, member in cell.items()}
        return _null(cell, dtype)

    return render


def _struct_renderer(dtype: Struct, members: Members[CellRenderer]) -> CellRenderer:
    renderers = tuple(members.items())

    def render(cell: Cell) -> Json:
        if isinstance(cell, dict):
            return {name: member(cell.get(name)) for name, member in renderers}
        return _null(cell, dtype)

    return render


_RENDERERS: TypeMapper[CellRenderer] = TypeMapper(
    int=_unchanged(Int()),
    float=_render_float,
    bool=_unchanged(Bool()),
    str=_unchanged(Str()),
    bytes=_rendered_by(Bytes(), bytes, _render_bytes),
    datetime=_rendered_by(Datetime(), int, render_instant),
    date=_rendered_by(Date(), int, render_day),
    decimal=_decimal_renderer,
    list=_list_renderer,
    map=_map_renderer,
    embedding=_list_renderer,
    struct=_struct_renderer,
    null=lambda: _null_of_null,
)


def _parse_int(rendered: Json) -> Cell:
    if isinstance(rendered, int) and not isinstance(rendered, bool):
        return rendered
    return _null(rendered, Int())


def _parse_float(rendered: Json) -> Cell:
    if isinstance(rendered, int | float) and not isinstance(rendered, bool):
        return float(rendered)
    return _parse_named_float(rendered)


def _parse_bool(rendered: Json) -> Cell:
    return rendered if isinstance(rendered, bool) else _null(rendered, Bool())


def _parse_str(rendered: Json) -> Cell:
    return rendered if isinstance(rendered, str) else _null(rendered, Str())


def _parsed_by(dtype: DataType, function: Callable[[str], Cell]) -> CellParser:
    def parse(rendered: Json) -> Cell:
        if not isinstance(rendered, str):
            return _null(rendered, dtype)
        try:
            return function(rendered)
        except (ValueError, KeyError, decimal.InvalidOperation) as error:
            raise UnrenderedError(f"{rendered!r} is not of {dtype!r}") from error

    return parse


def _parse_bytes(rendered: str) -> bytes:
    return base64.b64decode(rendered, validate=True)


_parse_named_float = _parsed_by(Float(), _NOT_IN_JSON.__getitem__)


def _decimal_parser(dtype: Decimal) -> CellParser:
    scale = dtype.scale

    def parse(rendered: str) -> int:
        return int(decimal.Decimal(rendered).scaleb(scale, context=_EXACT))

    return _parsed_by(dtype, parse)


def _list_parser(dtype: List | Embedding, item: CellParser) -> CellParser:
    def parse(rendered: Json) -> Cell:
        if isinstance(rendered, list):
            return tuple([item(member) for member in rendered])
        return _null(rendered, dtype)

    return parse


def _map_parser(dtype: Map, value: CellParser) -> CellParser:
    def parse(rendered: Json) -> Cell:
        if isinstance(rendered, dict):
            return {key: value(member) for key, member in rendered.items()}
        return _null(rendered, dtype)

    return parse


def _struct_parser(dtype: Struct, members: Members[CellParser]) -> CellParser:
    parsers = tuple(members.items())

    def parse(rendered: Json) -> Cell:
        if isinstance(rendered, dict):
            return {name: member(rendered.get(name)) for name, member in parsers}
        return _null(rendered, dtype)

    return parse


_PARSERS: TypeMapper[CellParser] = TypeMapper(
    int=_parse_int,
    float=_parse_float,
    bool=_parse_bool,
    str=_parse_str,
    bytes=_parsed_by(Bytes(), _parse_bytes),
    datetime=_parsed_by(Datetime(), parse_instant),
    date=_parsed_by(Date(), parse_day),
    decimal=_decimal_parser,
    list=_list_parser,
    map=_map_parser,
    embedding=_list_parser,
    struct=_struct_parser,
    null=lambda: _null_of_null,
)
