"""The routes of the metrics of a source or a sink over time, and the jobs that they are of.

They are made from the samples of its jobs on the branch that the principal sees, so that a token of
some tags learns nothing from sums.
"""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Query

from narthex_ledger import JobView, Ledger, MetricSpan
from narthex_server.catalog import connectors
from narthex_server.catalog.branch_catalog import assets_of_branch, visible_jobs
from narthex_server.definitions.job_labels import connector_of
from narthex_server.operations.metric_series import (
    SINK,
    SOURCE,
    MetricHistory,
    Span,
    of_jobs,
    shown_of,
)
from narthex_server.security.dataset_access import Access
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Right, requires
from narthex_server.services.container import SnapshotsDep
from narthex_server.web.plain_routes import PlainRoute

router = APIRouter(route_class=PlainRoute, dependencies=[requires(Right.READ_DEFINITIONS)])

ConnectorName: TypeAlias = Annotated[str, Query(description="Its `name` in the list of them.")]


@router.get("/sources/metrics")
def of_source(
    name: ConnectorName, snapshots: SnapshotsDep, access: AccessDep, span: Span = MetricSpan.DAY
) -> MetricHistory:
    """Return how fresh a source was over a span, how far its readers were behind, and what failed.

    Only a source with a topic has `lag` and `behind`: of a table or a directory, it is not known
    how much is unread. Rows that a backfill reads do not count.
    """
    connectors.sources(snapshots, access, name=name)
    return history_of_source(jobs_of_connector(access, name), access.ledger, span)


@router.get("/sinks/metrics")
def of_sink(
    name: ConnectorName, snapshots: SnapshotsDep, access: AccessDep, span: Span = MetricSpan.DAY
) -> MetricHistory:
    """Return how much was written to a sink over a span, how far it was behind, and what failed."""
    connectors.sinks(snapshots, access, name=name)
    return history_of_sink(jobs_of_connector(access, name), access.ledger, span)


def jobs_of_connector(access: Access, name: str) -> list[JobView]:
    """Return the jobs of the branch that read a source or write to a sink.

    Raises:
        Missing: There is no such branch.
    """
    own = assets_of_branch(access)
    return [
        job
        for job in visible_jobs(access.ledger.jobs.shown(), access)
        if job.asset.asset_id in own and connector_of(job.asset) == name
    ]


def history_of_source(jobs: Sequence[JobView], ledger: Ledger, span: MetricSpan) -> MetricHistory:
    """Return the metrics of a source from those of the jobs that read it."""
    return of_jobs(jobs, ledger, span, shown_of(jobs[0].asset) if jobs else SOURCE)


def history_of_sink(jobs: Sequence[JobView], ledger: Ledger, span: MetricSpan) -> MetricHistory:
    """Return the metrics of a sink from those of the jobs that write to it."""
    return of_jobs(jobs, ledger, span, SINK)
