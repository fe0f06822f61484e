"""Airflow DAG `reconcile`: go on with every commit that nobody drives.

Every five minutes: one turn of the platform's recovery loop, and what has not ended is shown.
"""

import datetime as dt

from airflow.sdk import task

from narthex_plugins.upkeep import ask, upkeep


@upkeep("reconcile", cron="*/5 * * * *")
def reconcile() -> None:
    """Take one turn for every commit that has not ended."""

    @task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def recover() -> list[dict[str, str]]:
        return ask("upkeep/recover")["unended"]

    recover()


reconcile()
