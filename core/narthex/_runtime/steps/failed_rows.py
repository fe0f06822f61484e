"""Rows on which a step of a pipeline fails: they contribute nothing, and go to the quarantine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from narthex._base.records import Json
from narthex._formats.json_cells import render_cell
from narthex._ir.facts import RowId
from narthex._runtime.steps.rows import RowBatch
from narthex.errors import UserCodeError


@attrs.frozen(kw_only=True)
class FailedRow:
    """A row on which a step failed.

    Attributes:
        row_id: Its identity before the step.
        event_time: Microseconds.
        step: The step and the pipeline, for people.
        cells: The columns that the step received, as JSON.
        error: The error; its place is the author's line.
        together: The number of rows that failed together; with more than one, it is unknown
            whether this row is at fault.
    """

    row_id: RowId
    event_time: int
    step: str
    cells: Mapping[str, Json]
    error: UserCodeError
    together: int = 1


SetApart: TypeAlias = Callable[[Sequence[FailedRow]], None]
"""Receives the rows on which a step failed."""


def failed_rows(
    rows: RowBatch, places: Iterable[int], error: UserCodeError, *, step: str, together: int = 1
) -> list[FailedRow]:
    """Describe the rows at some places of a step's input, which failed with one error."""
    types = rows.schema.columns
    columns = rows.columns(types)
    return [
        FailedRow(
            row_id=rows.ids[at],
            event_time=rows.times[at],
            step=step,
            cells={name: render_cell(columns[name][at], of) for name, of in types.items()},
            error=error,
            together=together,
        )
        for at in places
    ]
