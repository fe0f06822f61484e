"""Airflow DAG `branch_delete`: delete a branch; it can be restored within a day.

A person triggers it with a form. The run is idempotent: its id is the request's key, so a task
that runs twice deletes once. The collector later destroys the assets that nothing else pins.
"""

from airflow.sdk import Param, dag, get_current_context

from narthex_plugins.dataset_assets import SERVING
from narthex_plugins.operators import delete_branch, step_task
from narthex_plugins.upkeep import OWNED


@dag(
    dag_id="branch_delete",
    schedule=None,
    is_paused_upon_creation=False,
    tags=["narthex"],
    default_args=OWNED,
    description="Delete a branch; it can be restored within a day.",
    doc_md=__doc__,
    params={"branch": Param(None, type=["null", "string"], title="Branch", minLength=1)},
)
def branch_delete() -> None:
    """Delete the branch."""

    @step_task(outlets=[SERVING])
    def delete() -> str:
        """Delete the branch that the form names, once; return its name."""
        context = get_current_context()
        return delete_branch(context["params"]["branch"], run=context["dag_run"])

    delete()


branch_delete()
