"""Airflow DAG `reconcile`: continue every commit that has stalled.

Runs every five minutes: one turn of the platform's recovery loop; returns the unfinished commits.
"""

import datetime as dt

from airflow.sdk import task

from narthex_plugins.upkeep import ask, upkeep


@upkeep("reconcile", cron="*/5 * * * *")
def reconcile() -> None:
    """Take one turn for every unfinished commit."""

    @task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def recover() -> list[dict[str, str]]:
        return ask("upkeep/recover")["unended"]

    recover()


reconcile()
