"""Airflow DAG `commit`: compile a project, create what it needs, fill and check it, let readers in.

Trigger it with a form: a folder below the root of definitions, or a Git repository. The client
and `narthex commit` start a run, too, for a commit that is accepted already. The tasks:

1. `compile` compiles the project in a sandbox. Every mistake is in its log, with file and line.
2. `plan` plans the commit and reserves its assets; `create_assets` creates them in some
   tasks: all, or none.
3. `commit_point`: the branch has new definitions, and readers still read the old.
4. `backfill` reads the history of each dataset, and `caught_up` waits for all jobs.
5. `quality` checks the history of each new or changed dataset against its expectations.
6. `approve` waits for a person, on a protected branch; `promote` lets readers flip.
7. `roll_back` undoes the commit if something failed; otherwise it is skipped.

Steps are idempotent: a task may run twice, and the platform ends the commits of dead runs.
"""

import datetime as dt

from airflow.sdk import dag

from narthex_plugins import operators
from narthex_plugins.approvals import PersonApproves
from narthex_plugins.commit_compilation import RETRIED, compile_commit
from narthex_plugins.commit_params import PARAMS
from narthex_plugins.dataset_assets import DATASETS, SERVING
from narthex_plugins.operators import BackfillOperator, CaughtUpOperator, step_task
from narthex_plugins.upkeep import OWNED

COMMIT = "{{ ti.xcom_pull(task_ids='compile') }}"
SKIPPABLE = {"trigger_rule": "none_failed_min_one_success"}


@dag(
    dag_id="commit",
    schedule=None,
    max_active_runs=16,
    is_paused_upon_creation=False,
    tags=["narthex"],
    params=PARAMS,
    default_args=OWNED,
    description="Commit a project, or carry out an accepted commit.",
    doc_md=__doc__,
)
def commit() -> None:
    """Create every asset or none, fill and check them, then flip the readers."""
    create = step_task(
        operators.create_assets,
        map_index_template="{{ created }}",
        execution_timeout=dt.timedelta(hours=1),
    )
    check = step_task(operators.quality, map_index_template="{{ dataset }}", retries=3, **SKIPPABLE)
    compiled = step_task(compile_commit, task_id="compile", **RETRIED)(
        skipped_by_preview=["plan", "commit_point"]
    )
    planned = step_task(operators.plan)(COMMIT)
    created = create.partial(commit_id=COMMIT).expand(assets=planned)
    committed = step_task(operators.commit_point, trigger_rule="none_failed")(COMMIT)
    filled = BackfillOperator.partial(
        task_id="backfill",
        map_index_template="{{ label }}",
        doc_md=BackfillOperator.__doc__,
        commit_id=COMMIT,
        **operators.RETRIED_FOR_A_DAY,  # missing input may still arrive
    ).expand(dataset=committed)
    caught_up = CaughtUpOperator(
        task_id="caught_up",
        commit_id="{{ params.commit_id or '' }}",
        run_id="{{ run_id }}",
        within=dt.timedelta(hours=6),
        start_from_trigger=True,
        **SKIPPABLE,
    )
    to_check = step_task(operators.quality_checks)(COMMIT)
    checked = check.partial(commit_id=COMMIT).expand(dataset=to_check)
    approved = PersonApproves(task_id="approve", commit_id=COMMIT, **SKIPPABLE)
    undone = step_task(operators.undo, task_id="roll_back")(COMMIT)
    flipped = step_task(operators.promote, outlets=[SERVING, DATASETS], **SKIPPABLE)(COMMIT)
    compiled >> planned >> to_check
    # A task that follows one that may be skipped also follows the one before that.
    created >> committed >> [filled, caught_up]
    filled >> caught_up >> checked
    [caught_up, checked] >> approved
    [caught_up, checked, approved] >> flipped >> undone.as_teardown(setups=planned)


commit()
