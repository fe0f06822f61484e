"""Liveness, and the platform's metrics as OpenMetrics text."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from typing_extensions import TypedDict

from narthex._base import SECOND_US, Json
from narthex.settings import FULL
from narthex_ledger import AlertView, JobView, LineageStatus
from narthex_server.operations.job_status import Job, job_rows
from narthex_server.security.route_rights import Extent, Right, open_to_all, requires
from narthex_server.services.container import LedgerDep, ServicesDep
from narthex_server.services.meters import Meters, labelled, number
from narthex_server.web.plain_routes import PlainRoute

NONE_KNOWN: Final[Mapping[int, int]] = {}

router = APIRouter(route_class=PlainRoute)
liveness = APIRouter(route_class=PlainRoute)

Gauge: TypeAlias = Literal["behind", "lag_ms", "late", "quarantined", "rows", "written", "epoch"]

GAUGES: Final[Mapping[Gauge, tuple[str, str]]] = {
    "behind": ("narthex_job_backlog", "Records that a job or feed has not read."),
    "lag_ms": ("narthex_job_lag_milliseconds", "Age of the oldest unread record."),
    "late": ("narthex_source_late_rows", "Rows later than their source's disorder."),
    "quarantined": (
        "narthex_job_quarantined_rows",
        "Rows that the job's present run has sent to a quarantine.",
    ),
    "rows": ("narthex_job_read_rows", "Rows that the job's present run has read."),
    "written": (
        "narthex_job_written_rows",
        "Rows that the present run has written to a sink or a history.",
    ),
    "epoch": ("narthex_job_epoch", "Epoch of the job's lease."),
}


DRIVER_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "code_cache": ("narthex_driver_code_cache_bytes", "Code that the driver's JVM has compiled."),
    "code_cache_limit": (
        "narthex_driver_code_cache_limit_bytes",
        "Space for compiled code; at 85 % of it the driver is replaced.",
    ),
    "heap": ("narthex_driver_heap_bytes", "Heap that the driver's JVM uses."),
    "heap_limit": ("narthex_driver_heap_limit_bytes", "Largest heap of the driver's JVM."),
    "metaspace": ("narthex_driver_metaspace_bytes", "Classes that the driver's JVM has loaded."),
    "restarts": ("narthex_driver_restarts", "How often the supervisor has replaced its driver."),
}


class Health(TypedDict):
    """The server and its ledger answer.

    Attributes:
        sandbox: Which layers of the sandbox of author code are missing; `full` if none.
    """

    status: str
    sandbox: str


@liveness.get("/healthz", dependencies=[open_to_all()])
def healthz(services: ServicesDep) -> Health:
    """Report that the server and its ledger answer, and how authors' code is sandboxed."""
    services.ledger.jobs.registry_version()
    services.workers.end_idle()
    return {"status": "ok", "sandbox": services.workers.weakness or FULL}


@router.get(
    "/metrics",
    dependencies=[requires(Right.READ_DEFINITIONS, extent=Extent.INSTALLATION)],
    response_class=PlainTextResponse,
    responses={200: {"model": str}},
)
def metrics(ledger: LedgerDep, services: ServicesDep) -> PlainTextResponse:
    """Return the metrics of this process and of every job, as its supervisor reports it."""
    return PlainTextResponse(
        render_metrics(
            services.meters,
            ledger.jobs.shown(),
            ledger.engines.infos(),
            alerts=ledger.alerts.state().alerts,
            watermarks=ledger.watermarks.by_feed(),
            lineage=ledger.lineage.status(),
        ),
        media_type="application/openmetrics-text; version=1.0.0; charset=utf-8",
    )


def render_metrics(
    meters: Meters,
    jobs: Iterable[JobView],
    drivers: Mapping[str, Json] | None = None,
    *,
    alerts: Iterable[AlertView] = (),
    watermarks: Mapping[int, int] = NONE_KNOWN,
    lineage: LineageStatus | None = None,
) -> str:
    """Render all meters; one line per series, `# EOF` last.

    Args:
        meters: The meters of this process.
        jobs: All jobs.
        drivers: What each supervisor reports of its driver, by the name of the supervisor's run.
        alerts: The alerts that fire.
        watermarks: The watermarks of datasets, by the asset of their history feeds, microseconds.
        lineage: How far the sending of lineage is behind.
    """
    shown = job_rows(jobs, watermarks)
    lines = meters.render()
    for field, (name, says) in GAUGES.items():
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {says}"]
        lines += [
            f"{name}{_labels(row)} {_number(row[field])}"
            for row in shown
            if row.get(field) is not None
        ]
    lines += _success_lines(shown)
    lines += _expectation_lines(shown)
    lines += _watermark_lines(shown, watermarks)
    lines += ["# TYPE narthex_job_up gauge", "# HELP narthex_job_up Whether a desired job runs."]
    lines += [
        f"narthex_job_up{_labels(row)} {int(row['phase'] in {'running', 'caught_up'})}"
        for row in shown
        if row["desired"] == "running"
    ]
    lines += _driver_lines(drivers or {})
    lines += _alert_lines(alerts)
    lines += _lineage_lines(lineage)
    return "\n".join([*lines, "# EOF", ""])


def _success_lines(jobs: Iterable[Job]) -> Iterator[str]:
    name = "narthex_job_success_seconds"
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} When a source or a sink last worked without an error, since 1970."
    for job in jobs:
        if job["succeeded_at"] is not None:
            seconds = dt.datetime.fromisoformat(job["succeeded_at"]).timestamp()
            yield f"{name}{_labels(job)} {number(seconds)}"


def _expectation_lines(jobs: Iterable[Job]) -> Iterator[str]:
    name = "narthex_expectation_broken_rows"
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} Rows of the job's present run that broke an enforced expectation."
    for job in jobs:
        found = job["expectations"]
        for title, counts in found.items() if isinstance(found, dict) else ():
            for action in ("quarantined", "dropped"):
                count = counts.get(action) if isinstance(counts, dict) else None
                if count:
                    labels = (("job", job["label"]), ("expectation", title), ("action", action))
                    yield f"{name}{labelled(labels)} {_number(count)}"


def _watermark_lines(jobs: Iterable[Job], watermarks: Mapping[int, int]) -> Iterator[str]:
    name = "narthex_dataset_watermark_seconds"
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} Event time up to which a dataset is complete, seconds since 1970."
    for job in jobs:
        if job["asset_id"] in watermarks:
            seconds = watermarks[job["asset_id"]] / SECOND_US
            yield f"{name}{labelled((('dataset', job['label']),))} {number(seconds)}"


def _driver_lines(drivers: Mapping[str, Json]) -> Iterator[str]:
    for field, (name, says) in DRIVER_GAUGES.items():
        yield f"# TYPE {name} gauge"
        yield f"# HELP {name} {says}"
        for supervisor, info in drivers.items():
            value = info.get(field) if isinstance(info, dict) else None
            if value is not None:
                yield f"{name}{labelled((('supervisor', supervisor),))} {_number(value)}"


def _alert_lines(alerts: Iterable[AlertView]) -> Iterator[str]:
    name = "narthex_alerts_firing"
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} Alerts that fire, silenced or not."
    counts = Counter((alert.branch, alert.rule, alert.severity) for alert in alerts)
    for labels, count in sorted(counts.items()):
        named = zip(("branch", "rule", "severity"), labels, strict=True)
        yield f"{name}{labelled(named)} {count}"


def _lineage_lines(lineage: LineageStatus | None) -> Iterator[str]:
    name = "narthex_lineage_lag_seconds"
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} Age of the oldest event of the ledger that lineage was not sent of."
    if lineage is not None:
        yield f"{name} {number(lineage.lag_s)}"
    name = "narthex_lineage_failures"
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} Attempts in a row to send lineage that failed; its error is a label."
    if lineage is not None:
        labels = (("error", lineage.error),) if lineage.error else ()
        yield f"{name}{labelled(labels)} {lineage.failures}"


def _labels(row: Job) -> str:
    return labelled((("job", row["label"]), ("kind", row["kind"])))


def _number(value: Json) -> str:
    return number(value) if isinstance(value, int | float) else "0"
