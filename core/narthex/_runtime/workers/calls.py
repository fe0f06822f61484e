# mypy: disable-error-code="type-arg, arg-type"
"""Call author code as functions, wherever it runs, and check its results."""

import abc
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs
import pyarrow as pa

from narthex._formats.arrow import array_of, arrow_type, cells_of
from narthex._ir.code import UserCode
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import Bool, Datetime, Optional
from narthex._runtime.workers.author_lines import UNKNOWN, Place, author_line
from narthex._runtime.workers.isolation import Failed, Passed, isolate
from narthex._runtime.workers.lookups import Find
from narthex._runtime.workers.results import misfits, schema_of
from narthex.errors import UserCodeError

GREATEST_MESSAGE = 3000
"""The number of characters that are shown of a worker's error output."""


class Callers(Protocol):
    """Chooses the caller of an extractor: one for all, or one for each isolated extractor."""

    def reaching(self, features: Sequence[str]) -> "CodeCalls":
        """Return the caller of the extractor that computes some features."""


@attrs.frozen
class RowResults:
    """The result of author code on the rows of a batch on which it did not fail.

    Attributes:
        table: The declared outputs, a row for each of `places`.
        places: The rows that passed, ascending.
        failed: The other rows, ascending, with their errors.
    """

    table: pa.Table
    places: Sequence[int]
    failed: Sequence[Failed] = ()


class CodeCalls(abc.ABC):
    """Calls author code with columns and checks its results."""

    def reaching(self, features: Sequence[str]) -> "CodeCalls":
        """Return itself, as it calls all code."""
        del features
        return self

    def extract(
        self,
        code: UserCode,
        *,
        name: str,
        instants: Sequence[int],
        inputs: Sequence[tuple[Column, Sequence[Cell]]],
        outputs: Sequence[Column],
        find: Find | None = None,
    ) -> list[list[Cell]]:
        """Call an extractor with instants and columns; return its output columns, in order.

        Args:
            code: The extractor.
            name: Its name in messages.
            instants: The instant of each row, microseconds.
            inputs: Its arguments after the instants.
            outputs: The declared output columns.
            find: Answers lookups that it makes.

        Raises:
            UserCodeError: It failed, took too long, or its result differs from its declaration.
        """
        arrays = [array_of(list(instants), Datetime())]
        arrays += [array_of(cells, column.type) for column, cells in inputs]
        # A name may occur twice, from two featuresets, so arguments are identified by position.
        table = pa.table(arrays, names=[str(position) for position in range(len(arrays))])
        title = f"extractor `{name}`"
        found = self.call(code, "extract", table, outputs, title=title, find=find)
        return [
            cells_of(found.column(position), column.type) for position, column in enumerate(outputs)
        ]

    def assign(
        self, code: UserCode, table: pa.Table, column: Column, *, title: str = "`assign`"
    ) -> pa.ChunkedArray:
        """Call a function of a frame that returns one column, of `arrow_type(column.type)`.

        Raises:
            UserCodeError: It failed, took too long, or its result differs from its declaration.
        """
        return self.call(code, "assign", table, (column,), title=title).column(0)

    def compute_each(
        self,
        code: UserCode,
        *,
        inputs: Sequence[tuple[Column, Sequence[Cell]]],
        output: Column,
        title: str,
    ) -> "list[Cell | UserCodeError]":
        """Call a function of a frame that returns one column; return each row's cell, or the error
        of a row on which it fails.

        Raises:
            SandboxUnavailable: No worker could be started.
        """
        arrays = [array_of(cells, column.type) for column, cells in inputs]
        table = pa.table(arrays, names=[column.name for column, _ in inputs])
        found = self.isolated(code, "assign", table, (output,), title=title)
        made: list[Cell | UserCodeError] = [None] * table.num_rows
        cells = cells_of(found.table.column(0), output.type)
        for place, cell in zip(found.places, cells, strict=True):
            made[place] = cell
        for failed_part in found.failed:
            for place in failed_part.places:
                made[place] = failed_part.error
        return made

    def filter(
        self, code: UserCode, table: pa.Table, *, title: str = "`filter`"
    ) -> pa.ChunkedArray:
        """Call a predicate of a frame; return whether each row passes, where null counts as false.

        Raises:
            UserCodeError: It failed, took too long, or its result is not booleans.
        """
        wanted = (Column("keep", Optional(Bool())),)
        return self.call(code, "filter", table, wanted, title=title).column(0).fill_null(False)

    def transform(
        self, code: UserCode, table: pa.Table, columns: Sequence[Column], *, title: str
    ) -> pa.Table:
        """Call a function of a frame that returns a frame; return these columns of it, in order.

        Raises:
            UserCodeError: It failed, took too long, or its result differs from its declaration.
        """
        return self.call(code, "transform", table, columns, title=title)

    def isolated(
        self, code: UserCode, kind: str, table: pa.Table, outputs: Sequence[Column], *, title: str
    ) -> RowResults:
        """Call a function of a frame; rows on which it fails are found, and fail alone.

        Args:
            code: A function whose result for a row depends on that row only.
            kind: `assign`, `filter` or `transform`.
            table: The rows.
            outputs: The declared output columns.
            title: The step, for messages.

        Raises:
            SandboxUnavailable: No worker could be started.
        """
        found = isolate(table.num_rows, _Batch(self, code, kind, table, outputs, title))
        places = [place for part in found.passed for place in part.places]
        made = joined_tables([part.result for part in found.passed], outputs)
        return RowResults(made, places, found.failed)

    def call_one_by_one(
        self, code: UserCode, kind: str, table: pa.Table, outputs: Sequence[Column], *, title: str
    ) -> RowResults:
        """Call code with each row alone.

        Raises:
            UserCodeError: The worker was lost, or its answer is invalid.
            SandboxUnavailable: No worker could be started.
        """
        places: list[int] = []
        tables: list[pa.Table] = []
        failed: list[Failed] = []
        for at in range(table.num_rows):
            try:
                made = self.call(code, kind, table.slice(at, 1), outputs, title=title)
            except UserCodeError as error:
                failed.append(Failed((at,), error))
            else:
                places.append(at)
                tables.append(made)
        return RowResults(joined_tables(tables, outputs), places, failed)

    @abc.abstractmethod
    def call(
        self,
        code: UserCode,
        kind: str,
        table: pa.Table,
        outputs: Sequence[Column],
        *,
        title: str,
        find: Find | None = None,
    ) -> pa.Table:
        """Call code with a table; return a table of the outputs with the same number of rows."""


@attrs.frozen
class _Batch:
    """The rows of one step, on which `isolate` runs its code."""

    calls: CodeCalls
    code: UserCode
    kind: str
    table: pa.Table
    outputs: Sequence[Column]
    title: str

    def together(self, places: range) -> pa.Table:
        return self.calls.call(
            self.code, self.kind, self._rows(places), self.outputs, title=self.title
        )

    def one_by_one(self, places: range) -> tuple[Passed[pa.Table], list[Failed]]:
        found = self.calls.call_one_by_one(
            self.code, self.kind, self._rows(places), self.outputs, title=self.title
        )
        passed = Passed([places[at] for at in found.places], found.table)
        return passed, [Failed([places[at] for at in f.places], f.error) for f in found.failed]

    def _rows(self, places: range) -> pa.Table:
        whole = len(places) == self.table.num_rows
        return self.table if whole else self.table.slice(places.start, len(places))


def joined_tables(tables: Sequence[pa.Table], outputs: Sequence[Column]) -> pa.Table:
    """Return the rows of tables of the outputs; without a table, no rows."""
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables([schema_of(outputs).empty_table(), *tables])


def call_header(code: UserCode, kind: str, outputs: Sequence[Column]) -> dict[str, object]:
    """Return the header of a call: the code and its declared outputs."""
    return {
        "kind": kind,
        "entry": code.entry,
        "source": code.source,
        "outputs": [[column.name, _type_text(column)] for column in outputs],
        "files": {file.name: file.sha256.hex() for file in code.files},
    }


def file_content(code: UserCode, name: object) -> bytes | None:
    """Return the content of a data file that belongs to code; None if it has none of that name."""
    return next((file.content for file in code.files if file.name == name), None)


def checked_result(
    result: pa.Table, code: UserCode, outputs: Sequence[Column], *, rows: int, title: str
) -> pa.Table:
    """Return a result after checking it against the declaration.

    Raises:
        UserCodeError: The result differs from the declaration.
    """
    wrong = misfits(result, outputs, rows=rows)
    if wrong:
        raise UserCodeError(f"{title} gave a wrong answer: {wrong[0]}", origin=code.origin)
    return result


def checked_rows(
    made: pa.Table,
    errors: Mapping[int, UserCodeError],
    code: UserCode,
    outputs: Sequence[Column],
    *,
    title: str,
) -> RowResults:
    """Return results of single rows after checking each against the declaration.

    Args:
        made: The results of the rows without an error.
        errors: The errors of the other rows, by their places.
        code: The code.
        outputs: The declared output columns.
        title: The step, for messages.
    """
    rows = made.num_rows + len(errors)
    wrong = dict(errors)
    passed: list[int] = []
    for at, place in enumerate(at for at in range(rows) if at not in errors):
        try:
            checked_result(made.slice(at, 1), code, outputs, rows=1, title=title)
            passed.append(at)
        except UserCodeError as error:
            wrong[place] = error
    places = [place for place in range(rows) if place not in wrong]
    kept = made if len(passed) == made.num_rows else made.take(pa.array(passed, pa.int64()))
    return RowResults(kept, places, [Failed((at,), wrong[at]) for at in sorted(wrong)])


def failed(code: UserCode, title: str, header: Mapping[str, object]) -> UserCodeError:
    """Return the error of a call whose code raised one, with the line in the author's file."""
    line = author_line(code, _place(header.get("place")))
    text = f" at `{line.text}`" if line.text else ""
    message = f"{header.get('error')}: {header.get('message')}{text}"[:GREATEST_MESSAGE]
    return UserCodeError(f"{title} failed: {message}", origin=line.origin)


def _place(sent: object) -> Place:
    """Read the place that a worker sent, which may be anything."""
    match sent:
        case [int(first), int(last), int(start), int(end)]:
            return first, last, start, end
        case _:
            return UNKNOWN


def _type_text(column: Column) -> str:
    schema = pa.schema([("x", arrow_type(column.type))])
    return bytes(schema.serialize()).hex()
