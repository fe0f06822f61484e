"""Airflow DAG `quality_audit`: check each dataset's newest history against its expectations.

Runs every hour over the last hour of the dataset's own history; an Airflow backfill of this DAG
audits the hours of its data intervals again.
"""

import datetime as dt
import json
import subprocess
import sys

import pendulum
from airflow.sdk import CronDataIntervalTimetable, dag, get_current_context, task

from narthex_plugins.platform_client import platform


@dag(
    dag_id="quality_audit",
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=False,
    tags=["narthex"],
)
def quality_audit() -> None:
    """Audit every dataset that has expectations."""

    @task
    def datasets_with_promises() -> list[str]:
        return [d["name"] for d in platform().read("datasets")["datasets"] if d["expectations"]]

    @task(map_index_template="{{ dataset }}", execution_timeout=dt.timedelta(minutes=10))
    def audit(dataset: str) -> dict[str, str]:
        context = get_current_context()
        context["dataset"] = dataset
        run = context["dag_run"]
        span = ["--last-hour"]
        if run.run_type == "backfill":
            span = ["--from", run.data_interval_start.isoformat()]
            span += ["--to", run.data_interval_end.isoformat()]
        command = [sys.executable, "-m", "narthex.cli", "audit", dataset, *span, "--json"]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        result = json.loads(found.stdout)
        return {"dataset": dataset, "success": str(result["success"])}

    audit.expand(dataset=datasets_with_promises())


quality_audit()
