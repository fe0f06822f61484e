"""The judgement of rows by enforced expectations, one row at a time (docs/decisions/0053)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._analysis.row_expectations import RowPredicate, columns_of, prepare
from narthex._base.records import Json
from narthex._ir.entities import Expectation
from narthex._ir.facts import Cell, RowId
from narthex._ir.types import DataType


@attrs.frozen(kw_only=True)
class BrokenRow:
    """A row that breaks expectations.

    Attributes:
        event_time: Microseconds.
        cells: Its columns, as JSON.
        broken: The expectations that it breaks, at least one.
    """

    row_id: RowId
    event_time: int
    cells: Mapping[str, Json]
    broken: tuple[Expectation, ...]


ReportBroken: TypeAlias = Callable[[Sequence[BrokenRow]], None]
"""Receives the rows that break expectations."""


@attrs.frozen
class RowJudge:
    """The enforced expectations of one dataset, prepared once for many rows.

    Attributes:
        columns: The columns that they are about, each once.
    """

    columns: tuple[str, ...]
    _checks: tuple[tuple[Expectation, RowPredicate], ...]

    @classmethod
    def of(cls, enforced: Iterable[Expectation], types: Mapping[str, DataType]) -> "RowJudge":
        """Prepare the judge of a dataset's rows.

        Args:
            enforced: Its enforced expectations, which passed `narthex._analysis.graph.check`.
            types: The types of its columns.
        """
        checks = tuple((one, prepare(one, types)) for one in enforced)
        columns = dict.fromkeys(name for one, _ in checks for name in columns_of(one))
        return cls(tuple(columns), checks)

    def __bool__(self) -> bool:
        """Whether it has an expectation."""
        return bool(self._checks)

    def broken(self, cells: Mapping[str, Cell]) -> tuple[Expectation, ...]:
        """Return the expectations that a row breaks, in their order; empty if it meets all."""
        return tuple([one for one, holds in self._checks if not holds(cells)])

    def broken_rows(
        self, columns: Mapping[str, Sequence[Cell]]
    ) -> dict[int, tuple[Expectation, ...]]:
        """Judge rows by column; return the places of those that break an expectation, with these.

        Args:
            columns: At least `self.columns`.
        """
        read = [columns[name] for name in self.columns]
        checked = (
            (place, self.broken(dict(zip(self.columns, cells, strict=True))))
            for place, cells in enumerate(zip(*read, strict=True))
        )
        return {place: broken for place, broken in checked if broken}
