"""The tasks that audit datasets and featuresets: which ones, and the audit of one of them."""

import datetime as dt
import itertools
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
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
    def run_after(self) -> dt.datetime: ...
    @property
    def data_interval_start(self) -> pendulum.DateTime: ...
    @property
    def data_interval_end(self) -> pendulum.DateTime: ...


def with_expectations() -> list[dict[str, str]]:
    """List what each branch serves with expectations; nothing on a new installation."""
    return [
        *served_with("dataset", expectations=True),
        *served_with("featureset", expectations=True),
    ]


def served_with(
    kind: str, *, expectations: bool, branches: Sequence[str] | None = None
) -> list[dict[str, str]]:
    """List the datasets or featuresets of branches that have expectations, or have none.

    Without `branches`, they are those of each branch that serves a commit.
    """
    return [
        {"branch": branch, kind: str(one["name"])}
        for branch in (served_branches() if branches is None else branches)
        for one in _dicts(look_up(f"{kind}s", branch=branch)[f"{kind}s"])
        if bool(one["expectations"]) is expectations
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
    """Check the rows of a dataset or featureset in the run's data interval.

    They are the rows that arrived in it, and those whose event time is in it; of an aggregate, the
    values of sampled keys as of its end; of a featureset, the answers that were logged. A run that
    was started by hand has the hour before it. An Airflow backfill of the DAG checks the same
    intervals again. A broken critical expectation fails the task; a broken warning is in its log.
    The dataset's Airflow asset gets an event if the task succeeds.

    Raises:
        AirflowFailException: A critical expectation is broken.
        RuntimeError: The audit did not end.
    """
    branch, is_dataset = audited["branch"], "dataset" in audited
    name = audited["dataset" if is_dataset else "featureset"]
    context = get_current_context()
    context["audited"] = name if branch == MAIN else f"{name} on {branch}"
    start, end = interval_of(context["dag_run"])
    command = [sys.executable, "-m", "narthex.cli", "audit", name, "--branch", branch, "--json"]
    span = ["--by", "both", "--from", start.isoformat(), "--to", end.isoformat()]
    done = subprocess.run([*command, *span], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the audit did not end: {done.stderr.strip()}")
    results: list[dict[str, Json]] = [json.loads(line) for line in done.stdout.splitlines()]
    texts = [*itertools.chain.from_iterable(_told(name, result) for result in results)]
    for text in texts or ["every expectation is met"]:
        log.info("%s", text)
    if any(result["is_critical"] for result in results):
        raise AirflowFailException("; ".join(texts))
    found: dict[str, Json] = {
        "success": all(result["success"] for result in results),
        "rows": {str(result["by"]): result["rows"] for result in results},
    }
    if is_dataset:
        announce(branch, [name], {"event": "audit"} | found)
    return {**audited, **found}


def interval_of(run: AuditRun) -> tuple[dt.datetime, dt.datetime]:
    """Return the data interval of a run, or the hour before one that was started by hand."""
    if run.run_type == "manual":
        return run.run_after - dt.timedelta(hours=1), run.run_after
    return run.data_interval_start, run.data_interval_end


def _told(name: str, result: Mapping[str, Json]) -> Iterator[str]:
    """Log what was checked; yield a sentence for each broken expectation."""
    by = str(result["by"]).replace("_", " ")
    log.info(
        "%s: %s rows by %s from %s to %s",
        name,
        result["rows"],
        by,
        result["from"],
        result["to"],
    )
    for one in _dicts(result["expectations"]):
        if not one["success"]:
            yield f"{_sentence(name, one)} by {by}"


def _sentence(name: str, one: Mapping[str, Json]) -> str:
    arguments = json.dumps(one["arguments"])
    broken = one["error"] or f"{one.get('unexpected_count')} of {one.get('element_count')} rows"
    return f"{one['severity']}: {name}: {one['kind']} {arguments}: {broken}"


def _deployed(branch: str) -> list[dict[str, Json]]:
    return _dicts(look_up("datasets", branch=branch)["datasets"])


def _dicts(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
