"""The tasks that audit datasets: which ones, and the audit of one of them."""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Protocol

import pendulum
from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from narthex_plugins.dataset_assets import announce
from narthex_plugins.platform_client import Json
from narthex_plugins.upkeep import look_up

log = logging.getLogger(__name__)

MAIN = "main"


class AuditRun(Protocol):
    """The attributes of a DAG run that are used here."""

    @property
    def run_type(self) -> str: ...
    @property
    def data_interval_start(self) -> pendulum.DateTime: ...
    @property
    def data_interval_end(self) -> pendulum.DateTime: ...


def datasets_with_expectations() -> list[dict[str, str]]:
    """List the datasets with expectations that each branch serves; none on a new installation."""
    return [
        {"branch": branch, "dataset": str(dataset["name"])}
        for branch in served_branches()
        for dataset in _deployed(branch)
        if dataset["expectations"]
    ]


def served_datasets() -> list[str]:
    """List the datasets that the branch `main` serves; none on a new installation."""
    return [str(one["name"]) for one in _deployed(MAIN)] if MAIN in served_branches() else []


def served_branches() -> list[str]:
    """List the branches that serve a commit."""
    branches = _dicts(look_up("branch/list")["branches"])
    return [str(one["name"]) for one in branches if one["serving"] is not None]


def branches_with_features() -> list[str]:
    """List the branches that serve features, which alone have logged queries."""
    return [
        branch
        for branch in served_branches()
        if _dicts(look_up("featuresets", branch=branch)["featuresets"])
    ]


def audit(audited: Mapping[str, str]) -> dict[str, Json]:
    """Check the newest hour of one dataset against its expectations.

    A backfill of the DAG checks the hours of its data intervals instead. A broken critical
    expectation fails the task; a broken warning is in its log. The dataset's Airflow asset gets an
    event if the task succeeds.

    Raises:
        AirflowFailException: A critical expectation is broken.
        RuntimeError: The audit did not end.
    """
    branch, dataset = audited["branch"], audited["dataset"]
    context = get_current_context()
    context["dataset"] = dataset if branch == MAIN else f"{dataset} on {branch}"
    command = [sys.executable, "-m", "narthex.cli", "audit", dataset, "--branch", branch, "--json"]
    done = subprocess.run(
        [*command, *_span(context["dag_run"])], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"the audit did not end: {done.stderr.strip()}")
    result: dict[str, Json] = json.loads(done.stdout)
    log.info("%s: %s rows from %s to %s", dataset, result["rows"], result["from"], result["to"])
    texts = [
        _sentence(dataset, one) for one in _dicts(result["expectations"]) if not one["success"]
    ]
    for text in texts or ["every expectation is met"]:
        log.info("%s", text)
    if result["is_critical"]:
        raise AirflowFailException("; ".join(texts))
    found = {"success": result["success"], "rows": result["rows"]}
    announce(branch, [dataset], {"event": "audit"} | found)
    return {"branch": branch, "dataset": dataset} | found


def _span(run: AuditRun) -> list[str]:
    if run.run_type != "backfill":
        return ["--last-hour"]
    start, end = run.data_interval_start, run.data_interval_end
    return ["--from", start.isoformat(), "--to", end.isoformat()]


def _sentence(dataset: str, one: Mapping[str, Json]) -> str:
    arguments = json.dumps(one["arguments"])
    broken = one["error"] or f"{one.get('unexpected_count')} of {one.get('element_count')} rows"
    return f"{one['severity']}: {dataset}: {one['kind']} {arguments}: {broken}"


def _deployed(branch: str) -> list[dict[str, Json]]:
    return _dicts(look_up("datasets", branch=branch)["datasets"])


def _dicts(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
