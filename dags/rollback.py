"""Airflow DAG `rollback`: return the readers of a branch to an earlier commit.

A person triggers it with a form. The run is idempotent: its id is the request's key, so a task
that runs twice rolls back once.
"""

import datetime as dt

from airflow.sdk import Param, dag, get_current_context

from narthex_plugins.dataset_assets import SERVING
from narthex_plugins.operators import CaughtUpOperator, roll_back, step_task
from narthex_plugins.upkeep import OWNED

COMMIT = "{{ ti.xcom_pull(task_ids='roll_back_branch') }}"


@dag(
    dag_id="rollback",
    schedule=None,
    is_paused_upon_creation=False,
    tags=["narthex"],
    default_args=OWNED,
    description="Return the readers of a branch to an earlier commit.",
    doc_md=__doc__,
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

    @step_task(outlets=[SERVING])
    def roll_back_branch() -> str:
        """Redeploy the commit that the form names, once; return the id of the new commit."""
        context = get_current_context()
        params = context["params"]
        return roll_back(str(params["branch"]), params["to"], run=context["dag_run"])

    caught_up = CaughtUpOperator(
        task_id="caught_up", commit_id=COMMIT, within=dt.timedelta(hours=6)
    )
    roll_back_branch() >> caught_up


rollback()
