"""Rows that break an enforced expectation: they are not in the dataset, as if never computed.

A keyed row that is left out ends no earlier row of its key; an absence is never judged.
"""

from collections.abc import Mapping, Sequence

from narthex._formats.json_cells import render_cell
from narthex._ir.entities import Expectation
from narthex._ir.facts import RowId
from narthex._runtime.enforcement import BrokenRow, ReportBroken, RowJudge
from narthex._runtime.steps.rows import RowBatch


def enforce(rows: RowBatch, judge: RowJudge, report: ReportBroken | None = None) -> RowBatch:
    """Return the rows of a dataset that meet its enforced expectations, with all absences."""
    if not judge:
        return rows
    broken = judge.broken_rows(rows.columns(judge.columns))
    if not broken:
        return rows
    if report is not None:
        report(broken_rows(rows, broken, rows.ids))
    return rows.take([at for at in range(len(rows)) if at not in broken])


def broken_rows(
    rows: RowBatch, broken: Mapping[int, tuple[Expectation, ...]], ids: Sequence[RowId]
) -> list[BrokenRow]:
    """Describe the rows at the places that break expectations.

    Args:
        rows: The rows.
        broken: The broken expectations, by place.
        ids: The identity of each row.
    """
    types = rows.schema.columns
    columns = rows.columns(types)
    return [
        BrokenRow(
            row_id=ids[at],
            event_time=rows.times[at],
            cells={name: render_cell(columns[name][at], of) for name, of in types.items()},
            broken=expectations,
        )
        for at, expectations in broken.items()
    ]
