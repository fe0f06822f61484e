"""Airflow DAG `auditor`: hold the ledger against every store.

Every ten minutes. A run fails while something is lost, nobody's, or other than it should be; what
two scans find to be nobody's is destroyed, what is lost is set aside for a person.
"""

import datetime as dt

from airflow.sdk import task

from narthex_plugins.upkeep import ask, judge, upkeep


@upkeep("auditor", cron="*/10 * * * *")
def auditor() -> None:
    """Scan every store, then say whether all is as the ledger says."""

    @task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def scan() -> dict[str, object]:
        return ask("upkeep/audit")

    @task
    def is_sound(audit: dict[str, object]) -> int:
        return judge(audit)

    is_sound(scan())


auditor()
