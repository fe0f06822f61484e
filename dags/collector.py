"""Airflow DAG `collector`: retire and destroy unused assets.

Runs every ten minutes. Expired history loses its pins, unpinned assets retire, and retired assets
are destroyed after a grace period, dependants first. The platform also does this by itself.
"""

import datetime as dt

from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import ask, upkeep


@upkeep("collector", cron="*/10 * * * *", doc=__doc__)
def collector() -> None:
    """Retire and destroy assets that are due."""

    @step_task(execution_timeout=dt.timedelta(minutes=5), retries=2)
    def collect() -> dict[str, int]:
        """Retire what nothing uses, destroy what has been retired for long; return how many."""
        done = ask("upkeep/collect")
        return {"retired": len(done["retired"]), "due": len(done["due"])}

    collect()


collector()
