# mypy: disable-error-code="type-arg, arg-type"
"""Call author code as functions, wherever it runs, and check its results."""

import abc
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from narthex._formats.arrow import array_of, arrow_type, cells_of
from narthex._ir.code import UserCode
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import Bool, Datetime, Optional
from narthex._runtime.workers.author_lines import place_of
from narthex._runtime.workers.lookups import Find
from narthex._runtime.workers.results import misfits
from narthex.errors import UserCodeError

GREATEST_MESSAGE = 3000
"""The number of characters that are shown of a worker's error output."""


class Callers(Protocol):
    """Chooses the caller of an extractor: one for all, or one for each isolated extractor."""

    def reaching(self, features: Sequence[str]) -> "CodeCalls":
        """Return the caller of the extractor that computes some features."""


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
        found = self._call(code, "extract", table, outputs, title=title, find=find)
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
        return self._call(code, "assign", table, (column,), title=title).column(0)

    def compute(
        self,
        code: UserCode,
        *,
        inputs: Sequence[tuple[Column, Sequence[Cell]]],
        output: Column,
        title: str,
    ) -> list[Cell]:
        """Call a function of a frame that returns one column; arguments and result are cells.

        Raises:
            UserCodeError: It failed, took too long, or its result differs from its declaration.
        """
        arrays = [array_of(cells, column.type) for column, cells in inputs]
        table = pa.table(arrays, names=[column.name for column, _ in inputs])
        found = self._call(code, "assign", table, (output,), title=title)
        return cells_of(found.column(0), output.type)

    def filter(
        self, code: UserCode, table: pa.Table, *, title: str = "`filter`"
    ) -> pa.ChunkedArray:
        """Call a predicate of a frame; return whether each row passes, where null counts as false.

        Raises:
            UserCodeError: It failed, took too long, or its result is not booleans.
        """
        wanted = (Column("keep", Optional(Bool())),)
        return self._call(code, "filter", table, wanted, title=title).column(0).fill_null(False)

    def transform(
        self, code: UserCode, table: pa.Table, columns: Sequence[Column], *, title: str
    ) -> pa.Table:
        """Call a function of a frame that returns a frame; return these columns of it, in order.

        Raises:
            UserCodeError: It failed, took too long, or its result differs from its declaration.
        """
        return self._call(code, "transform", table, columns, title=title)

    @abc.abstractmethod
    def _call(
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


def call_header(code: UserCode, kind: str, outputs: Sequence[Column]) -> dict[str, object]:
    """Return the header of a call: the code and its declared outputs."""
    return {
        "kind": kind,
        "entry": code.entry,
        "source": code.source,
        "outputs": [[column.name, _type_text(column)] for column in outputs],
    }


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


def failed(code: UserCode, title: str, header: Mapping[str, object]) -> UserCodeError:
    """Return the error of a call whose code raised one, with the line in the author's file."""
    line = header.get("line")
    where = place_of(code, line if isinstance(line, int) else 0)
    text = f" at `{header['text']}`" if header.get("text") else ""
    message = f"{header.get('error')}: {header.get('message')}{text}"[:GREATEST_MESSAGE]
    return UserCodeError(
        f"{title} failed: {message}",
        origin=where,
    )


def _type_text(column: Column) -> str:
    schema = pa.schema([("x", arrow_type(column.type))])
    return bytes(schema.serialize()).hex()
