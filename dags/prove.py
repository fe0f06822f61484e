"""Airflow DAG `prove`: recompute each dataset with the reference, and compare row by row.

Runs every night over a tenth of the keys, with a new sample each night; the params of a manual run
may select more. A difference fails the task at once and is in the error. If rows still arrive, or
a job has not drained its logs, the task retries later.
"""

import datetime as dt
import json
import subprocess
import sys

import pendulum
from airflow.sdk import Param, dag, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from narthex_plugins.dataset_audits import served_datasets
from narthex_plugins.operators import step_task

DIFFERENT = 1


@dag(
    dag_id="prove",
    schedule="0 3 * * *",
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=False,
    params={"sample": Param(0.1, type="number", minimum=0.0, maximum=1.0)},
    tags=["narthex"],
    description="Recompute each dataset with the reference, and compare row by row.",
    doc_md=__doc__,
)
def prove() -> None:
    """Check every dataset."""

    @step_task(
        map_index_template="{{ dataset }}",
        execution_timeout=dt.timedelta(hours=1),
        retries=3,
        retry_delay=dt.timedelta(minutes=5),
    )
    def compare(dataset: str) -> dict[str, object]:
        """Recompute a sample of the keys of one dataset, and compare them with its index."""
        context = get_current_context()
        context["dataset"] = dataset
        command = [sys.executable, "-m", "narthex.cli", "prove", "--dataset", dataset, "--json"]
        command += ["--sample", str(context["params"]["sample"])]
        command += ["--seed", context["dag_run"].run_after.strftime("%Y%m%d")]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        proof = json.loads(done.stdout) if done.stdout else {"differences": [], "unproved": []}
        if done.returncode == DIFFERENT:
            raise AirflowFailException(json.dumps(proof["differences"], indent=2))
        if done.returncode:
            raise RuntimeError(f"not compared: {json.dumps(proof['unproved'])}")
        return {"dataset": dataset, "compared": proof["compared"]}

    compare.expand(dataset=step_task(served_datasets)())


prove()
