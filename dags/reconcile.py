"""Airflow DAG `reconcile`: go on with every commit that nobody drives.

Every five minutes: one turn of the platform's recovery loop, and what has not ended is shown.
"""

import datetime as dt

import pendulum
from airflow.sdk import CronDataIntervalTimetable, dag, task

from narthex_plugins.upkeep import ask


@dag(
    dag_id="reconcile",
    schedule=CronDataIntervalTimetable("*/5 * * * *", timezone="UTC"),
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["narthex"],
)
def reconcile() -> None:
    """Take one turn for every commit that has not ended."""

    @task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def recover() -> list[dict[str, str]]:
        return ask("upkeep/recover", within_s=120.0)["unended"]

    recover()


reconcile()
