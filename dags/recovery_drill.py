"""Airflow DAG `recovery_drill`: test that the platform finishes an abandoned commit.

Runs every night on its own empty branch: an owner that never comes back plans a commit, and the
platform must finish it as FINALIZED.
"""

import datetime as dt

from airflow.sdk import get_current_context

from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import ask, await_takeover, drill_id, upkeep


@upkeep("recovery_drill", cron="30 3 * * *", doc=__doc__)
def recovery_drill() -> None:
    """Abandon a commit as a dead process does, and wait until it ends."""

    @step_task(execution_timeout=dt.timedelta(minutes=5), retries=1)
    def die_midway() -> str:
        """Plan a commit for an owner that never comes back; return the commit's id."""
        commit_id = drill_id(get_current_context()["dag_run"].run_id)
        ask(f"upkeep/drill/{commit_id}")
        return commit_id

    @step_task(execution_timeout=dt.timedelta(minutes=10))
    def is_taken_over(commit_id: str) -> int:
        """Wait until another owner has ended the commit; return how often the owner changed."""
        return await_takeover(commit_id, within_s=300.0)

    is_taken_over(die_midway())


recovery_drill()
