"""Airflow DAG `profile`: propose expectations for datasets that have none.

Runs every day, on every branch; a person who triggers it may choose one branch. Of each dataset
without expectations, it reads a sample of the history, and writes the expectations that the history
meets into a task's log, as Python to paste into the dataset. Up to 20 datasets have a task each;
more are in batches of one branch, and the label of a task has the first name. `narthex profile
DATASET` prints the same. Nothing is stored, and a task fails only if a history cannot be read, once
the others of its batch are profiled. A dataset with few rows has nothing to propose.
"""

import datetime as dt

from airflow.sdk import Param

from narthex_plugins import profiling
from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import LISTED, upkeep


@upkeep(
    "profile",
    cron="30 4 * * *",
    doc=__doc__,
    params={
        "branch": Param(
            None,
            type=["null", "string"],
            title="Branch",
            description="The branch with the datasets; empty: all branches.",
        )
    },
)
def profile() -> None:
    """Propose expectations for every dataset that has none."""
    propose = step_task(
        profiling.propose,
        map_index_template="{{ profiled }}",
        # Longer than a batch waits for its process, so that its results are never lost.
        execution_timeout=dt.timedelta(hours=7),
        max_active_tis_per_dagrun=1,
        retries=1,
        retry_delay=dt.timedelta(minutes=1),
    )
    listed = step_task(profiling.without_expectations, **LISTED)
    propose.expand(profiled=listed("{{ params.branch or '' }}"))


profile()
