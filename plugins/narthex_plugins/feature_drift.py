"""The tasks that summarize logged answers and arrived rows, and compare them with references."""

import datetime as dt
import json
import logging
import subprocess
import sys
from collections.abc import Mapping

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from narthex_plugins.batches import MAIN
from narthex_plugins.dataset_audits import AuditRun, served_branches
from narthex_plugins.platform_client import Json, platform
from narthex_plugins.upkeep import look_up

log = logging.getLogger(__name__)

HOUR = dt.timedelta(hours=1)


def summarize() -> dict[str, Json]:
    """Summarize the logged answers and the rows that arrived since the last run, by the hour.

    Raises:
        RuntimeError: The command did not end; a retry continues where the last one ended.
    """
    command = [sys.executable, "-m", "narthex.cli", "summarize", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"answers and rows were not summarized: {done.stderr.strip()}")
    found: dict[str, Json] = json.loads(done.stdout)
    log.info("%s logged queries, %s summaries", found["records"], found["summaries"])
    log.info("%s rows of datasets, %s summaries", found["rows"], found["columns"])
    return found


def references() -> list[dict[str, str]]:
    """List the training sets and pinned windows of each branch; none on a new installation."""
    return [
        {"branch": branch, "kind": str(one["kind"]), "name": str(one["name"])}
        for branch in served_branches()
        for one in _dicts(look_up("drift/references", branch=branch)["references"])
    ]


def compare(reference: Mapping[str, str]) -> dict[str, Json]:
    """Compare the answers and rows of the run's hour with one reference; each result is stored.

    A manual run compares the present hour and the one before. A critical drift fails the task; a
    warning is in its log.

    Raises:
        AirflowFailException: A feature has a critical drift.
    """
    branch, kind, name = reference["branch"], reference["kind"], reference["name"]
    context = get_current_context()
    context["reference"] = name if branch == MAIN else f"{name} on {branch}"
    start, end = span_of(context["dag_run"], now=dt.datetime.now(tz=dt.UTC))
    body: dict[str, Json] = {
        "reference_kind": kind,
        "reference": name,
        "from": start.isoformat(),
        "to": end.isoformat(),
    }
    answer = platform().send("drift", body, headers={"X-Narthex-Branch": branch})
    found = _dicts(answer["drift"])
    for one in found:
        log.info("%s", sentence(one))
    critical = [one for one in found if one["severity"] == "critical"]
    if critical:
        raise AirflowFailException("; ".join(map(sentence, critical)))
    warnings = sum(one["severity"] == "warning" for one in found)
    return {"branch": branch, "reference": name, "features": len(found), "warnings": warnings}


def span_of(run: AuditRun, *, now: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    """Return the hours that a run compares: that in which its data interval begins.

    A manual run has no data interval of its own: it compares the hours of the last 60 minutes.
    """
    if run.run_type == "manual":
        return now - HOUR, now
    start = run.data_interval_start.replace(minute=0, second=0, microsecond=0)
    return start, start + HOUR


def sentence(one: Mapping[str, Json]) -> str:
    """Describe the comparison of a feature in a line, with the metrics beyond a threshold."""
    sizes = f"{one['rows']} rows against {one['reference_rows']} of {one['reference']}"
    if not one["is_compared"]:
        return f"{one['feature']}: too few rows: {sizes}"
    metrics = one["metrics"]
    beyond = [
        f"{metric['severity']} {name} {metric['value']:.3g} of {metric['critical']}"
        for name, metric in (metrics.items() if isinstance(metrics, dict) else ())
        if isinstance(metric, dict) and metric["severity"]
    ]
    return f"{one['feature']}: {', '.join(beyond) or 'no drift'}: {sizes}"


def _dicts(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
