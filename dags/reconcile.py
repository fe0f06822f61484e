"""Airflow DAG `reconcile`: continue every commit that has stalled.

Runs every five minutes: one turn of the platform's recovery loop; returns the unfinished commits.
"""

import datetime as dt

from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import ask, upkeep


@upkeep("reconcile", cron="*/5 * * * *", doc=__doc__)
def reconcile() -> None:
    """Take one turn for every unfinished commit."""

    @step_task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def recover() -> list[dict[str, str]]:
        """Take the next step of each commit whose run is absent; return the unfinished ones."""
        return ask("upkeep/recover")["unended"]

    recover()


reconcile()
