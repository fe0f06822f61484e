"""Raw rows of a source become facts: parsed, filtered, sampled, or refused with reasons.

Start with `row_parser`.
"""

from narthex._runtime.ingest.lateness import Lateness, LateRow, render_late_row
from narthex._runtime.ingest.preproc_steps import Problem, Runner
from narthex._runtime.ingest.row_parser import (
    Admission,
    Admitted,
    Admitter,
    LeftOut,
    Moved,
    Refused,
)

__all__ = [
    "Admission",
    "Admitted",
    "Admitter",
    "LateRow",
    "Lateness",
    "LeftOut",
    "Moved",
    "Problem",
    "Refused",
    "Runner",
    "render_late_row",
]
