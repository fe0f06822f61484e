"""Pipelines with state: a tree of steps that remember earlier rows.

`step_tree` builds the steps of `stateful_steps` and `grouped_steps`, which exchange the changes of
`kept_rows`.
`rows_and_tombstones` remembers what a job has written, so that a tombstone follows a row that no
longer exists. `stage` runs a tree on records and stores its state; `bounded` runs the stage in a
Spark query.
"""

from narthex_spark_apps.stateful.bounded import start_stateful
from narthex_spark_apps.stateful.stage import StatefulStage

__all__ = ["StatefulStage", "start_stateful"]
