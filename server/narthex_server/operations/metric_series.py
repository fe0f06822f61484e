"""The routes of metrics over time: of a dataset, a job, a branch, and of queries.

Those of sources and sinks are in `narthex_server.catalog.connector_metrics`.

The values are of buckets: a minute each for an hour, ten for a day, an hour for a week and four for
a month. A bucket without a sample has the value null.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Final, TypeAlias

import attrs
from fastapi import APIRouter, Depends, Path, Query
from typing_extensions import TypedDict

from narthex._connectors import Input, source_kind
from narthex._ir import ResolvedAsset, SinkJobSpec, SourceJobSpec
from narthex_ledger import (
    LATENCY_BOUNDS_S,
    MEASURES,
    JobView,
    Ledger,
    MetricKind,
    MetricPoints,
    MetricSpan,
)
from narthex_server.errors import Missing
from narthex_server.security.request_access import AccessDep
from narthex_server.security.route_rights import Extent, Right, requires
from narthex_server.services.container import LedgerDep
from narthex_server.web.plain_routes import Instant, PathNumber, PlainRoute

router = APIRouter(route_class=PlainRoute)
READ = requires(Right.READ_DEFINITIONS)
READ_ALL = requires(Right.READ_DEFINITIONS, extent=Extent.INSTALLATION)

DatasetName: TypeAlias = Annotated[str, Path(max_length=200)]
Span: TypeAlias = Annotated[MetricSpan, Query()]

Known: TypeAlias = Mapping[str, float | None]
"""The numbers of a bucket by measure."""


class MetricLine(TypedDict):
    """A metric over time.

    Attributes:
        unit: `s`, `records`, `rows`, `rows/min`, `queries/s`, `answers` or `restarts`.
        meaning: What a value is.
        values: One for each bucket; null where it is not known.
    """

    name: str
    unit: str
    meaning: str
    values: list[float | None]


MetricHistory = TypedDict(
    "MetricHistory",
    {"span": str, "from": Instant, "bucket_minutes": int, "series": list[MetricLine]},
)
"""Metrics of one subject over time; `from` is the beginning of the first bucket."""


@attrs.frozen
class ShownMetric:
    """A metric that is made from the numbers of a bucket."""

    name: str
    unit: str
    meaning: str
    value: Callable[[Known], float | None]


def _measure(name: str) -> Callable[[Known], float | None]:
    return lambda known: known[name]


def _each(name: str, seconds: int) -> Callable[[Known], float | None]:
    """Return a rate: how many there were in so many seconds, in the minutes that were counted."""

    def rate(known: Known) -> float | None:
        count, minutes = known[name], known["counted_minutes"]
        return None if count is None or not minutes else count * seconds / (60 * minutes)

    return rate


def _took(share: float) -> Callable[[Known], float | None]:
    def quantile(known: Known) -> float | None:
        within = [known[f"within_{bound}_s"] or 0.0 for bound in LATENCY_BOUNDS_S]
        return quantile_of(share, within, known["queries"] or 0.0)

    return quantile


def quantile_of(share: float, within: Collection[float], total: float) -> float | None:
    """Estimate a quantile of durations in seconds from a histogram; None if it is empty.

    Args:
        share: The share of durations that are at most as long, from 0 to 1.
        within: How many took at most each of `LATENCY_BOUNDS_S`.
        total: How many there are. Beyond the last bound, the answer is that bound.
    """
    if not total:
        return None
    wanted, below, least_s = share * total, 0.0, 0.0
    for bound_s, count in zip(LATENCY_BOUNDS_S, within, strict=True):
        if count >= wanted and count > below:
            return least_s + (bound_s - least_s) * (wanted - below) / (count - below)
        below, least_s = count, bound_s
    return LATENCY_BOUNDS_S[-1]


_LAG: Final = ShownMetric("lag", "s", "Age of the oldest unread record", _measure("lag_s"))
_UNREAD: Final = ShownMetric(
    "behind", "records", "Records that it has not read", _measure("behind")
)
_RESTARTS: Final = ShownMetric(
    "restarts", "restarts", "Restarts after a failure", _measure("restarts")
)
_SINCE_SUCCESS: Final = ShownMetric(
    "since_success", "s", "Time since it last worked", _measure("since_success_s")
)

POLLED: Final = (
    ShownMetric("freshness", "s", "Age of the newest row", _measure("freshness_s")),
    ShownMetric("rows", "rows/min", "Rows read per minute", _each("rows", 60)),
    ShownMetric("quarantined", "rows", "Quarantined rows", _measure("quarantined")),
    _SINCE_SUCCESS,
    _RESTARTS,
)
"""The metrics of sources without a topic: how much of a table or file is unread is not known."""

SOURCE: Final = (_LAG, _UNREAD, *POLLED)
"""The metrics of sources whose rows arrive in a topic."""

SINK: Final = (
    ShownMetric("lag", "s", "Age of the oldest unwritten record", _measure("lag_s")),
    ShownMetric("behind", "records", "Records that are not written", _measure("behind")),
    ShownMetric("rows", "rows/min", "Rows written per minute", _each("rows", 60)),
    _SINCE_SUCCESS,
    _RESTARTS,
)

SHOWN: Final[Mapping[MetricKind, tuple[ShownMetric, ...]]] = {
    MetricKind.DATASET: (
        ShownMetric("freshness", "s", "Age of the newest row", _measure("freshness_s")),
        ShownMetric("watermark_lag", "s", "Age of the watermark", _measure("watermark_lag_s")),
        ShownMetric("rows", "rows/min", "Rows per minute", _each("rows", 60)),
        ShownMetric("behind", "records", "Records that jobs have not read", _measure("behind")),
        ShownMetric("late", "rows", "Late rows", _measure("late")),
        ShownMetric("quarantined", "rows", "Quarantined rows", _measure("quarantined")),
    ),
    MetricKind.JOB: (
        _LAG,
        _UNREAD,
        ShownMetric("rows", "rows/min", "Rows or records per minute", _each("rows", 60)),
        _RESTARTS,
    ),
    MetricKind.PROCESS: (
        ShownMetric("queries", "queries/s", "Queries and lookups per second", _each("queries", 1)),
        ShownMetric("errors", "answers", "Errors: status 429, or 500 and more", _measure("errors")),
        ShownMetric("p50", "s", "Duration, median", _took(0.5)),
        ShownMetric("p99", "s", "Duration, 99th percentile", _took(0.99)),
    ),
}


def shown_of(asset: ResolvedAsset) -> tuple[ShownMetric, ...]:
    """Return the metrics of a job or a feed that are shown."""
    match asset.spec:
        case SourceJobSpec() as spec:
            has_topic = source_kind(spec.source.connector).input in {Input.INGEST, Input.TOPIC}
            return SOURCE if has_topic else POLLED
        case SinkJobSpec():
            return SINK
        case _:
            return SHOWN[MetricKind.JOB]


def history_of(
    kind: MetricKind,
    span: MetricSpan,
    found: MetricPoints,
    metrics: Sequence[ShownMetric] | None = None,
) -> MetricHistory:
    """Return the metrics that are made from samples; by default those of `SHOWN`."""
    names = [measure.name for measure in MEASURES[kind]]
    buckets = [None if one is None else dict(zip(names, one, strict=True)) for one in found.points]
    return {
        "span": span.value,
        "from": found.begin.isoformat(),
        "bucket_minutes": found.minutes,
        "series": [
            {
                "name": shown.name,
                "unit": shown.unit,
                "meaning": shown.meaning,
                "values": [None if known is None else shown.value(known) for known in buckets],
            }
            for shown in metrics or SHOWN[kind]
        ],
    }


@router.get("/datasets/{name}/metrics", dependencies=[READ])
def of_dataset(
    name: DatasetName, ledger: LedgerDep, access: AccessDep, span: Span = MetricSpan.DAY
) -> MetricHistory:
    """Return how old, how many, late and quarantined the rows of a dataset were over a span."""
    snapshot = access.snapshots.serving(access.branch)
    access.require_dataset(snapshot, name)
    snapshot.dataset(name)
    kind = MetricKind.DATASET
    points = ledger.metrics.points(kind, span, branch=access.branch, subjects=[name])
    return history_of(kind, span, points)


@router.get("/branch/metrics", dependencies=[READ])
def of_branch(ledger: LedgerDep, access: AccessDep, span: Span = MetricSpan.DAY) -> MetricHistory:
    """Return the same of all datasets of the branch together that the principal sees.

    Rows and records are added; of ages, the greatest counts.
    """
    deployed = access.snapshots.deployed(access.branch)
    visible: list[str] | None = None
    if access.principal.tags != ("*",):
        definitions = None if deployed is None else deployed.definitions
        visibility = access.visibility(definitions)
        datasets = () if definitions is None else definitions.datasets
        visible = [one.name for one in datasets if visibility.of_dataset(one.name)]
    kind = MetricKind.DATASET
    points = ledger.metrics.points(kind, span, branch=access.branch, subjects=visible)
    return history_of(kind, span, points)


def job_of(asset_id: PathNumber, access: AccessDep) -> JobView:
    """Return a job or a feed that the principal sees.

    Raises:
        Missing: There is none of that id, or the principal does not see it.
    """
    visible = access.visible_assets()
    if visible is None or asset_id in visible:
        for job in access.ledger.jobs.shown():
            if job.asset.asset_id == asset_id:
                return job
    raise Missing(f"there is no job {asset_id}")


JobDep: TypeAlias = Annotated[JobView, Depends(job_of)]
"""The job of a path; pages and their metrics share one read of it."""


@router.get("/jobs/{asset_id}/metrics", dependencies=[READ])  # noqa: FAST003 - its job takes the id
def of_job(job: JobDep, ledger: LedgerDep, span: Span = MetricSpan.DAY) -> MetricHistory:
    """Return how far a job or a feed was behind, and how often it restarted, over a span.

    A job that reads a source or writes a sink has the metrics of that.
    """
    return of_jobs([job], ledger, span, shown_of(job.asset))


def of_jobs(
    jobs: Iterable[JobView], ledger: Ledger, span: MetricSpan, metrics: Sequence[ShownMetric]
) -> MetricHistory:
    """Return metrics of several jobs together: of ages the greatest, of all others the sum."""
    subjects = [str(job.asset.asset_id) for job in jobs]
    points = ledger.metrics.points(MetricKind.JOB, span, subjects=subjects)
    return history_of(MetricKind.JOB, span, points, metrics)


@router.get("/metrics/queries", dependencies=[READ_ALL])
def of_queries(ledger: LedgerDep, span: Span = MetricSpan.DAY) -> MetricHistory:
    """Return how many queries and lookups were answered over a span, which failed, how fast.

    Those of servers and read processes are counted together. Durations are estimated from a
    histogram, whose last bound is five seconds.
    """
    points = ledger.metrics.points(MetricKind.PROCESS, span)
    return history_of(MetricKind.PROCESS, span, points)
