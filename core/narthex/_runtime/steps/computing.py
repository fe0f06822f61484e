"""Expressions and authors' code over columns of rows."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from narthex._expr.now import at_event_time
from narthex._expr.polars.columns import COLUMNAR_ROWS, cells_of, frame_of
from narthex._expr.polars.evaluation import evaluate
from narthex._expr.python import prepare
from narthex._expr.typing import fit, infer, references
from narthex._formats.arrow import array_of
from narthex._ir.expression_nodes import Node
from narthex._ir.facts import Cell
from narthex._ir.types import DataType
from narthex._runtime.steps.rows import Cells, RowBatch


def computed(expression: Node, rows: RowBatch, *, target: DataType | None = None) -> list[Cell]:
    """Return the values of an expression on rows, computed by row or by column with equal results.

    `now()` is the event time of each row.

    Args:
        expression: The expression.
        rows: The rows with the columns that it reads.
        target: The type of the result, if it is not the expression's own.
    """
    types = rows.schema.columns
    dated = at_event_time(expression, rows.schema.timestamp)
    wanted = dated if target is None else fit(dated, types, target=target)
    read = {name: types[name] for name in sorted(references(wanted))}
    columns = rows.columns(read)
    if len(rows) < COLUMNAR_ROWS or not read:
        return _by_row(wanted, columns, read, rows=len(rows))
    result = infer(wanted, read) if target is None else target
    series = evaluate(wanted, frame_of(columns, read), read)
    return cells_of(series, result)


def _by_row(
    expression: Node,
    columns: Mapping[str, Cells],
    types: Mapping[str, DataType],
    *,
    rows: int,
) -> list[Cell]:
    prepared = prepare(expression, types)
    names = list(columns)
    if not names:
        return [prepared({}, None) for _ in range(rows)]
    return [
        prepared(dict(zip(names, cells, strict=True)), None)
        for cells in zip(*columns.values(), strict=True)
    ]


def table_of(rows: RowBatch) -> pa.Table:
    """Convert rows to the table that author code receives: keys, values, event time."""
    types = rows.schema.columns
    arrays = [array_of(rows.column(name), of) for name, of in types.items()]
    return pa.table(arrays, names=list(types))


def passing(flags: Sequence[object]) -> list[int]:
    """Return the places of true flags; null counts as false."""
    return [at for at, flag in enumerate(flags) if flag is True]
