"""Facts as columns: the Arrow form of a dataset's log, its state, and its public columns.

Columns of the Arrow form: partition, offset, row_id, version, event_time (microseconds), alive,
`k_<name>` for each key column, `v_<name>` for each value column. Instants are microseconds and
days are counts, as in cells; decimals are decimal128(28, scale).
"""

import decimal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
import pyarrow as pa

from narthex._ir import Cell, DataType, Fact, LogSpec, RowId, Version, types

ColumnTypes: TypeAlias = "dict[str, DataType]"
"""Arrow names of a log's columns with their types; keys first."""

ArrowColumn: TypeAlias = "pa.ChunkedArray[pa.Scalar[pa.DataType]]"
"""One column of an Arrow table."""

DECIMAL_DIGITS = 28
_EXACT = decimal.Context(prec=DECIMAL_DIGITS + 10)
_SCALARS: dict[type[DataType], pa.DataType] = {
    types.Int: pa.int64(),
    types.Datetime: pa.int64(),
    types.Float: pa.float64(),
    types.Bool: pa.bool_(),
    types.Str: pa.string(),
    types.Bytes: pa.binary(),
    types.Date: pa.int32(),
}
_POSITION: "tuple[pa.Field[pa.DataType], ...]" = (
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("row_id", pa.binary(), nullable=False),
    pa.field("version", pa.binary(), nullable=False),
    pa.field("event_time", pa.int64(), nullable=False),
    pa.field("alive", pa.bool_(), nullable=False),
)


@attrs.frozen
class LogRow:
    """A fact with its position in the topic."""

    partition: int
    offset: int
    fact: Fact


class _Render(Protocol):
    def __call__(self, cell: Cell, /) -> object: ...


def arrow_type(of: DataType) -> pa.DataType:
    """Return the Arrow type of a column, regardless of restrictions and optionality."""
    base = types.unrestricted(types.inner(of))
    match base:
        case types.Decimal(scale=scale):
            return pa.decimal128(DECIMAL_DIGITS, scale)
        case types.List(of=item):
            return pa.list_(arrow_type(item))
        case types.Map(of=item):
            return pa.map_(pa.string(), arrow_type(item))
        case types.Embedding():
            return pa.list_(pa.float64())
        case types.Struct(fields=fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
        case _:
            return _SCALARS[type(base)]


def columns(log: LogSpec) -> ColumnTypes:
    """Return the key and value columns of a log by their Arrow names."""
    return {f"k_{column.name}": column.type for column in log.keys} | {
        f"v_{column.name}": column.type for column in log.values
    }


def fact_schema(log: LogSpec) -> pa.Schema:
    """Return the schema of a log's Arrow form; values may be null, keys never."""
    return pa.schema(
        [
            *_POSITION,
            *(
                pa.field(name, arrow_type(of), nullable=name.startswith("v_"))
                for name, of in columns(log).items()
            ),
        ]
    )


def to_table(log: LogSpec, rows: Sequence[LogRow]) -> pa.Table:
    """Render facts as columns, in their order."""
    schema = fact_schema(log)
    if not rows:
        return schema.empty_table()
    facts = [row.fact for row in rows]
    cells = zip(*(fact.key + fact.values for fact in facts), strict=True)
    given: list[list[object]] = [
        [row.partition for row in rows],
        [row.offset for row in rows],
        [fact.row_id for fact in facts],
        [fact.version for fact in facts],
        [fact.event_time for fact in facts],
        [fact.alive for fact in facts],
        *(_rendered(column, of) for column, of in zip(cells, columns(log).values(), strict=True)),
    ]
    arrays = [_array(column, field.type) for column, field in zip(given, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _array(column: list[object], of: pa.DataType) -> "pa.Array[pa.Scalar[pa.DataType]]":
    return pa.array(column, type=of)


def _rendered(column: Sequence[Cell], of: DataType) -> list[object]:
    render = _render(of)
    return list(column) if render is None else [_or_null(render, cell) for cell in column]


def _or_null(render: _Render, cell: Cell) -> object:
    return None if cell is None else render(cell)


def _render(of: DataType) -> _Render | None:
    """Return the conversion of a cell to an Arrow value; None where Arrow accepts the cell
    itself.
    """
    match types.unrestricted(types.inner(of)):
        case types.Decimal(scale=scale):
            return lambda cell: decimal.Decimal(_whole(cell)).scaleb(-scale, _EXACT)
        case types.List(of=item):
            render = _render(item)
            return None if render is None else _each(render)
        case types.Map(of=item):
            return _pairs(_render(item))
        case types.Struct(fields=fields):
            return _members({field.name: _render(field.type) for field in fields})
        case _:
            return None


def _whole(cell: Cell) -> int:
    if isinstance(cell, int):
        return cell
    raise TypeError(f"a decimal cell must be its unscaled integer, got {cell!r}")


def _each(render: _Render) -> _Render:
    def rendered(cell: Cell) -> object:
        assert isinstance(cell, tuple)  # noqa: S101 - narrows; the codec checked the type
        return [_or_null(render, item) for item in cell]

    return rendered


def _pairs(render: _Render | None) -> _Render:
    def rendered(cell: Cell) -> object:
        assert isinstance(cell, dict)  # noqa: S101 - narrows; the codec checked the type
        if render is None:
            return list(cell.items())
        return [(name, _or_null(render, item)) for name, item in cell.items()]

    return rendered


def _members(renders: Mapping[str, _Render | None]) -> _Render | None:
    if not any(renders.values()):
        return None

    def rendered(cell: Cell) -> object:
        assert isinstance(cell, dict)  # noqa: S101 - narrows; the codec checked the type
        return {
            name: item if render is None else _or_null(render, item)
            for name, render in renders.items()
            for item in (cell.get(name),)
        }

    return rendered


def to_rows(log: LogSpec, table: pa.Table) -> list[LogRow]:
    """Read facts back from columns, in their order."""
    fixed = [table.column(field.name).to_pylist() for field in _POSITION]
    keys = _cells(table, {f"k_{column.name}": column.type for column in log.keys})
    values = _cells(table, {f"v_{column.name}": column.type for column in log.values})
    return [
        LogRow(
            partition,
            offset,
            Fact(
                row_id=RowId(row_id),
                version=Version(version),
                event_time=event_time,
                key=key,
                values=value,
                alive=alive,
            ),
        )
        for partition, offset, row_id, version, event_time, alive, key, value in zip(
            *fixed, keys, values, strict=True
        )
    ]


def _cells(table: pa.Table, of: ColumnTypes) -> list[tuple[Cell, ...]]:
    if not of:
        return [()] * int(table.num_rows)
    read = [read_column(table.column(name), kind) for name, kind in of.items()]
    return list(zip(*read, strict=True))


def read_column(column: ArrowColumn, of: DataType) -> list[Cell]:
    """Read the cells of one column of the Arrow form."""
    # The stubs of Arrow cover only columns of types that they define.
    found: list[Cell] = column.to_pylist()  # type: ignore[misc,assignment]
    if type(types.unrestricted(types.inner(of))) in _SCALARS:
        return found
    return [_cell(item, of) for item in found]


def _cell(item: object, of: DataType) -> Cell:
    match types.unrestricted(types.inner(of)), item:
        case types.Decimal(scale=scale), decimal.Decimal() as number:
            return int(number.scaleb(scale, _EXACT))
        case types.Map(of=kind), list(entries):
            return dict(_entries(entries, kind))
        case types.List(of=kind), list(members):
            return tuple(_cell(member, kind) for member in members)
        case types.Embedding(), list(members):
            return tuple(members)
        case types.Struct(fields=fields), dict(members):
            return {field.name: _cell(members[field.name], field.type) for field in fields}
        case _, None | bool() | int() | float() | str() | bytes():
            return item
        case kind, _:
            raise TypeError(f"{item!r} is not a value of {kind}")


def _entries(entries: Iterable[tuple[str, object]], of: DataType) -> Iterator[tuple[str, Cell]]:
    for name, item in entries:
        yield name, _cell(item, of)
