"""Airflow DAG `rollback`: return the readers of a branch to an earlier commit.

A person triggers it with a form. The run is idempotent: its id is the request's key, so a task
that runs twice rolls back once.
"""

import datetime as dt

from airflow.sdk import Asset, Param, dag, get_current_context, task

from narthex_plugins.operators import CaughtUpOperator, roll_back

COMMIT = "{{ ti.xcom_pull(task_ids='roll_back_branch') }}"


@dag(
    dag_id="rollback",
    schedule=None,
    is_paused_upon_creation=False,
    tags=["narthex"],
    params={
        "branch": Param("main", type="string", title="Branch"),
        "to": Param(
            None,
            type=["null", "integer"],
            title="Commit number",
            description="The commit to redeploy; empty: the one that readers read before.",
        ),
    },
)
def rollback() -> None:
    """Roll back, then wait until readers read the commit."""

    @task(outlets=[Asset(name="narthex_serving", uri="narthex://serving")])
    def roll_back_branch() -> str:
        context = get_current_context()
        params = context["params"]
        return roll_back(str(params["branch"]), params["to"], run=context["dag_run"])

    caught_up = CaughtUpOperator(
        task_id="wait_until_caught_up", commit_id=COMMIT, within=dt.timedelta(hours=6)
    )
    roll_back_branch() >> caught_up


rollback()
