# ruff: noqa: INP001
"""Writes `docs/reference/expressions.md` from the definitions: `python -m docs.render_expressions`.

Types are found by trying each function's rule, results by running its example; a test holds the
page to this, and another runs the examples on every evaluator.
"""

import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from narthex import expr
from narthex._base.times import DAY_US, from_micros, render_instant
from narthex._expr.functions import EXAMPLE, EXAMPLE_NOW_US, GROUPS, Function, Nulls
from narthex._expr.python import evaluate
from narthex._expr.type_rules import Wrong
from narthex._expr.typing import infer
from narthex._ir import types
from narthex._ir.expression_nodes import Call, Node
from narthex._ir.facts import Cell
from narthex._ir.type_names import type_name
from narthex._ir.types import DataType, Decimal, List, Map, Struct, TypeMapper, base_type
from narthex.dtypes import struct

Shown: typing.TypeAlias = Callable[[Cell], str]
"""Renders a cell of one type, not null."""

PAGE = Path(__file__).parent / "reference" / "expressions.md"
INTRODUCTION = """# Expressions

`filter`, `assign`, `feature(...)`, and `eval(...)` in a source's `preproc` and `where` take
expressions. An expression has the same result in a pipeline, in a query and in a test. Three rules
apply to all functions:

- **A function never fails on a row.** If the result is undefined, it is null. A null in a column
  that is not Optional makes the row invalid. A list or a struct with such a null inside is null.
- **An int has 64 bits, a decimal 28 digits.** A result beyond them is null.
- **NaN is never a result.** A NaN that came from user code equals itself and is greater than every
  other number.

Floats are IEEE-754 doubles; an int next to a float is converted to the nearest double. Columns of
`between`, `oneof` and `regex` have the type that they restrict. The result for a null argument is
null unless the function's section specifies another result. `T?` is `Optional[T]`. Time zones
follow one copy of the IANA database, the same on all machines.

`python -m docs.render_expressions` writes this page. The examples use this row:
"""
NULLS = {
    Nulls.KLEENE: "null is unknown: `False & null` is False, `True | null` is True, else null",
    Nulls.OWN: "see above",
}


@struct
class Visitor:
    """The struct of the examples."""

    name: str
    visits: typing.Optional[int]  # noqa: UP045 (as authors write it)


SCHEMA: Mapping[str, DataType] = {name: of for name, (of, _) in EXAMPLE.items()}
ROW: Mapping[str, Cell] = {name: cell for name, (_, cell) in EXAMPLE.items()}
TRIED: tuple[DataType, ...] = (
    *(types.Int(), types.Float(), types.Decimal(2), types.Bool(), types.Str(), types.Bytes()),
    *(types.Datetime(), types.Date(), types.List(types.Int()), types.List(types.Float())),
    *(types.List(types.Bool()), types.List(types.Str()), types.Map(types.Int())),
)
NAMES = {name: getattr(expr, name) for name in expr.__all__} | {
    "Visitor": Visitor,
    "Dict": dict,
    "int": int,
    "float": float,
}


def written_example(function: Function) -> Node:
    """Return the example of a function as an expression."""
    written = eval(function.example, dict(NAMES))  # noqa: S307 (our own text)
    if isinstance(written, expr.TypedExpr):
        return Call("cast", (written.node,), target=written.dtype)
    node: Node = written.node
    return node


def result(node: Node) -> Cell:
    """Return the result of an expression on the row of the examples."""
    return evaluate(node, ROW, SCHEMA, now_us=EXAMPLE_NOW_US)


def render() -> str:
    """Render the page."""
    parts = [INTRODUCTION, *_row(), ""]
    for heading, functions in GROUPS.items():
        parts.append(f"## {heading}\n")
        parts += [line for function in functions for line in _section(function)]
    return "\n".join(parts)


def _row() -> Iterator[str]:
    yield "| column | type | value |"
    yield "|---|---|---|"
    for name, (of, cell) in EXAMPLE.items():
        yield f"| `{name}` | `{type_name(of)}` | `{shown(cell, of)}` |"


def _section(function: Function) -> Iterator[str]:
    node = written_example(function)
    yield f"### `{function.form}`\n"
    yield f"{function.promise}.\n"
    yield f"- types: {function.types or '; '.join(signatures(function, node))}"
    if function.nulls in NULLS:
        yield f"- nulls: {NULLS[function.nulls]}"
    if function.undefined:
        yield f"- no value: {function.undefined}"
    yield f"- example: `{function.example}` is `{shown(result(node), infer(node, SCHEMA))}`\n"


def signatures(function: Function, example: Node) -> list[str]:
    """Find the argument types that a function accepts, by trying; group them by result type."""
    if not isinstance(example, Call) or not example.arguments:
        return [f"→ `{type_name(infer(example, SCHEMA))}`"]
    count = len(example.arguments)
    tried = [(of,) for of in TRIED] if count == 1 else [(a, b) for a in TRIED for b in TRIED]
    found: dict[str, list[str]] = {}
    for arguments in tried:
        given = function.result(example, arguments)
        if not isinstance(given, Wrong):
            names = ", ".join(f"`{type_name(of)}`" for of in arguments)
            found.setdefault(type_name(given), []).append(names)
    return [f"{_joined(names)} → `{given}`" for given, names in found.items()]


def _joined(names: list[str]) -> str:
    return " or ".join(names) if len(names[0].split(", ")) == 1 else " · ".join(names)


def shown(cell: Cell, of: DataType) -> str:
    """Render a cell for people."""
    return "null" if cell is None else SHOWN(base_type(of))(cell)


def _value(cell: Cell) -> str:
    return f'"{cell}"' if isinstance(cell, str) else repr(cell)


def _instant(cell: Cell) -> str:
    return render_instant(cell) if isinstance(cell, int) else _value(cell)


def _day(cell: Cell) -> str:
    if not isinstance(cell, int):
        return _value(cell)
    return from_micros(cell * DAY_US).date().isoformat()


def _decimal(dtype: Decimal) -> Shown:
    def show(cell: Cell) -> str:
        if not isinstance(cell, int):
            return _value(cell)
        return f"{cell / 10**dtype.scale:.{dtype.scale}f}"

    return show


def _list(dtype: List, _: object) -> Shown:
    def show(cell: Cell) -> str:
        if not isinstance(cell, tuple):
            return _value(cell)
        return f"[{', '.join(shown(item, dtype.of) for item in cell)}]"

    return show


def _map(dtype: Map, _: object) -> Shown:
    def show(cell: Cell) -> str:
        if not isinstance(cell, dict):
            return _value(cell)
        entries = (f'"{key}": {shown(item, dtype.of)}' for key, item in cell.items())
        return f"{{{', '.join(entries)}}}"

    return show


def _struct(dtype: Struct, _: object) -> Shown:
    def show(cell: Cell) -> str:
        if not isinstance(cell, dict):
            return _value(cell)
        members = (f"{f.name}={shown(cell[f.name], f.type)}" for f in dtype.fields)
        return f"{dtype.name}({', '.join(members)})"

    return show


SHOWN: TypeMapper[Shown] = TypeMapper(
    int=_value,
    float=_value,
    bool=_value,
    str=_value,
    bytes=_value,
    datetime=_instant,
    date=_day,
    decimal=_decimal,
    list=_list,
    map=_map,
    embedding=lambda _, __: _value,
    struct=_struct,
    null=lambda: _value,
)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
