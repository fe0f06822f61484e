"""Airflow DAG `recovery_drill`: die in the middle of a commit, and see that it ends all the same.

Every night, on a branch of its own with nothing on it: a commit is planned by an owner that never
comes back, and must be FINALIZED by somebody else.
"""

import datetime as dt

from airflow.sdk import get_current_context, task

from narthex_plugins.upkeep import ask, await_takeover, drill_id, upkeep


@upkeep("recovery_drill", cron="30 3 * * *")
def recovery_drill() -> None:
    """Leave a commit as a dead process does, and wait for its end."""

    @task(execution_timeout=dt.timedelta(minutes=5), retries=1)
    def die_midway() -> str:
        commit_id = drill_id(get_current_context()["dag_run"].run_id)
        ask(f"upkeep/drill/{commit_id}")
        return commit_id

    @task(execution_timeout=dt.timedelta(minutes=10))
    def is_taken_over(commit_id: str) -> int:
        return await_takeover(commit_id, within_s=300.0)

    is_taken_over(die_midway())


recovery_drill()
