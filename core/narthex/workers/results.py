# mypy: disable-error-code="type-arg, arg-type"
"""What comes from a worker is judged here, by us: its shape, its types, its values."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from narthex.errors import UserCodeError
from narthex.literals import is_within
from narthex.rendered_types import type_name
from narthex.schema import Column
from narthex.types import Between, Embedding, OneOf, Optional, Regex, inner
from narthex.workers.arrow_cells import arrow_type


def read_table(body: bytes) -> pa.Table:
    """Read a table that a worker sent.

    Raises:
        UserCodeError: The bytes are no valid Arrow stream.
    """
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserCodeError(f"a worker sent no Arrow table: {error}") from None
    return table


def render_table(table: pa.Table) -> bytes:
    """Render a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def misfits(table: pa.Table, outputs: Sequence[Column], *, rows: int) -> tuple[str, ...]:
    """Say in what a result is not what was declared; empty when it is."""
    if table.num_rows != rows or table.num_columns != len(outputs):
        return (f"{table.num_columns} columns of {table.num_rows} rows",)
    found = (_misfit(column, table.column(position)) for position, column in enumerate(outputs))
    return tuple(wrong for wrong in found if wrong is not None)


def _misfit(column: Column, array: pa.ChunkedArray) -> str | None:
    wanted = arrow_type(column.type)
    if array.type != wanted:
        return f"column `{column.name}` is of type `{array.type}`, not `{wanted}`"
    if array.null_count and not isinstance(column.type, Optional):
        return f"column `{column.name}` has a null; its type is `{type_name(column.type)}`"
    return _out_of_bounds(column, array)


def _out_of_bounds(column: Column, array: pa.ChunkedArray) -> str | None:
    of = inner(column.type)
    match of:
        case Between():
            wrong = [value for value in array.drop_null().to_pylist() if not is_within(value, of)]
        case OneOf():
            known = set(of.options)
            wrong = [value for value in array.drop_null().to_pylist() if value not in known]
        case Regex():
            matches = pc.match_substring_regex(array, f"^(?:{of.pattern})$")
            wrong = array.filter(pc.invert(matches)).to_pylist()
        case Embedding():
            wrong = [value for value in array.drop_null().to_pylist() if len(value) != of.size]
        case _:
            return None
    if not wrong:
        return None
    return f"column `{column.name}` has `{wrong[0]}`, which is not of type `{type_name(of)}`"
