"""The rules: what each finds, and what it leaves alone."""

import datetime as dt
from typing import Any
from uuid import UUID

import attrs
import pytest

from narthex._base import to_micros
from narthex._ir import (
    AlertSeverity,
    Freshness,
    QuarantineRate,
    Severity,
)
from narthex_ledger import (
    AlertFinding,
    AuditView,
    DriftView,
    EndedCommitView,
    Epoch,
    Phase,
    ReferenceKind,
    ShardView,
    TokenView,
)
from narthex_server.alerts.configuration import AlertsFile, RuleTables
from narthex_server.alerts.evaluator import alerts_of, merged
from narthex_server.alerts.observations import (
    Arrivals,
    Certificate,
    Observations,
    newest_rows,
    restarts_of,
    windows_of,
)
from narthex_server.alerts.rules import Evaluation, evaluate, shown_span
from narthex_server.services.served_branches import Bound, RunningJob, ServedBranch, ServedDataset
from tests.server.alerts.alert_values import HOUR, MINUTE, NOON, alert, state

COMMIT = UUID(int=7)
DAY = dt.timedelta(days=1)
FRESH = Freshness(max_age_us=600_000_000, severity=AlertSeverity.CRITICAL)
RATE = QuarantineRate(max_rate=0.01, window_us=3_600_000_000, severity=AlertSeverity.WARNING)


def observed(**parts: Any) -> Observations:
    nothing: dict[str, Any] = {
        "now": NOON,
        "branches": (),
        "jobs": {},
        "newest": {},
        "arrivals": {},
        "commits": (),
        "audits": (),
        "drift": (),
        "tokens": (),
        "certificates": (),
        "restarts": {},
    }
    return Observations(**(nothing | parts))


def found(observations: Observations, **rules: Any) -> tuple[AlertFinding, ...]:
    return evaluated(observations, **rules).findings


def evaluated(observations: Observations, **rules: Any) -> Evaluation:
    return evaluate(observations, RuleTables.model_validate(rules))


def dataset(name: str = "Orders", *bounds: Any, feed_id: int = 1, by: str = "") -> ServedDataset:
    return ServedDataset(
        name=name,
        feed_id=feed_id,
        log=f"log-{name}",
        quarantine=f"quarantine-{name}",
        bounds=tuple(Bound(bound=one, declared_by=by or name) for one in bounds),
    )


def branch(
    name: str = "main", *datasets: ServedDataset, jobs: tuple[int, ...] = ()
) -> ServedBranch:
    return ServedBranch(
        name=name,
        commit_id=COMMIT,
        since=NOON - DAY,
        datasets=datasets,
        jobs=dict.fromkeys(jobs, "Orders (history_feed)"),
    )


def job(
    *, lag_ms: int = 0, behind: int = 0, phase: Phase = Phase.RUNNING, silent: dt.timedelta = MINUTE
) -> RunningJob:
    shard = ShardView(
        shard=0,
        slot=0,
        slot_owner="one",
        slot_epoch=Epoch(1),
        seen_epoch=Epoch(1),
        seen_generation=1,
        phase=phase,
        lag_ms=lag_ms,
        caught_up_reports=0,
        progress={"behind": behind},
        backfill=None,
        reported_at=NOON - silent,
    )
    return RunningJob(label="Orders (history_feed)", shards=(shard,))


def ended(**parts: Any) -> EndedCommitView:
    ended: dict[str, Any] = {
        "commit_id": COMMIT,
        "branch": "main",
        "state": "FINALIZED",
        "promotion": "DONE",
        "error": None,
        "is_broken": False,
        "is_cancelled": False,
    }
    return EndedCommitView(**(ended | parts))


@pytest.mark.parametrize(
    ("commit", "says", "severity"),
    [
        (ended(state="ABORTED", error="no broker\nat x"), "failed: no broker.", "critical"),
        (ended(state="ABORTED", error={"a": 1}), "failed.", "critical"),
        (ended(state="ABORTING", error="no broker"), "failed: no broker.", "critical"),
        (ended(state="REJECTED", error="stale base"), "was rejected: stale base.", "warning"),
        (
            ended(state="REJECTED", error={"reason": "a", "detail": "b"}),
            "rejected: a: b.",
            "warning",
        ),
        (ended(promotion="SUPERSEDED", is_broken=True), "was withdrawn, as its", "critical"),
    ],
)
def test_a_commit_that_failed_or_was_withdrawn_is_found(
    commit: EndedCommitView, says: str, severity: str
) -> None:
    (finding,) = found(observed(commits=(commit,)))

    assert (finding.rule, finding.branch, finding.subject) == ("failed_commit", "main", str(COMMIT))
    assert says in finding.summary
    assert finding.severity == severity
    assert finding.page == f"console/commits/{COMMIT}"


@pytest.mark.parametrize(
    "commit",
    [
        ended(),
        ended(state="ABORTED", is_cancelled=True),
        ended(state="REJECTED", is_cancelled=True),
        ended(promotion="SUPERSEDED"),
        ended(state="ABORTED", branch="dev"),
    ],
)
def test_a_commit_that_a_person_or_a_newer_commit_ended_is_not_found(
    commit: EndedCommitView,
) -> None:
    assert found(observed(commits=(commit,)), failed_commit={"branches": ["main"]}) == ()


def test_a_broken_audit_of_a_dataset_that_is_read_is_found() -> None:
    broken = AuditView(
        audit_id=UUID(int=1),
        dataset="Orders",
        branch="main",
        from_us=None,
        to_us=None,
        success=False,
        is_critical=True,
        result={"rows": 5, "failed": 2},
    )
    audits = (
        broken,
        attrs.evolve(broken, dataset="Users", is_critical=False),
        # The same rows by another time are the same finding.
        attrs.evolve(broken, is_critical=False),
        attrs.evolve(broken, dataset="Spend", success=True),
        attrs.evolve(broken, dataset="Gone"),
    )
    served = branch("main", dataset("Orders"), dataset("Users"), dataset("Spend"))

    findings = found(observed(audits=audits, branches=(served,)))

    assert [(f.rule, f.subject, f.severity) for f in findings] == [
        ("broken_expectation", "Orders", "critical"),
        ("broken_expectation", "Users", "warning"),
    ]
    assert "of 5 rows" in findings[0].summary
    assert "critical expectations broken; 2 are broken" in findings[0].summary


def test_a_broken_audit_of_a_featureset_is_found() -> None:
    audit = AuditView(
        audit_id=UUID(int=1),
        dataset="Buyer",
        branch="main",
        from_us=0,
        to_us=1,
        success=False,
        is_critical=True,
        result={"rows": 5, "failed": 1, "by": "logged"},
    )
    served = attrs.evolve(branch("main", dataset("Orders")), featuresets=("Buyer",))

    (finding,) = found(observed(audits=(audit,), branches=(served,)))

    assert (finding.rule, finding.subject) == ("broken_expectation", "Buyer")
    assert finding.summary.startswith(
        "The newest audit of 5 answers of featureset `Buyer` on branch `main` found critical"
    )


def test_a_dataset_is_stale_beyond_its_bound_and_not_before() -> None:
    served = branch("main", dataset("Orders", FRESH))
    old, young = (to_micros(NOON - span) for span in (11 * MINUTE, 10 * MINUTE))

    (finding,) = found(observed(branches=(served,), newest={1: old}))

    assert (finding.rule, finding.subject, finding.severity) == ("freshness", "Orders", "critical")
    assert "has no row newer than 2026-05-01 11:49:00 UTC" in finding.summary
    assert "older than 10 min" in finding.summary
    assert found(observed(branches=(served,), newest={1: young})) == ()


def test_a_dataset_without_rows_is_stale_since_its_commit() -> None:
    served = branch("main", dataset("Orders", FRESH))

    (finding,) = found(observed(branches=(served,)))
    fresh = attrs.evolve(served, since=NOON - MINUTE)

    assert "has no rows since 2026-04-30 12:00:00 UTC" in finding.summary
    assert found(observed(branches=(fresh,))) == ()


def test_a_bound_of_the_installation_is_for_all_datasets() -> None:
    served = branch("main", dataset("Orders"), dataset("Users", feed_id=2))
    newest = {1: to_micros(NOON - 2 * HOUR), 2: to_micros(NOON)}

    (finding,) = found(observed(branches=(served,), newest=newest), freshness={"max_age": "1h"})

    assert finding.subject == "Orders"


def test_the_most_urgent_of_two_bounds_counts_and_names_its_featureset() -> None:
    mild = attrs.evolve(FRESH, severity=AlertSeverity.INFO)
    served = branch(
        "main",
        attrs.evolve(
            dataset("Orders"),
            bounds=(
                Bound(bound=mild, declared_by="Orders"),
                Bound(bound=FRESH, declared_by="Shop"),
            ),
        ),
    )

    (finding,) = found(observed(branches=(served,)))

    assert finding.severity == "critical"
    assert finding.summary.endswith("the bound of featureset `Shop`.")


def test_a_dataset_that_branches_share_is_found_once() -> None:
    shared = dataset("Orders", FRESH)
    stricter = dataset("Orders", attrs.evolve(FRESH, max_age_us=1))
    branches = (branch("main", shared), branch("dev", shared), branch("own", stricter))

    findings = found(observed(branches=branches))

    assert [finding.branch for finding in findings] == ["main", "own"]
    only_dev = found(observed(branches=branches), freshness={"branches": ["dev"]})
    assert [finding.branch for finding in only_dev] == ["dev"]


def test_a_quarantine_rate_is_of_all_rows_that_arrived() -> None:
    served = branch("main", dataset("Orders", RATE))

    def at(rows: int, quarantined: int) -> tuple[AlertFinding, ...]:
        arrived = Arrivals(rows=rows, quarantined=quarantined)
        return found(
            observed(branches=(served,), arrivals={("log-Orders", RATE.window_us): arrived})
        )

    (finding,) = at(98, 2)
    assert finding.summary.startswith("2 of 100 rows of dataset `Orders`")
    assert "within 1 h; the bound is 1.00%" in finding.summary
    assert at(99, 1) == at(0, 0) == ()


def test_without_the_broker_a_quarantine_rate_stays_as_it_was() -> None:
    outcome = evaluated(observed(arrivals=None))
    before = alert("Orders", rule="quarantine_rate")
    stored = state(alerts=(before, alert("Orders", rule="lag")))

    findings = merged(outcome.findings, stored, unknown=outcome.unknown)

    assert outcome.unknown == {"quarantine_rate"}
    assert alerts_of(findings, stored) == [before]


def test_the_windows_of_all_bounds_are_counted() -> None:
    file = AlertsFile.model_validate(
        {"rules": {"quarantine_rate": {"max_rate": 0.5, "window": "5m"}}}
    )

    assert windows_of(dataset("Orders", RATE), file) == {3_600_000_000, 300_000_000}
    assert windows_of(dataset("Orders", RATE), AlertsFile()) == {3_600_000_000}
    assert windows_of(attrs.evolve(dataset("Orders", RATE), quarantine=""), file) == frozenset()


def test_a_feature_that_drifted_is_as_urgent_as_its_worst_comparison() -> None:
    psi = {"psi": {"value": 0.3, "severity": "critical"}, "mean_shift": {"severity": None}}
    worst = DriftView(
        branch="main",
        feature="Buyer.spent",
        reference_kind=ReferenceKind.TRAINING_SET,
        reference="fraud-1",
        from_at=NOON - HOUR,
        to_at=NOON,
        rows=900,
        reference_rows=40_000,
        is_compared=True,
        severity=Severity.CRITICAL,
        metrics=psi,
    )
    mild = attrs.evolve(worst, reference="fraud-2", severity=Severity.WARNING)
    none = attrs.evolve(worst, feature="Buyer.city", severity=None)

    (finding,) = found(observed(drift=(mild, worst, none)))

    assert (finding.rule, finding.subject, finding.severity) == ("drift", "Buyer.spent", "critical")
    assert "drifted from training set `fraud-1` by psi." in finding.summary
    assert finding.summary.startswith("The answers of feature `Buyer.spent` on branch `main`")
    assert found(observed(drift=(worst,)), drift={"branches": ["dev"]}) == ()
    column = attrs.evolve(worst, feature="Orders.amount")
    (finding,) = found(observed(drift=(column,), branches=(branch("main", dataset("Orders")),)))
    assert finding.summary.startswith("The values of column `Orders.amount` on branch `main`")


def test_a_job_lags_by_the_age_of_a_record_or_by_their_number() -> None:
    served = branch("main", jobs=(1,))

    late = found(observed(branches=(served,), jobs={1: job(lag_ms=601_000, behind=7)}))
    many = found(observed(branches=(served,), jobs={1: job(behind=11)}), lag={"max_records": 10})

    (finding,) = late
    assert (finding.rule, finding.subject) == ("lag", "Orders (history_feed)")
    assert "has 7 records left to read, the oldest of which is 10 min 1 s old" in finding.summary
    assert [one.rule for one in many] == ["lag"]
    assert found(observed(branches=(served,), jobs={1: job(lag_ms=600_000)})) == ()


def test_jobs_of_no_branch_and_those_that_rest_are_left_alone() -> None:
    late = job(lag_ms=9_000_000, phase=Phase.FAILED)

    assert found(observed(jobs={1: late})) == ()
    assert found(observed(branches=(branch("main", jobs=(1,)),))) == ()


def test_a_rule_that_fails_leaves_the_others() -> None:
    broken = attrs.evolve(job(lag_ms=9_000_000), shards=None)
    served = branch("main", jobs=(1,))

    outcome = evaluated(observed(branches=(served,), jobs={1: broken}, tokens=(token(),)))

    assert outcome.unknown == {"lag", "job_down"}
    assert [finding.rule for finding in outcome.findings] == ["token_expiry"]


def test_a_job_is_down_if_it_failed_or_is_not_reported() -> None:
    served = branch("main", jobs=(1,))

    (failed,) = found(observed(branches=(served,), jobs={1: job(phase=Phase.FAILED)}))
    (silent,) = found(observed(branches=(served,), jobs={1: job(silent=3 * MINUTE)}))

    assert (failed.rule, failed.severity) == ("job_down", "critical")
    assert failed.summary == "Job `Orders (history_feed)` has failed and is retried."
    assert silent.summary == "Job `Orders (history_feed)` was last reported 3 min ago."
    assert "narthex status" in silent.remedy


def test_restarts_count_within_the_window() -> None:
    hour = dt.timedelta(hours=1)
    first = restarts_of({"a": {"restarts": 5}}, None, now=NOON, window=hour)
    plain: Any = {"a": [[at.isoformat(), count] for at, count in first["a"]]}
    second = restarts_of({"a": {"restarts": 9}}, plain, now=NOON + 30 * MINUTE, window=hour)

    (finding,) = found(observed(restarts=second))
    assert "replaced the driver of its jobs 4 times within 1 h" in finding.summary
    assert found(observed(restarts=first)) == ()
    plain = {"a": [[at.isoformat(), count] for at, count in second["a"]]}
    later = restarts_of({"a": {"restarts": 9}}, plain, now=NOON + 2 * HOUR, window=hour)
    assert found(observed(restarts=later)) == ()


def test_a_feed_that_has_just_started_keeps_its_newest_row() -> None:
    assert newest_rows({1: job()}, {"1": 5, "2": 6}) == {1: 5}


def token(**parts: Any) -> TokenView:
    made: dict[str, Any] = {
        "name": "ann",
        "token_id": "t1",
        "scopes": ("reader",),
        "created_at": NOON - 80 * DAY,
        "expires_at": NOON + 6 * DAY,
    }
    return TokenView(**(made | parts))


def test_a_token_that_ends_soon_is_found() -> None:
    (finding,) = found(observed(tokens=(token(),)))

    assert (finding.rule, finding.branch, finding.subject) == ("token_expiry", "", "ann (t1)")
    assert finding.summary == "Token `ann` ends on 2026-05-07 12:00 UTC."
    assert "narthex token revoke t1" in finding.remedy


@pytest.mark.parametrize(
    "parts",
    [
        {"expires_at": NOON + 8 * DAY},
        {"expires_at": None},
        {"revoked_at": NOON},
        {"scopes": ()},
        {"expires_at": NOON - 2 * DAY},
        {"created_at": NOON, "expires_at": NOON + DAY},
        {"created_by": "single sign-on"},
    ],
)
def test_tokens_that_last_or_are_not_used_are_left_alone(parts: dict[str, Any]) -> None:
    assert found(observed(tokens=(token(**parts),))) == ()


def test_a_certificate_that_ends_soon_is_found() -> None:
    certificates = (
        Certificate(name="a.pem: CN=a", ends_at=NOON + 29 * DAY),
        Certificate(name="b.pem: CN=b", ends_at=NOON + 31 * DAY),
        Certificate(name="c.pem: CN=c", ends_at=NOON - DAY),
    )

    findings = found(observed(certificates=certificates))

    assert [finding.subject for finding in findings] == ["a.pem: CN=a", "c.pem: CN=c"]
    assert "ended on 2026-04-30" in findings[1].summary


def test_a_rule_can_be_switched_off() -> None:
    off = {"enabled": False}

    assert found(observed(tokens=(token(),)), token_expiry=off) == ()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59, "59 s"), (3600, "1 h"), (3_725, "1 h 2 min"), (90_000, "1 d 1 h")],
)
def test_a_span_is_shown_by_its_two_largest_units(seconds: int, shown: str) -> None:
    assert shown_span(dt.timedelta(seconds=seconds)) == shown
