"""The steps of pipelines, each from rows to rows: what unit tests and stages carry out."""

from narthex._runtime.steps.apply import apply_step, rows_of_dataset
from narthex._runtime.steps.logged import faded, life_of, versions_of
from narthex._runtime.steps.plain_groups import PlainGroups
from narthex._runtime.steps.row_steps import Context, RowStep
from narthex._runtime.steps.rows import Absence, Life, Rows, facts_of, keyed_ids, rows_of
from narthex._runtime.steps.timelines import ABSENT, Timeline, Timelines
from narthex._runtime.steps.windowed_groups import WindowedGroups

__all__ = [
    "ABSENT",
    "Absence",
    "Context",
    "Life",
    "PlainGroups",
    "RowStep",
    "Rows",
    "Timeline",
    "Timelines",
    "WindowedGroups",
    "apply_step",
    "facts_of",
    "faded",
    "keyed_ids",
    "life_of",
    "rows_of",
    "rows_of_dataset",
    "versions_of",
]
