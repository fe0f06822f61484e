"""Airflow DAG `collector`: let go of what nothing uses any more.

Every ten minutes: history past its time loses its pin, what no pin reaches retires, and what has
been retired for its grace is destroyed, dependants first. The platform does the same by itself.
"""

import datetime as dt

import pendulum
from airflow.sdk import CronDataIntervalTimetable, dag, task

from narthex_plugins.upkeep import ask


@dag(
    dag_id="collector",
    schedule=CronDataIntervalTimetable("*/10 * * * *", timezone="UTC"),
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["narthex"],
)
def collector() -> None:
    """Retire and destroy what is due."""

    @task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def collect() -> dict[str, int]:
        done = ask("upkeep/collect", within_s=120.0)
        return {"retired": len(done["retired"]), "due": len(done["due"])}

    collect()


collector()
