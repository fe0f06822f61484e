# mypy: disable-error-code="type-arg, arg-type"
"""Check the results of a worker outside of it: their shape, their types, their values."""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from narthex._formats.arrow import arrow_type
from narthex._ir.literals import is_within
from narthex._ir.schema import Column
from narthex._ir.type_names import type_name
from narthex._ir.types import Between, Embedding, OneOf, Optional, Regex, inner
from narthex._runtime.workers.arrow_messages import BrokenStreamError, judge_stream

MOST_KEYS: Final = 100_000
MOST_KEYS_A_ROW: Final = 16
"""A lookup may ask for at most `MOST_KEYS` rows, or this many for each row of a larger call."""
MOST_KEY_COLUMNS: Final = 32

_KEY_TYPES: Final = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_decimal,
    pa.types.is_null,
)


def read_answer(body: bytes, outputs: Sequence[Column], *, rows: int, most_bytes: int) -> pa.Table:
    """Read the answer of a call: the declared columns, as many rows as went in.

    Raises:
        BrokenStreamError: It has another form, which is detected before it is decoded.
    """
    claimed = judge_stream(body, most_rows=rows, most_bytes=most_bytes)
    if claimed.schema != bytes(schema_of(outputs).serialize()):
        raise BrokenStreamError("it has other columns than are declared")
    if claimed.rows != rows:
        raise BrokenStreamError(f"it has {claimed.rows} rows, the input has {rows}")
    return _decoded(body)


def read_failures(header: Mapping[str, object], *, rows: int) -> dict[int, dict[str, object]]:
    """Read the rows of a call that failed alone, with their errors as `failed` reads them.

    Args:
        header: The header of the answer; its `failed` has, for each row, its number, the type and
            the message of the error, and the place in the text that ran.
        rows: The number of rows of the call.

    Raises:
        BrokenStreamError: It has another form.
    """
    found: dict[int, dict[str, object]] = {}
    told = header.get("failed")
    for entry in told if isinstance(told, list) else [None]:
        match entry:
            case [int(at), str(error), str(message), [int(), int(), int(), int()] as place] if (
                0 <= at < rows and at not in found
            ):
                found[at] = {"error": error, "message": message, "place": place}
            case _:
                raise BrokenStreamError("its list of failed rows cannot be read")
    return found


def read_question(body: bytes, *, rows: int, most_bytes: int) -> pa.Table:
    """Read the keys of a lookup: flat columns with unique names; `""` contains the instants.

    Args:
        body: The Arrow stream.
        rows: The number of rows of the worker's call.
        most_bytes: The greatest size of the stream.

    Raises:
        BrokenStreamError: It has another form, which is detected before it is decoded.
    """
    most_rows = max(MOST_KEYS, MOST_KEYS_A_ROW * rows)
    claimed = judge_stream(body, most_rows=most_rows, most_bytes=most_bytes)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(claimed.schema))
    except (pa.ArrowException, OSError) as error:
        raise BrokenStreamError(str(error)) from None
    names = schema.names
    if len(names) > MOST_KEY_COLUMNS or len(set(names)) < len(names) or "" not in names:
        raise BrokenStreamError("its columns are not keys and instants")
    if schema.field("").type != pa.timestamp("us", tz="UTC"):
        raise BrokenStreamError("its instants are not instants")
    if not all(_is_key(field.type) for field in schema):
        raise BrokenStreamError("a key is not a number, a text, bytes, an instant or a date")
    return _decoded(body)


def schema_of(outputs: Sequence[Column]) -> pa.Schema:
    """Return the schema that an answer must have, byte for byte."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in outputs])


def _is_key(of: pa.DataType) -> bool:
    return any(judge(of) for judge in _KEY_TYPES)


def _decoded(body: bytes) -> pa.Table:
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise BrokenStreamError(str(error)) from None
    return table


def render_table(table: pa.Table) -> bytes:
    """Render a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def misfits(table: pa.Table, outputs: Sequence[Column], *, rows: int) -> tuple[str, ...]:
    """Return how a result differs from the declaration; empty if it does not."""
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
