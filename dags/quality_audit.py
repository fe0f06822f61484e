"""Airflow DAG `quality_audit`: check the rows and answers of each hour against expectations.

Runs every hour, on every branch. Of each dataset with expectations, it checks the rows that arrived
in the data interval, and those whose event time is in it; of each featureset, the answers of
queries that were logged in it. Up to 20 of them have a task each; more are in batches of one
branch, and the label of a task has the first name. An Airflow backfill of this DAG audits the same
intervals again. A broken critical expectation fails its task once the whole batch is audited.
"""

import datetime as dt

import pendulum

from narthex_plugins import dataset_audits
from narthex_plugins.dataset_assets import DATASETS
from narthex_plugins.operators import AuditOperator, step_task
from narthex_plugins.upkeep import LISTED, upkeep

# Old hours of event time can be audited, too: those of data that were recorded years ago.
FIRST = pendulum.datetime(2013, 1, 1, tz="UTC")


@upkeep("quality_audit", cron="0 * * * *", doc=__doc__, start_date=FIRST, max_active_runs=4)
def quality_audit() -> None:
    """Audit every dataset and featureset that has expectations."""
    audit = step_task(
        dataset_audits.audit,
        operator=AuditOperator,
        map_index_template="{{ audited }}",
        # Longer than a batch waits for its process, so that its results are never lost.
        execution_timeout=dt.timedelta(hours=1),
        max_active_tis_per_dagrun=2,
        # A second try would audit the whole batch again, and store every result twice.
        retries=0,
        outlets=[DATASETS],
    )
    announce = step_task(
        dataset_audits.announce_rest,
        operator=AuditOperator,
        task_id="announce",
        outlets=[DATASETS],
    )
    listed = step_task(dataset_audits.with_expectations, operator=AuditOperator, **LISTED)
    # A teardown runs after tasks that failed, and does not decide how the run ends.
    announce(audit.expand(audited=listed())).as_teardown()


quality_audit()
