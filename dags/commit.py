"""Airflow DAG `commit`: apply one accepted commit.

The id of the run is the commit's. Every task posts an idempotent step to the platform, so a task
may run twice, and the platform finishes or rolls back a commit whose run has died.
"""

import datetime as dt
from pathlib import Path

from airflow.sdk import Asset, Param, dag

from narthex_plugins import operators
from narthex_plugins.approvals import PersonApproves
from narthex_plugins.operators import step_task, take_step

COMMIT = "{{ params.commit_id }}"
RUN_JOB = str(Path(__file__).resolve().parents[1] / "spark_apps" / "run_job.py")


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

    @step_task
    def open_commit(commit_id: str) -> list[dict[str, str]]:
        return take_step(commit_id, "plan", within_s=120.0)["assets"]

    @step_task(map_index_template="{{ asset }}", execution_timeout=dt.timedelta(minutes=5))
    def create_asset(asset: dict[str, str], commit_id: str) -> None:
        operators.create_one(commit_id, asset, within_s=240.0)

    @step_task(task_id="move_head", trigger_rule="none_failed")
    def commit_point(commit_id: str) -> None:
        operators.move_head(commit_id, backfill="backfill", approve="approve")

    @step_task
    def quality_checks(commit_id: str) -> list[str]:
        return operators.datasets_to_check(commit_id)

    @step_task(map_index_template="{{ dataset }}", retries=3, trigger_rule="none_failed")
    def quality(dataset: str, commit_id: str) -> int | None:
        return operators.check_one(commit_id, dataset, within_s=3600.0)

    @step_task(
        trigger_rule="none_failed", outlets=[Asset(name="narthex_serving", uri="narthex://serving")]
    )
    def promote(commit_id: str) -> None:
        take_step(commit_id, "promote", within_s=120.0)

    @step_task
    def roll_back(commit_id: str) -> None:
        take_step(commit_id, "rollback", within_s=300.0)

    opened = open_commit(COMMIT)
    created = create_asset.partial(commit_id=COMMIT).expand(asset=opened)
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
        trigger_rule="none_failed",
    )
    checks = quality_checks(COMMIT)
    checked = quality.partial(commit_id=COMMIT).expand(dataset=checks)
    approved = PersonApproves(task_id="approve", commit_id=COMMIT, trigger_rule="none_failed")
    done = promote(COMMIT)
    opened >> checks
    # If no approval is needed, readers still wait for the jobs and the checks.
    created >> commit_point(COMMIT) >> backfill >> caught_up >> checked >> [approved, done]
    approved >> done >> roll_back(COMMIT).as_teardown(setups=opened)


commit()
