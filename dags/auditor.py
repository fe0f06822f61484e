"""Airflow DAG `auditor`: compare the ledger with every store.

Runs every ten minutes. A run fails while an asset is lost, unknown, or different from the ledger.
An unknown asset is destroyed after two scans have seen it; a lost one is quarantined for a person.
"""

import datetime as dt

from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import ask, judge, upkeep


@upkeep("auditor", cron="*/10 * * * *", doc=__doc__)
def auditor() -> None:
    """Scan every store, then fail if a store differs from the ledger."""

    @step_task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def scan() -> dict[str, object]:
        """Compare every topic, index, history and checkpoint with the ledger."""
        return ask("upkeep/audit")

    @step_task
    def is_sound(audit: dict[str, object]) -> int:
        """Return the number of stored objects; fail, with the findings, if one differs."""
        return judge(audit)

    is_sound(scan())


auditor()
