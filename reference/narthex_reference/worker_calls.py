"""Run authors' code of pipelines in workers or in the own process."""

from collections.abc import Sequence

import attrs
import pyarrow as pa

from narthex._formats.arrow import array_of, cells_of
from narthex._ir import Cell, Column, UserCode
from narthex._runtime.workers import CodeCalls
from narthex_reference.semantics.author_code import RowFrame


@attrs.frozen
class WorkerCalls:
    """Runs code on frames with a pool of workers, or in its own process."""

    calls: CodeCalls

    def filter(self, code: UserCode, frame: RowFrame) -> Sequence[bool]:
        """Return which rows to keep."""
        kept = self.calls.filter(code, _table(frame)).to_pylist()
        return [bool(one) for one in kept]

    def assign(self, code: UserCode, frame: RowFrame, column: Column) -> Sequence[Cell]:
        """Return the cells of one column."""
        return cells_of(self.calls.assign(code, _table(frame), column), column.type)

    def transform(
        self, code: UserCode, frame: RowFrame, columns: Sequence[Column]
    ) -> Sequence[tuple[Cell, ...]]:
        """Return rows of these columns."""
        made = self.calls.transform(code, _table(frame), columns, title="`transform`")
        cells = [cells_of(made.column(place), column.type) for place, column in enumerate(columns)]
        return list(zip(*cells, strict=True)) if cells else [()] * len(frame.rows)


def _table(frame: RowFrame) -> pa.Table:
    """Return rows as a table; without rows, one of no rows."""
    cells = list(zip(*frame.rows, strict=True)) or [()] * len(frame.columns)
    return pa.table(
        {
            column.name: array_of(list(found), column.type)
            for column, found in zip(frame.columns, cells, strict=True)
        }
    )
