"""Airflow DAG `profile`: propose expectations for datasets that have none.

Runs every day, on every branch; a person who triggers it may choose one branch. A task for each
dataset without expectations reads a sample of its history, and writes the expectations that it
meets into the task's log, as Python to paste into the dataset. `narthex profile DATASET` prints the
same. Nothing is stored, and a task fails only if the history cannot be read. A dataset with few
rows has nothing to propose.
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
        execution_timeout=dt.timedelta(minutes=30),
        max_active_tis_per_dagrun=1,
        retries=1,
        retry_delay=dt.timedelta(minutes=1),
    )
    listed = step_task(profiling.without_expectations, **LISTED)
    propose.expand(profiled=listed("{{ params.branch or '' }}"))


profile()
