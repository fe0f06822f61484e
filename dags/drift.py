"""Airflow DAG `drift`: compare the hour's answers and rows with training sets and pinned windows.

Runs every hour, on every branch. The first task summarizes the queries that were logged, and the
rows that arrived in datasets, since the last run. Each feature is then compared with the newest
training set that has it, and each feature and column with each pinned window: by the population
stability index, the Jensen-Shannon distance, the Kolmogorov-Smirnov statistic and the shifts of the
mean and of the nulls. A critical drift fails the task of its reference. Hours with few answers or
rows, and features without a reference, are not compared.
"""

import datetime as dt

from narthex_plugins import feature_drift
from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import LISTED, upkeep


@upkeep("drift", cron="5 * * * *", doc=__doc__)
def drift() -> None:
    """Summarize, then compare with every reference."""
    summarize = step_task(
        feature_drift.summarize,
        execution_timeout=dt.timedelta(minutes=30),
        retries=2,
        retry_delay=dt.timedelta(seconds=30),
    )
    compare = step_task(
        feature_drift.compare,
        map_index_template="{{ reference }}",
        execution_timeout=dt.timedelta(minutes=10),
        max_active_tis_per_dagrun=2,
    )
    listed = step_task(feature_drift.references, **LISTED)()
    summarize() >> listed
    compare.expand(reference=listed)


drift()
