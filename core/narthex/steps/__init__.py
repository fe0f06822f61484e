"""The steps of pipelines, each from rows to rows: what unit tests and stages carry out."""

from narthex.steps.apply import apply_step, rows_of_dataset
from narthex.steps.logged import faded, life_of, versions_of
from narthex.steps.row_steps import Context, RowStep
from narthex.steps.rows import Absence, Life, Rows, facts_of, keyed_ids, rows_of
from narthex.steps.timelines import ABSENT, Timeline, Timelines

__all__ = [
    "ABSENT",
    "Absence",
    "Context",
    "Life",
    "RowStep",
    "Rows",
    "Timeline",
    "Timelines",
    "apply_step",
    "facts_of",
    "faded",
    "keyed_ids",
    "life_of",
    "rows_of",
    "rows_of_dataset",
    "versions_of",
]
