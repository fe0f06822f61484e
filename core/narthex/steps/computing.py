"""Expressions and authors' code over columns of rows."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from narthex.evaluate.columns import cells_of, frame_of
from narthex.evaluate.expressions import evaluate
from narthex.evaluate.query import COLUMNAR_ROWS
from narthex.expr.nodes import Node
from narthex.expr.plain import prepare
from narthex.expr.typing import fit, infer, references
from narthex.facts import Cell
from narthex.steps.rows import Cells, Rows
from narthex.types import DataType
from narthex.workers import array_of


def computed(
    expression: Node, rows: Rows, *, now_us: int, target: DataType | None = None
) -> list[Cell]:
    """Give the values of an expression on rows, by row or by column: both give the same.

    Args:
        expression: What to compute.
        rows: Over which columns.
        now_us: What `now()` means, microseconds.
        target: The type of the result, where another than its own is wanted.
    """
    types = rows.schema.columns
    wanted = expression if target is None else fit(expression, types, target=target)
    read = {name: types[name] for name in sorted(references(wanted))}
    columns = rows.columns(read)
    if len(rows) < COLUMNAR_ROWS or not read:
        return _by_row(wanted, columns, read, rows=len(rows), now_us=now_us)
    result = infer(wanted, read) if target is None else target
    series = evaluate(wanted, frame_of(columns, read), read, now_us)
    return cells_of(series, result)


def _by_row(
    expression: Node,
    columns: Mapping[str, Cells],
    types: Mapping[str, DataType],
    *,
    rows: int,
    now_us: int,
) -> list[Cell]:
    prepared = prepare(expression, types)
    names = list(columns)
    if not names:
        return [prepared({}, now_us) for _ in range(rows)]
    return [
        prepared(dict(zip(names, cells, strict=True)), now_us)
        for cells in zip(*columns.values(), strict=True)
    ]


def table_of(rows: Rows) -> pa.Table:
    """Give rows as authors' code is given them: keys, values, event time."""
    types = rows.schema.columns
    arrays = [array_of(rows.column(name), of) for name, of in types.items()]
    return pa.table(arrays, names=list(types))


def passing(flags: Sequence[object]) -> list[int]:
    """Give the places where a flag is true; null counts as false."""
    return [at for at, flag in enumerate(flags) if flag is True]
