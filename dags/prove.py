"""Airflow DAG `prove`: compare data and logged answers with what the definitions mean.

Runs every night. A tenth of the keys of each dataset is recomputed with the reference, and
compared row by row. Up to 1,000 logged queries of each branch, of the last 25 hours, are asked
again on the rows below their offsets, and must have the same answers. Each night draws new samples;
the params of a manual run may select more. A difference fails its task at once and is in the error.
If rows still arrive, or a job has not drained its logs, the task retries later.
"""

import datetime as dt

import pendulum
from airflow.sdk import Param, dag

from narthex_plugins import proofs
from narthex_plugins.dataset_audits import branches_with_features, served_datasets
from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import LISTED, OWNED

RETRIED = {
    "execution_timeout": dt.timedelta(hours=1),
    "retries": 3,
    "retry_delay": dt.timedelta(minutes=5),
}


@dag(
    dag_id="prove",
    schedule="0 3 * * *",
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=False,
    params={
        "sample": Param(0.1, type="number", minimum=0.0, maximum=1.0),
        "answers": Param(1000, type="integer", minimum=0),
    },
    tags=["narthex"],
    default_args=OWNED,
    description="Compare data and logged answers with what the definitions mean.",
    doc_md=__doc__,
)
def prove() -> None:
    """Check every dataset, and the logged queries of every branch."""
    compare = step_task(proofs.compare, map_index_template="{{ dataset }}", **RETRIED)
    compare.expand(dataset=step_task(served_datasets, **LISTED)())
    # One proof at a time has the logs of its datasets in memory.
    repeat_answers = step_task(
        proofs.repeat_answers,
        map_index_template="{{ branch }}",
        max_active_tis_per_dagrun=1,
        **RETRIED,
    )
    repeat_answers.expand(branch=step_task(branches_with_features, **LISTED)())


prove()
