"""Airflow DAG `commit`: apply one accepted commit.

The id of the run is the commit's. The order of its tasks:

1. `open_commit` plans the commit and reserves its assets.
2. `create_asset` creates each of them: all, or none remains.
3. `move_head` is the commit point: the branch has new definitions, and readers still read the old.
4. `backfill` fills the new assets with history, and `wait_until_caught_up` waits for their jobs.
5. `quality` checks the history of each new or changed dataset against its expectations.
6. `approve` waits for a person, on a protected branch; `promote` lets readers flip.
7. `roll_back` undoes the commit if something failed.

Every task posts an idempotent step to the platform, so a task may run twice, and the platform
finishes or rolls back a commit whose run has died.
"""

import datetime as dt
from pathlib import Path

from airflow.sdk import Param, dag

from narthex_plugins import operators
from narthex_plugins.approvals import PersonApproves
from narthex_plugins.dataset_assets import DATASETS, SERVING
from narthex_plugins.operators import step_task

COMMIT = "{{ params.commit_id }}"
RUN_JOB = str(Path(__file__).resolve().parents[1] / "spark_apps" / "run_job.py")
SKIPPABLE = {"trigger_rule": "none_failed"}


@dag(
    dag_id="commit",
    schedule=None,
    max_active_runs=16,
    is_paused_upon_creation=False,
    tags=["narthex"],
    params={"commit_id": Param(None, type=["null", "string"], format="uuid", title="Commit")},
    description="Apply one accepted commit.",
    doc_md=__doc__,
)
def commit() -> None:
    """Create every asset or none, fill and check them, then flip the readers."""
    create = step_task(
        operators.create_asset,
        map_index_template="{{ asset }}",
        execution_timeout=dt.timedelta(minutes=5),
    )
    check = step_task(operators.quality, map_index_template="{{ dataset }}", retries=3, **SKIPPABLE)
    opened = step_task(operators.open_commit)(COMMIT)
    created = create.partial(commit_id=COMMIT).expand(asset=opened)
    moved = step_task(operators.move_head, **SKIPPABLE)(
        COMMIT, backfill="backfill", approve="approve"
    )
    # Missing input may still arrive: retry for a day, then leave the readers alone.
    backfill = operators.BackfillOperator(
        task_id="backfill",
        commit_id=COMMIT,
        run_job=RUN_JOB,
        conn_id="spark_narthex",
        **operators.RETRIED_FOR_A_DAY,
    )
    caught_up = operators.CaughtUpOperator(
        task_id="wait_until_caught_up",
        commit_id=COMMIT,
        within=dt.timedelta(hours=6),
        start_from_trigger=True,
        **SKIPPABLE,
    )
    to_check = step_task(operators.quality_checks)(COMMIT)
    checked = check.partial(commit_id=COMMIT).expand(dataset=to_check)
    approved = PersonApproves(task_id="approve", commit_id=COMMIT, **SKIPPABLE)
    flipped = step_task(operators.promote, outlets=[SERVING, DATASETS], **SKIPPABLE)(COMMIT)
    undone = step_task(operators.undo, task_id="roll_back")(COMMIT)
    opened >> to_check
    # If no approval is needed, readers still wait for the jobs and the checks.
    created >> moved >> backfill >> caught_up >> checked >> [approved, flipped]
    approved >> flipped >> undone.as_teardown(setups=opened)


commit()
