"""Airflow DAG `collector`: let go of what nothing uses any more.

Every ten minutes: history past its time loses its pin, what no pin reaches retires, and what has
been retired for its grace is destroyed, dependants first. The platform does the same by itself.
"""

import datetime as dt

from airflow.sdk import task

from narthex_plugins.upkeep import ask, upkeep


@upkeep("collector", cron="*/10 * * * *")
def collector() -> None:
    """Retire and destroy what is due."""

    @task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def collect() -> dict[str, int]:
        done = ask("upkeep/collect")
        return {"retired": len(done["retired"]), "due": len(done["due"])}

    collect()


collector()
