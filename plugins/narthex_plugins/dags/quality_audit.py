"""Airflow DAG `quality_audit`: check the rows and answers of each hour against expectations.

Runs every hour, on every branch: a task for each dataset checks the rows that arrived in the data
interval, and those whose event time is in it; a task for each featureset checks the answers of
queries that were logged in it. An Airflow backfill of this DAG audits the same
intervals again. A broken critical expectation fails its task.
"""

import datetime as dt

import pendulum

from narthex_plugins import dataset_audits
from narthex_plugins.dataset_assets import DATASETS
from narthex_plugins.operators import step_task
from narthex_plugins.upkeep import LISTED, upkeep

# Old hours of event time can be audited, too: those of data that were recorded years ago.
FIRST = pendulum.datetime(2013, 1, 1, tz="UTC")


@upkeep("quality_audit", cron="0 * * * *", doc=__doc__, start_date=FIRST, max_active_runs=4)
def quality_audit() -> None:
    """Audit every dataset and featureset that has expectations."""
    audit = step_task(
        dataset_audits.audit,
        map_index_template="{{ audited }}",
        execution_timeout=dt.timedelta(minutes=10),
        max_active_tis_per_dagrun=2,
        outlets=[DATASETS],
    )
    listed = step_task(dataset_audits.with_expectations, **LISTED)
    audit.expand(audited=listed())


quality_audit()
