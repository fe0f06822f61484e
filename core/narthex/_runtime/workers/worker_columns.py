# mypy: disable-error-code="explicit-any, type-arg, unreachable, no-any-return"
"""Convert Arrow tables to pandas frames and results to Arrow tables, inside workers only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate

import pandas as pd
import pyarrow as pa

from narthex._formats.pandas.frames import StructRow

_DTYPES = {
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype("python"),
}


class WrongResultError(TypeError):
    """The result of code differs from its declaration."""


def read(body: bytes) -> pa.Table:
    """Read a table from an Arrow stream."""
    return pa.ipc.open_stream(body).read_all()


def render(table: pa.Table) -> bytes:
    """Render a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as a frame of Int64, Float64, boolean, string, instants in UTC, or objects.

    Lists are Python's, also inside other values. The members of structs are attributes too. Nulls
    inside lists, maps and structs are None.
    """
    made = table.to_pandas(
        types_mapper=_DTYPES.get,
        use_threads=False,
        maps_as_pydicts="lossy",
        date_as_object=True,
        integer_object_nulls=True,
    )
    for field in table.schema:
        if pa.types.is_nested(field.type):
            chunks = table.column(field.name).chunks
            values = [value for chunk in chunks for value in _python_values(chunk)]
            made[field.name] = pd.Series(values, index=made.index, dtype=object)
        if _has_struct(field.type):
            made[field.name] = made[field.name].map(partial(_with_structs, of=field.type))
    return made


def _python_values(array: pa.Array) -> Iterable[object]:
    """Return nested values as Python's: lists of numbers, truths or text in a faster way."""
    if (
        not isinstance(array, pa.ListArray)
        or pa.types.is_map(array.type)
        or not _is_plain(array.type.value_type)
        or array.flatten().null_count
    ):
        return array.to_pylist(maps_as_pydicts="lossy")
    members = array.flatten().to_numpy(zero_copy_only=False)
    lengths = array.value_lengths().to_pylist()
    ends = accumulate(length or 0 for length in lengths)
    return [
        None if length is None else members[end - length : end].tolist()
        for length, end in zip(lengths, ends, strict=True)
    ]


def _is_plain(of: pa.DataType) -> bool:
    """Whether NumPy converts members of that type to the same Python values as Arrow does."""
    kinds = (pa.types.is_integer, pa.types.is_float64, pa.types.is_boolean, pa.types.is_string)
    return any(kind(of) for kind in kinds)


def _has_struct(of: pa.DataType) -> bool:
    if pa.types.is_list(of) or pa.types.is_map(of):
        return _has_struct(of.value_type if pa.types.is_list(of) else of.item_type)
    return pa.types.is_struct(of)


def _with_structs(value: object, of: pa.DataType) -> object:
    if value is None or not _has_struct(of):
        return value
    if isinstance(value, Mapping):
        if pa.types.is_map(of):
            return {name: _with_structs(one, of.item_type) for name, one in value.items()}
        members = (of.field(at) for at in range(of.num_fields))
        return StructRow((m.name, _with_structs(value.get(m.name), m.type)) for m in members)
    if isinstance(value, Iterable) and pa.types.is_list(of):
        return [_with_structs(one, of.value_type) for one in value]
    return value


def called(entry: Callable[..., object], kind: str, given: pd.DataFrame) -> object:
    """Call a function of an author: an extractor with columns, any other with the frame."""
    if kind == "extract":
        # The text that was sent contains, by that name, the parts of its class that it uses.
        own = getattr(entry, "__globals__", {}).get("cls")
        return entry(own, *[given[name] for name in given.columns])
    return entry(given)


def asked(instants: object, keys: Mapping[str, object]) -> pa.Table:
    """Return the keys of a lookup as a table; the column "" contains the instants."""
    arrays = {"": pa.array(pd.Series(instants), pa.timestamp("us", tz="UTC"))}
    arrays |= {name: pa.array(pd.Series(one), from_pandas=True) for name, one in keys.items()}
    return pa.table(arrays)


def found(answer: pa.Table, fields: Sequence[str]) -> tuple[pd.DataFrame, pd.Series]:
    """Return the answer of a lookup as a frame of the fields, and a series marking found keys."""
    rows = frame(answer)
    was_found = rows.pop("")
    return (rows[list(fields)] if fields else rows), was_found


def table(result: object, outputs: list[list[object]], *, index: pd.Index) -> pa.Table:
    """Return a result as the declared columns, pairs of a name and an Arrow type as text.

    Rows are identified by the labels of the input, if a column has all of them, in any order;
    otherwise by their position.

    Raises:
        WrongResultError: A column or rows are missing, or values are of another type.
    """
    wanted = [(str(name), None if of is None else _type_of(str(of))) for name, of in outputs]
    columns = _columns(result, [name for name, _ in wanted])
    for name, column in columns.items():
        if len(column) != len(index):
            message = f"column `{name}` has {len(column)} rows, the input has {len(index)}"
            raise WrongResultError(message)
    arrays = [_array(name, _in_order(columns[name], index), of) for name, of in wanted]
    return pa.table(arrays, names=[name for name, _ in wanted])


def joined(tables: Sequence[pa.Table], outputs: list[list[object]]) -> pa.Table:
    """Return the rows of tables of the outputs as one batch; without a table, no rows."""
    fields = [(str(name), _type_of(str(of))) for name, of in outputs]
    return pa.concat_tables([pa.schema(fields).empty_table(), *tables]).combine_chunks()


def _in_order(column: pd.Series, index: pd.Index) -> pd.Series:
    labels = column.index
    if labels.equals(index) or not labels.is_unique or not labels.isin(index).all():
        return column
    return column.reindex(index)


def _columns(result: object, names: list[str]) -> dict[str, pd.Series]:
    if isinstance(result, pd.Series) and len(names) == 1:
        return {names[0]: result}
    if isinstance(result, pd.DataFrame):
        missing = [name for name in names if name not in result.columns]
        if missing:
            message = f"the frame has no column `{missing[0]}`; it has {list(result.columns)}"
            raise WrongResultError(message)
        return {name: result[name] for name in names}
    found = type(result).__name__
    wanted = "a Series" if len(names) == 1 else f"a DataFrame of {names}"
    raise WrongResultError(f"it gave a {found}, not {wanted}")


def _array(name: str, column: pd.Series, of: pa.DataType | None) -> pa.Array:
    if of is not None and _has_struct(of):
        column = column.map(_plain, na_action="ignore")
    found = pa.Array.from_pandas(column)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if of is None or found.type == of:
        return found
    if pa.types.is_boolean(found.type) and pa.types.is_integer(of):
        return found.cast(of)
    if _loses(found.type, of):
        message = f"column `{name}` is of type `{column.dtype}`, not `{of}`"
        raise WrongResultError(message)
    try:
        return pa.Array.from_pandas(column, type=of)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        message = f"column `{name}` of type `{column.dtype}` is not `{of}`: {error}"
        raise WrongResultError(message) from None


def _plain(value: object) -> object:
    """Convert a struct to a dict of its members, also in lists; other values are unchanged."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    as_json = getattr(value, "as_json", None)
    return as_json() if callable(as_json) else value


def _loses(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the kinds of the types differ, so that a conversion would be a guess."""
    if pa.types.is_null(found):
        return False
    kinds = (pa.types.is_boolean, pa.types.is_floating, pa.types.is_integer, pa.types.is_string)
    for kind in kinds:
        if kind(found) and not kind(wanted):
            return not (pa.types.is_integer(found) and pa.types.is_floating(wanted))
    return False


def _type_of(text: str) -> pa.DataType:
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))
    return schema.field(0).type
