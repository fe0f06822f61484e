# mypy: disable-error-code="type-arg"
"""Answer the lookups of a running extractor, outside its worker."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from narthex._formats.arrow import array_of, cells_of
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import Datetime
from narthex._runtime.workers.arrow_messages import BrokenStreamError
from narthex._runtime.workers.frames import Frame
from narthex._runtime.workers.results import read_question, render_table
from narthex.errors import LookupImpossible


class LookupRow(Protocol):
    """The result of a lookup of one row."""

    @property
    def values(self) -> tuple[Cell, ...]:
        """Its columns, in order; of a row that was not found, the values in their place."""

    @property
    def is_found(self) -> bool:
        """Whether the row was found."""


Cells: TypeAlias = Sequence[Cell]


class Find(Protocol):
    """Returns a dataset's columns and its rows as of instants."""

    def __call__(
        self, dataset: str, keys: Mapping[str, Cells], as_of: Sequence[int]
    ) -> tuple[Sequence[Column], Sequence[LookupRow]]: ...


def answer_lookup(request: Frame, find: Find | None, *, rows: int, most_bytes: int) -> Frame:
    """Answer a worker's lookup with a table of rows; its column "" marks the found rows.

    Args:
        request: The frame of the lookup.
        find: Finds the rows.
        rows: The number of rows of the worker's call.
        most_bytes: The size limit of the lookup.

    Raises:
        LookupImpossible: The dataset does not exist, or the lookup cannot be read.
    """
    try:
        question = read_question(request.body, rows=rows, most_bytes=most_bytes)
    except BrokenStreamError as error:
        raise LookupImpossible(f"a lookup cannot be read: {error}") from None
    table = found_table(str(request.header.get("dataset")), question, find)
    return Frame({"kind": "found"}, render_table(table))


def found_table(dataset: str, request: pa.Table, find: Find | None) -> pa.Table:
    """Return the rows of a dataset for keys and instants; the column "" marks the found rows.

    Raises:
        LookupImpossible: The dataset does not exist, or the lookup cannot be read.
    """
    if find is None:
        raise LookupImpossible("only extractors can look up rows")
    try:
        keys = {name: _key_cells(request.column(name)) for name in request.column_names if name}
        instants = [at for at in cells_of(request.column(""), Datetime()) if isinstance(at, int)]
    except pa.ArrowException as error:
        raise LookupImpossible(f"a lookup cannot be read: {error}") from None
    if len(instants) != request.num_rows:
        raise LookupImpossible("a lookup has no instant for some rows")
    columns, rows = find(dataset, keys, instants)
    arrays = [
        array_of([row.values[at] for row in rows], column.type) for at, column in enumerate(columns)
    ]
    marks = pa.array([row.is_found for row in rows], pa.bool_())
    return pa.table([*arrays, marks], names=[*(column.name for column in columns), ""])


def _key_cells(array: pa.ChunkedArray) -> list[Cell]:
    if pa.types.is_timestamp(array.type):
        return cells_of(array.cast(pa.timestamp("us", tz="UTC")), Datetime())
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    return list(array.to_pylist())
