"""The steps of pipelines, each from rows to rows, as unit tests and stages run them."""

from narthex._runtime.steps.apply import apply_step, rows_of_dataset
from narthex._runtime.steps.enforced import broken_rows, enforce
from narthex._runtime.steps.failed_rows import FailedRow, SetApart
from narthex._runtime.steps.joins import JoinLookup
from narthex._runtime.steps.logged import decayed, validity_of, versions_of
from narthex._runtime.steps.plain_groups import PlainGroups
from narthex._runtime.steps.reshaping import side_id
from narthex._runtime.steps.row_steps import RowStep, StepContext
from narthex._runtime.steps.rows import (
    Absence,
    RowBatch,
    ValidityInterval,
    facts_of,
    keyed_ids,
    rows_of,
)
from narthex._runtime.steps.stateless import StatelessPlan
from narthex._runtime.steps.timelines import ABSENT, Timeline, Timelines
from narthex._runtime.steps.windowed_groups import WindowedGroups

__all__ = [
    "ABSENT",
    "Absence",
    "FailedRow",
    "JoinLookup",
    "PlainGroups",
    "RowBatch",
    "RowStep",
    "SetApart",
    "StatelessPlan",
    "StepContext",
    "Timeline",
    "Timelines",
    "ValidityInterval",
    "WindowedGroups",
    "apply_step",
    "broken_rows",
    "decayed",
    "enforce",
    "facts_of",
    "keyed_ids",
    "rows_of",
    "rows_of_dataset",
    "side_id",
    "validity_of",
    "versions_of",
]
