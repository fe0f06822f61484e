# mypy: disable-error-code="type-arg, arg-type"
"""Authors' code called as functions, wherever it runs: what goes in, and what must come out."""

import abc
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from narthex._ir.code import UserCode
from narthex._ir.facts import Cell
from narthex._ir.schema import Column
from narthex._ir.types import Bool, Datetime, Optional
from narthex._runtime.workers.arrow_cells import array_of, arrow_type, cells_of
from narthex._runtime.workers.author_lines import place_of
from narthex._runtime.workers.lookups import Find
from narthex._runtime.workers.results import misfits
from narthex.errors import UserCodeError

GREATEST_MESSAGE = 3000
"""How many characters of what a worker writes about an error are shown."""


class Callers(Protocol):
    """Chooses what calls which code: one for all, or one for each that is kept apart."""

    def reaching(self, features: Sequence[str]) -> "CodeCalls":
        """Return what calls the extractor that makes some features."""


class CodeCalls(abc.ABC):
    """Calls authors' code with columns and judges what it gives."""

    def reaching(self, features: Sequence[str]) -> "CodeCalls":
        """Return itself: it calls all code."""
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
            name: What to call it in messages.
            instants: As of when each row is, microseconds.
            inputs: Its arguments after the instants.
            outputs: What it must give.
            find: Answers lookups that it makes.

        Raises:
            UserCodeError: It failed, took too long, or gave something else than it declares.
        """
        arrays = [array_of(list(instants), Datetime())]
        arrays += [array_of(cells, column.type) for column, cells in inputs]
        # A name may come twice, from two featuresets, so arguments are known by position.
        table = pa.table(arrays, names=[str(position) for position in range(len(arrays))])
        title = f"extractor `{name}`"
        found = self._call(code, "extract", table, outputs, title=title, find=find)
        return [
            cells_of(found.column(position), column.type) for position, column in enumerate(outputs)
        ]

    def assign(
        self, code: UserCode, table: pa.Table, column: Column, *, title: str = "`assign`"
    ) -> pa.ChunkedArray:
        """Call a function of a frame that gives one column, of `arrow_type(column.type)`.

        Raises:
            UserCodeError: It failed, took too long, or gave something else than it declares.
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
        """Call a function of a frame that gives one column, cells in and cells out.

        Raises:
            UserCodeError: It failed, took too long, or gave something else than it declares.
        """
        arrays = [array_of(cells, column.type) for column, cells in inputs]
        table = pa.table(arrays, names=[column.name for column, _ in inputs])
        found = self._call(code, "assign", table, (output,), title=title)
        return cells_of(found.column(0), output.type)

    def filter(
        self, code: UserCode, table: pa.Table, *, title: str = "`filter`"
    ) -> pa.ChunkedArray:
        """Call a predicate of a frame; give which rows stand: null counts as false.

        Raises:
            UserCodeError: It failed, took too long, or gave something else than booleans.
        """
        wanted = (Column("keep", Optional(Bool())),)
        return self._call(code, "filter", table, wanted, title=title).column(0).fill_null(False)

    def transform(
        self, code: UserCode, table: pa.Table, columns: Sequence[Column], *, title: str
    ) -> pa.Table:
        """Call a function of a frame that gives a frame; give these columns of it, in order.

        Raises:
            UserCodeError: It failed, took too long, or gave something else than it declares.
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
        """Call code with a table; return a table of the outputs, as many rows as went in."""


def call_header(code: UserCode, kind: str, outputs: Sequence[Column]) -> dict[str, object]:
    """Say what is called, and what it must give."""
    return {
        "kind": kind,
        "entry": code.entry,
        "source": code.source,
        "outputs": [[column.name, _type_text(column)] for column in outputs],
    }


def judged(
    result: pa.Table, code: UserCode, outputs: Sequence[Column], *, rows: int, title: str
) -> pa.Table:
    """Return a result that is what was declared.

    Raises:
        UserCodeError: It is something else.
    """
    wrong = misfits(result, outputs, rows=rows)
    if wrong:
        raise UserCodeError(f"{title} gave a wrong answer: {wrong[0]}", origin=code.origin)
    return result


def failed(code: UserCode, title: str, header: Mapping[str, object]) -> UserCodeError:
    """Return the error of a call whose code raised one, at the author's own line."""
    line = header.get("line")
    where = place_of(code, line if isinstance(line, int) else 0)
    text = f" at `{header['text']}`" if header.get("text") else ""
    said = f"{header.get('error')}: {header.get('message')}{text}"[:GREATEST_MESSAGE]
    return UserCodeError(
        f"{title} failed: {said}",
        origin=where,
    )


def _type_text(column: Column) -> str:
    schema = pa.schema([("x", arrow_type(column.type))])
    return bytes(schema.serialize()).hex()
