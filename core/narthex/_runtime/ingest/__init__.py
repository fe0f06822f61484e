"""Convert raw rows of a source to facts: parse, filter, sample, or reject them with reasons.

Start with `row_parser`.
"""

from narthex._runtime.ingest.lateness import Lateness, LateRow, render_late_row, source_name
from narthex._runtime.ingest.preproc_steps import Problem, Runner
from narthex._runtime.ingest.raw_columns import read_columns
from narthex._runtime.ingest.row_parser import (
    BrokenSourceRow,
    FilteredRow,
    ParsedRow,
    RejectedRow,
    RekeyedRow,
    RowOutcome,
    RowParser,
)

__all__ = [
    "BrokenSourceRow",
    "FilteredRow",
    "LateRow",
    "Lateness",
    "ParsedRow",
    "Problem",
    "RejectedRow",
    "RekeyedRow",
    "RowOutcome",
    "RowParser",
    "Runner",
    "read_columns",
    "render_late_row",
    "source_name",
]
