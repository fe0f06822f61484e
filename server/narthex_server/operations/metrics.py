"""The platform's metrics as OpenMetrics text."""

from collections.abc import Iterable, Mapping

from narthex._base import Json
from narthex_ledger import JobView
from narthex_server.operations.job_status import job_rows
from narthex_server.services.container import Services
from narthex_server.services.meters import labelled, number

GAUGES = {
    "behind": ("narthex_job_backlog", "Records that a job or feed has not read."),
    "lag_ms": ("narthex_job_lag_milliseconds", "Age of the oldest unread record."),
    "late": ("narthex_source_late_rows", "Rows later than their source's disorder."),
    "quarantined": ("narthex_source_quarantined_rows", "Rows in quarantine."),
    "freshness_ms": (
        "narthex_job_freshness_milliseconds",
        "Seconds from log append to job output.",
    ),
    "epoch": ("narthex_job_epoch", "Epoch of the job's lease."),
}


def render_metrics(services: Services) -> str:
    """Render all meters; one line per series, `# EOF` last."""
    jobs: Iterable[JobView] = services.ledger.jobs.all()
    shown = job_rows(jobs)
    lines = services.meters.render()
    for field, (name, says) in GAUGES.items():
        lines += [f"# TYPE {name} gauge", f"# HELP {name} {says}"]
        lines += [
            f"{name}{_labels(row)} {_number(row[field])}"
            for row in shown
            if row.get(field) is not None
        ]
    lines += ["# TYPE narthex_job_up gauge", "# HELP narthex_job_up Whether a desired job runs."]
    lines += [
        f"narthex_job_up{_labels(row)} {int(row['phase'] in {'running', 'caught_up'})}"
        for row in shown
        if row["desired"] == "running"
    ]
    return "\n".join([*lines, "# EOF", ""])


def _labels(row: Mapping[str, Json]) -> str:
    return labelled((("job", str(row["label"])), ("kind", str(row["kind"]))))


def _number(value: Json) -> str:
    return number(value) if isinstance(value, int | float) else "0"
