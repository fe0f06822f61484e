"""The tasks that audit datasets and featuresets: which ones, and the audits of a batch of them."""

import datetime as dt
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import pendulum
from airflow.sdk import Context, get_current_context
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowFailException

from narthex_plugins.batches import MAIN, Entry, in_batches, label_of, name_of, run_for
from narthex_plugins.dataset_assets import announce
from narthex_plugins.platform_client import Json
from narthex_plugins.upkeep import look_up

log = logging.getLogger(__name__)

Audited = dict[str, Json]
"""An entry in the return value of a task: with its `rows` and `success`, or with the `error`."""


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


def with_expectations() -> list[list[Entry]]:
    """List what each branch serves with expectations, in batches; none on a new installation.

    Up to 20 datasets and featuresets have a task each. More are in batches of one branch each.
    """
    return in_batches(
        [
            *served_with("dataset", expectations=True),
            *served_with("featureset", expectations=True),
        ]
    )


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


def audit(audited: Sequence[Entry]) -> list[Audited]:
    """Check the rows of the datasets and featuresets of a batch in the run's data interval.

    They are the rows that arrived in it, and those whose event time is in it; of an aggregate, the
    values of sampled keys as of its end; of a featureset, the answers that were logged. A run that
    was started by hand has the hour before it. An Airflow backfill of the DAG checks the same
    intervals again. A broken critical expectation fails the task once the whole batch is checked; a
    broken warning is in its log. If the task succeeds, the Airflow asset of each dataset gets an
    event; else the task `announce` gives it to those that met their critical expectations.

    Raises:
        AirflowFailException: A critical expectation is broken; the message has all of them.
        RuntimeError: The audit of a dataset or featureset did not end; the message has all of them.
    """
    context = get_current_context()
    context["audited"] = label_of(audited)
    start, end = interval_of(context["dag_run"])
    span = ["--by", "both", "--from", start.isoformat(), "--to", end.isoformat()]
    done = run_for(
        [name_of(entry) for entry in audited],
        [sys.executable, "-m", "narthex.cli", "audit"],
        ["--branch", audited[0]["branch"], "--json", *span],
    )
    broken: list[str] = []
    found: list[Audited] = []
    for entry in audited:
        name = name_of(entry)
        results = done.results.get(name, [])
        texts = [text for result in results for text in _told(name, result)]
        if any(result["is_critical"] for result in results):
            broken += texts
        if name in done.errors:
            log.error("%s: the audit did not end: %s", name, done.errors[name])
            found.append({**entry, "error": done.errors[name]})
            continue
        for text in texts or [f"{name}: every expectation is met"]:
            log.info("%s", text)
        found.append({**entry, **_summary(results)})
    _end(context, found, broken)
    announce_each(found)
    return found


def _summary(results: Sequence[Mapping[str, Json]]) -> Audited:
    return {
        "success": all(result["success"] for result in results),
        "is_critical": any(result["is_critical"] for result in results),
        "rows": {str(result["by"]): result["rows"] for result in results},
    }


def _end(context: Context, found: Sequence[Audited], broken: Sequence[str]) -> None:
    """Fail the task if something is broken or did not end; its results are there all the same."""
    late = [f"{_name(one)}: {one['error']}" for one in found if "error" in one]
    if not broken and not late:
        return
    context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=list(found))
    unended = [f"the audit did not end: {text}" for text in late]
    if broken:
        raise AirflowFailException("; ".join([*broken, *unended]))
    raise RuntimeError("; ".join(unended))


def announce_rest(audits: Sequence[Sequence[Audited]] | None) -> None:
    """Emit the events of datasets whose batch failed only because of others.

    Airflow emits no events of a task that fails.
    """
    # A slice is one call of Airflow's API.
    for batch in audits[:] if audits else ():
        if any(map(_has_failed, batch)):
            announce_each([one for one in batch if not _has_failed(one)])


def announce_each(audits: Iterable[Audited]) -> None:
    """Emit an event of each audited dataset, with the results of its own audit."""
    for one in audits:
        if "dataset" in one:
            figures = {name: one[name] for name in ("success", "rows")}
            announce(str(one["branch"]), [str(one["dataset"])], {"event": "audit"} | figures)


def _has_failed(one: Audited) -> bool:
    return "error" in one or bool(one["is_critical"])


def _name(one: Audited) -> str:
    return str(one["dataset"] if "dataset" in one else one["featureset"])


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
