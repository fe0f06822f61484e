"""The rules: pure functions from observations to findings, each with one thing to do."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
import structlog

from narthex._base import from_micros
from narthex._ir import AlertSeverity, Freshness, QuarantineRate
from narthex_ledger import (
    AlertFinding,
    CommitState,
    EndedCommitView,
    Phase,
    PromotionState,
    lag_of,
    phase_of,
    progress_of,
)
from narthex_server.alerts.configuration import URGENCY, RuleTable, RuleTables
from narthex_server.alerts.observations import Arrivals, Observations
from narthex_server.security.tokens import SINGLE_SIGN_ON
from narthex_server.services.served_branches import RunningJob, ServedBranch, ServedDataset

log = structlog.get_logger()

_LONGEST: Final = 300
"""How many characters of the reason of a failed commit are shown."""


@attrs.frozen(kw_only=True)
class Evaluation:
    """The findings of all rules.

    Attributes:
        unknown: The rules that could not be evaluated: what they found before is still true.
    """

    findings: tuple[AlertFinding, ...]
    unknown: frozenset[str]


def evaluate(observations: Observations, rules: RuleTables) -> Evaluation:
    """Return the findings of the enabled rules, one per rule, branch and subject."""
    found: dict[tuple[str, str, str], AlertFinding] = {}
    unknown = set()
    for name, rule in _RULES.items():
        try:
            findings = rule(observations, rules)
            found_now = None if findings is None else [*findings]
        except Exception:  # a mistake in one rule must not end the others
            log.exception("alert_rule_failed", rule=name)
            found_now = None
        if found_now is None:
            unknown.add(name)
            continue
        for finding in found_now:
            known = found.get(finding.key)
            if known is None or _is_more_urgent(finding, known):
                found[finding.key] = finding
    return Evaluation(
        findings=tuple(found[key] for key in sorted(found)), unknown=frozenset(unknown)
    )


def _is_more_urgent(one: AlertFinding, other: AlertFinding) -> bool:
    return URGENCY.index(one.severity) < URGENCY.index(other.severity)


def failed_commits(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the branches whose newest deployment failed, or was withdrawn for its quality."""
    rule = rules.failed_commit
    for commit in observations.commits:
        reason = _failure(commit)
        if not reason or not rule.is_for(commit.branch):
            continue
        yield AlertFinding(
            rule="failed_commit",
            branch=commit.branch,
            subject=str(commit.commit_id),
            severity=rule.severity if not _is_rejected(commit) else "warning",
            summary=f"Commit {str(commit.commit_id)[:8]} on branch `{commit.branch}` {reason}.",
            remedy="Open the commit, correct its cause and commit again; readers still read the "
            "previous commit.",
            page=f"console/commits/{commit.commit_id}",
        )


def _is_rejected(commit: EndedCommitView) -> bool:
    return commit.state == CommitState.REJECTED.value


def _failure(commit: EndedCommitView) -> str:
    """Return the end of a sentence on why a commit failed; empty if it did not, or by a person."""
    if commit.is_cancelled:
        return ""
    said = _said(commit.error)
    if commit.state in {CommitState.ABORTING.value, CommitState.ABORTED.value}:
        return f"failed: {said}" if said else "failed"
    if _is_rejected(commit):
        return f"was rejected: {said}" if said else "was rejected"
    if commit.promotion == PromotionState.SUPERSEDED.value and commit.is_broken:
        return "was withdrawn, as its history breaks critical expectations"
    return ""


def _said(error: object) -> str:
    """Return the first line of the reason that a commit has; empty without one."""
    if isinstance(error, dict):
        parts = (_said(error.get(name)) for name in ("reason", "detail"))
        return ": ".join(part for part in parts if part)
    if not isinstance(error, str):
        return ""
    line = error.strip().partition("\n")[0].rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


_AUDITED: Final = {
    "dataset": ("rows", "Open the audit, and correct the rows at their source."),
    "featureset": ("answers", "Open the audit, and check the datasets that the features read."),
}
"""The rows of what is audited, and what to do about broken ones."""


def broken_expectations(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the datasets and featuresets whose newest audit found expectations broken."""
    rule = rules.broken_expectation
    served = {
        (branch.name, name): what
        for branch in observations.branches
        for what, names in (
            ("dataset", [one.name for one in branch.datasets]),
            ("featureset", branch.featuresets),
        )
        for name in names
    }
    found: set[tuple[str, str]] = set()
    for audit in sorted(observations.audits, key=lambda one: not one.is_critical):
        dataset = (audit.branch, audit.dataset)
        if audit.success or dataset not in served or not rule.is_for(audit.branch):
            continue
        if dataset in found:
            # Rows that break it by arrival may do so by event time, too.
            continue
        found.add(dataset)
        result = audit.result if isinstance(audit.result, dict) else {}
        failed, rows = result.get("failed"), result.get("rows")
        kind = "critical expectations" if audit.is_critical else "expectations"
        counts = f"; {failed} are broken" if isinstance(failed, int) else ""
        what = served[dataset]
        unit, remedy = _AUDITED[what]
        span = f" of {rows} {unit}" if isinstance(rows, int) else ""
        yield AlertFinding(
            rule="broken_expectation",
            branch=audit.branch,
            subject=audit.dataset,
            severity=rule.severity if audit.is_critical else AlertSeverity.WARNING.value,
            summary=f"The newest audit{span} of {what} `{audit.dataset}` on branch "
            f"`{audit.branch}` found {kind} broken{counts}.",
            remedy=remedy,
            page="console/audits",
        )


def stale_datasets(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the datasets whose newest row is older than a bound; without rows, since they exist."""
    rule = rules.freshness
    for branch, dataset in _datasets(observations, rule):
        if dataset.feed_id is None:
            continue
        newest_us = observations.newest.get(dataset.feed_id)
        since = branch.since if newest_us is None else from_micros(newest_us)
        age = observations.now - since
        for max_age, severity, declared_by in _freshness_bounds(dataset, rules):
            if age <= max_age:
                continue
            newest = (
                f"has no rows since {since:%Y-%m-%d %H:%M:%S} UTC"
                if newest_us is None
                else f"has no row newer than {since:%Y-%m-%d %H:%M:%S} UTC"
            )
            yield AlertFinding(
                rule="freshness",
                branch=branch.name,
                subject=dataset.name,
                severity=severity,
                summary=f"Dataset `{dataset.name}` on branch `{branch.name}` {newest}, which is "
                f"older than {shown_span(max_age)}{_by(declared_by, dataset)}.",
                remedy="Check that its source sends rows, then its jobs for an error or a lag.",
                page="console/jobs",
            )


def _freshness_bounds(
    dataset: ServedDataset, rules: RuleTables
) -> Iterator[tuple[dt.timedelta, str, str]]:
    if rules.freshness.max_age is not None:
        yield rules.freshness.max_age, rules.freshness.severity, ""
    for one in dataset.bounds:
        if isinstance(one.bound, Freshness):
            max_age = dt.timedelta(microseconds=one.bound.max_age_us)
            yield max_age, one.bound.severity.value, one.declared_by


def quarantine_rates(
    observations: Observations, rules: RuleTables
) -> Iterator[AlertFinding] | None:
    """Find the datasets of which more rows are quarantined than a bound; None if unknown."""
    arrivals = observations.arrivals
    return None if arrivals is None else _quarantine_rates(observations, arrivals, rules)


def _quarantine_rates(
    observations: Observations, arrivals: Mapping[tuple[str, int], Arrivals], rules: RuleTables
) -> Iterator[AlertFinding]:
    rule = rules.quarantine_rate
    for branch, dataset in _datasets(observations, rule):
        for max_rate, window, severity, declared_by in _rate_bounds(dataset, rules):
            found = arrivals.get((dataset.log, window // dt.timedelta(microseconds=1)))
            if found is None or found.rate <= max_rate:
                continue
            yield AlertFinding(
                rule="quarantine_rate",
                branch=branch.name,
                subject=dataset.name,
                severity=severity,
                summary=f"{found.quarantined} of {found.quarantined + found.rows} rows of dataset "
                f"`{dataset.name}` on branch `{branch.name}` were quarantined within "
                f"{shown_span(window)}; the bound is {max_rate:.2%}{_by(declared_by, dataset)}.",
                remedy=f"See why with `narthex quarantine list {dataset.name}`, and correct the "
                "rows at their source.",
                page=f"console/datasets/{dataset.name}/quarantine",
            )


def _rate_bounds(
    dataset: ServedDataset, rules: RuleTables
) -> Iterator[tuple[float, dt.timedelta, str, str]]:
    rule = rules.quarantine_rate
    if rule.max_rate is not None:
        yield rule.max_rate, rule.window, rule.severity, ""
    for one in dataset.bounds:
        if isinstance(one.bound, QuarantineRate):
            window = dt.timedelta(microseconds=one.bound.window_us)
            yield one.bound.max_rate, window, one.bound.severity.value, one.declared_by


def _by(declared_by: str, dataset: ServedDataset) -> str:
    is_other = declared_by not in {"", dataset.name}
    return f", the bound of featureset `{declared_by}`" if is_other else ""


def drifted_features(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the features and columns whose newest comparison with a reference found a drift."""
    datasets = {
        (branch.name, one.name) for branch in observations.branches for one in branch.datasets
    }
    for drift in observations.drift:
        if drift.severity is None or not rules.drift.is_for(drift.branch):
            continue
        beyond = drift.metrics if isinstance(drift.metrics, dict) else {}
        names = [
            name
            for name, metric in sorted(beyond.items())
            if isinstance(metric, dict) and metric.get("severity")
        ]
        by = f" by {', '.join(names)}" if names else ""
        kind = drift.reference_kind.value.replace("_", " ")
        is_column = (drift.branch, drift.feature.partition(".")[0]) in datasets
        values = "values of column" if is_column else "answers of feature"
        yield AlertFinding(
            rule="drift",
            branch=drift.branch,
            subject=drift.feature,
            severity=drift.severity.value,
            summary=f"The {values} `{drift.feature}` on branch `{drift.branch}` from "
            f"{drift.from_at:%Y-%m-%d %H:%M} to {drift.to_at:%Y-%m-%d %H:%M} UTC drifted from "
            f"{kind} `{drift.reference}`{by}.",
            remedy="Compare it with `narthex drift`, and check its inputs before you train again.",
            page="console/drift",
        )


def lagging_jobs(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the jobs that are further behind their input than a bound."""
    rule = rules.lag
    for branch, job in _jobs(observations, rule):
        lag_ms, behind = lag_of(job), progress_of(job).get("behind")
        lag = dt.timedelta(milliseconds=lag_ms or 0)
        is_late = rule.max_age is not None and lag > rule.max_age
        is_many = (
            rule.max_records is not None and isinstance(behind, int) and behind > rule.max_records
        )
        if not (is_late or is_many):
            continue
        records = f"{behind} records" if isinstance(behind, int) else "records"
        yield AlertFinding(
            rule="lag",
            branch=branch,
            subject=job.label,
            severity=rule.severity,
            summary=f"Job `{job.label}` has {records} left to read, the oldest of which is "
            f"{shown_span(lag)} old.",
            remedy="See whether it advances; if it does, add a supervisor, otherwise read its "
            "error.",
            page="console/jobs",
        )


def jobs_down(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the jobs that have failed, or of which no supervisor has reported for a while."""
    rule = rules.job_down
    for branch, job in _jobs(observations, rule):
        reports = [shard.reported_at for shard in job.shards]
        known = [at for at in reports if at is not None]
        is_silent = len(known) == len(reports) and observations.now - min(known) > rule.silent
        if phase_of(job) is Phase.FAILED:
            what = "has failed and is retried"
            remedy = "Read its error on the page of jobs."
        elif is_silent:
            what = f"was last reported {shown_span(observations.now - min(known))} ago"
            remedy = "Check with `narthex status` that a supervisor runs."
        else:
            continue
        yield AlertFinding(
            rule="job_down",
            branch=branch,
            subject=job.label,
            severity=rule.severity,
            summary=f"Job `{job.label}` {what}.",
            remedy=remedy,
            page="console/jobs",
        )


def restarted_drivers(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the supervisors that replaced their driver more often than a bound."""
    rule = rules.job_restarts
    if not rule.is_for(""):
        return
    for supervisor, counts in observations.restarts.items():
        restarts = counts[-1][1] - counts[0][1]
        if restarts > rule.max_restarts:
            yield AlertFinding(
                rule="job_restarts",
                branch="",
                subject=supervisor,
                severity=rule.severity,
                summary=f"Supervisor `{supervisor}` replaced the driver of its jobs {restarts} "
                f"times within {shown_span(rule.window)}.",
                remedy="Read the end of the driver's log for its reason, such as memory.",
                page="console/jobs",
            )


def ending_tokens(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the tokens that end soon, or ended within a day.

    A token that lasts for a short time is only found in the last quarter of it.
    """
    rule = rules.token_expiry
    if not rule.is_for(""):
        return
    now = observations.now
    for token in observations.tokens:
        # Tokens without scopes are sessions of browsers; those of single sign-on end by design.
        if token.expires_at is None or token.revoked_at is not None or not token.scopes:
            continue
        if token.created_by == SINGLE_SIGN_ON:
            continue
        left = token.expires_at - now
        lasts = token.expires_at - (token.created_at or now)
        if -dt.timedelta(days=1) < left < min(rule.within, lasts / 4):
            verb = "ends" if left > dt.timedelta(0) else "ended"
            yield AlertFinding(
                rule="token_expiry",
                branch="",
                subject=f"{token.name} ({token.token_id})",
                severity=rule.severity,
                summary=f"Token `{token.name}` {verb} on {token.expires_at:%Y-%m-%d %H:%M} UTC.",
                remedy="Create another one with `narthex token create`, and revoke this one with "
                f"`narthex token revoke {token.token_id}` once it is not used.",
                page="console/alerts",
            )


def ending_certificates(observations: Observations, rules: RuleTables) -> Iterator[AlertFinding]:
    """Find the certificates that end soon, or have ended."""
    rule = rules.certificate_expiry
    if not rule.is_for(""):
        return
    for certificate in observations.certificates:
        left = certificate.ends_at - observations.now
        if left < rule.within:
            verb = "ends" if left > dt.timedelta(0) else "ended"
            yield AlertFinding(
                rule="certificate_expiry",
                branch="",
                subject=certificate.name,
                severity=rule.severity,
                summary=f"The certificate `{certificate.name}` {verb} on "
                f"{certificate.ends_at:%Y-%m-%d %H:%M} UTC.",
                remedy="Renew it, and replace it in its file.",
                page="console/alerts",
            )


def _datasets(
    observations: Observations, rule: RuleTable
) -> Iterator[tuple[ServedBranch, ServedDataset]]:
    """Yield the datasets of the rule's branches; one that they share, with equal bounds, once."""
    seen = set()
    for branch in observations.branches:
        for dataset in branch.datasets if rule.is_for(branch.name) else ():
            identity = dataset.log, dataset.feed_id, dataset.bounds
            if identity not in seen:
                seen.add(identity)
                yield branch, dataset


def _jobs(observations: Observations, rule: RuleTable) -> Iterator[tuple[str, RunningJob]]:
    """Yield the jobs that ought to run, each with the first of the rule's branches that has it."""
    seen: set[int] = set()
    for branch in observations.branches:
        for asset_id in sorted(branch.jobs.keys() - seen) if rule.is_for(branch.name) else ():
            job = observations.jobs.get(asset_id)
            if job is not None:
                seen.add(asset_id)
                yield branch.name, job


def shown_span(span: dt.timedelta) -> str:
    """Render a span of time with its two largest units: `2 h 5 min`."""
    seconds = max(int(span.total_seconds()), 0)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for name, length in units:
        count, seconds = divmod(seconds, length)
        parts.append((count, name))
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {name}" for count, name in parts[first : first + 2] if count) or "0 s"


_RULES: Final[Mapping[str, Callable[[Observations, RuleTables], Iterable[AlertFinding] | None]]] = {
    "failed_commit": failed_commits,
    "broken_expectation": broken_expectations,
    "freshness": stale_datasets,
    "lag": lagging_jobs,
    "quarantine_rate": quarantine_rates,
    "drift": drifted_features,
    "job_down": jobs_down,
    "job_restarts": restarted_drivers,
    "token_expiry": ending_tokens,
    "certificate_expiry": ending_certificates,
}
