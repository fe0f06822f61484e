"""Quality gates: checks of new and changed datasets before readers flip to a commit.

A commit passes once the whole history of each dataset that it creates or changes has been checked
against the expectations of that dataset, and no critical one is broken. The outcomes are stored in
the ledger and never change: a commit that is broken once is rolled back. Airflow and
the recovery loop call the same method.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import attrs
import structlog

from narthex._base import Backoff, Json, Restarts, to_plain
from narthex._ir import DatasetPlan, Severity
from narthex._processes import ProcessGroup
from narthex_ledger import (
    AuditView,
    CommitKind,
    Ledger,
    LedgerError,
    ManifestView,
    PromotionState,
)
from narthex_server.errors import Conflicting
from narthex_stores import history_path

log = structlog.get_logger()

CHECKER = "narthex_expectations.gate_process"
"""The module that checks histories; it is not imported here, but run as a process."""

CHECKED_WITHIN_S = 1800.0
"""How long the check of a commit may take: a pattern of an author may never end."""

TRIES = 5
RETRIES = Backoff(first_s=2.0, greatest_s=60.0)

MARK = "NARTHEX_OPERATOR_HOME"
"""The variable by which the operator finds the processes of an installation."""


class NotChecked(Conflicting):
    """A history is not checked yet; retry."""


@attrs.frozen(kw_only=True)
class Gate:
    """A dataset that a commit creates or changes, and the location of its history."""

    plan: DatasetPlan
    history_path: str


def gates_between(
    new: ManifestView, read: ManifestView | None, *, history_dir: str
) -> tuple[Gate, ...]:
    """Return the gates of a commit, by dataset.

    They are the datasets with expectations of which readers have another history, or other
    expectations.

    Args:
        new: The manifest of the commit.
        read: The manifest that readers read; None before the first one.
        history_dir: The directory of histories.
    """
    before = {} if read is None else {plan.name: plan for plan in read.plans}
    gates = []
    for plan in sorted(new.plans, key=lambda one: one.name):
        path = f"dataset/{plan.name}/history"
        history = new.bindings.get(path)
        if history is None or not plan.expectations:
            continue
        known = before.get(plan.name)
        was = None if read is None else read.bindings.get(path)
        is_same = known is not None and known.expectations == plan.expectations
        if is_same and was is not None and was.asset_id == history.asset_id:
            continue
        location = history_path(history_dir, history.physical_name)
        gates.append(Gate(plan=plan, history_path=location))
    return tuple(gates)


@attrs.define
class _Checks:
    """The checks of one commit in this process: one runs at a time."""

    restarts: Restarts = attrs.field(factory=lambda: Restarts(RETRIES))
    error: str = ""


class QualityGates:
    """The gates of all commits; their checks run in processes, one commit at a time."""

    def __init__(self, *, ledger: Ledger, history_dir: str, expectations_dir: Path) -> None:
        """Prepare; nothing runs before the first call of `outcomes`.

        Args:
            ledger: The ledger.
            history_dir: The directory of histories.
            expectations_dir: The Data Context that stores the validation results.
        """
        self._ledger = ledger
        self._history_dir = history_dir
        self._expectations_dir = expectations_dir
        self._running: UUID | None = None
        self._checks: dict[UUID, _Checks] = {}
        self._lock = threading.Lock()

    def of_commit(self, commit_id: UUID) -> tuple[Gate, ...]:
        """Return the gates of a commit; a rollback or a clone has none."""
        view = self._ledger.commits.get(commit_id)
        if view.kind != CommitKind.DEPLOY or view.manifest_id is None:
            return ()
        serving = self._ledger.manifests.serving(view.branch_id)
        return gates_between(
            self._ledger.manifests.get(view.manifest_id),
            None if serving is None else serving.manifest,
            history_dir=self._history_dir,
        )

    def outcomes(self, commit_id: UUID) -> tuple[AuditView, ...]:
        """Return the outcomes of all gates of a commit whose jobs have caught up.

        The first call starts their checks, which a later call finds done.

        Raises:
            NotChecked: A history is not checked yet; the message says why.
        """
        gates = self.of_commit(commit_id)
        found = self._ledger.audits.gates(commit_id)
        known = {outcome.dataset for outcome in found}
        missing = [gate for gate in gates if gate.plan.name not in known]
        if not missing:
            self._checks.pop(commit_id, None)
            return found
        raise NotChecked(self._start(commit_id, missing))

    def datasets(self, commit_id: UUID) -> list[str]:
        """Return the datasets that are to be checked, or were; all that were after the end."""
        view = self._ledger.commits.get(commit_id)
        known = {outcome.dataset for outcome in self._ledger.audits.gates(commit_id)}
        if view.promotion in {None, PromotionState.PENDING}:
            known |= {gate.plan.name for gate in self.of_commit(commit_id)}
        return sorted(known)

    def error_of(self, commit_id: UUID) -> str:
        """Return why the last check of a commit failed; empty if none has."""
        checks = self._checks.get(commit_id)
        return checks.error if checks else ""

    def _start(self, commit_id: UUID, gates: Sequence[Gate]) -> str:
        names = ", ".join(f"`{gate.plan.name}`" for gate in gates)
        with self._lock:
            if self._running == commit_id:
                return f"the history of {names} is being checked"
            if self._running is not None:
                return f"{names} is checked after commit {self._running}"
            checks = self._checks.setdefault(commit_id, _Checks())
            if not checks.restarts.is_due:
                return f"the check of {names} failed and is retried: {checks.error}"
            self._running = commit_id
        self._begin(commit_id, gates, checks)
        return f"the check of the history of {names} was started"

    def _begin(self, commit_id: UUID, gates: Sequence[Gate], checks: _Checks) -> None:
        threading.Thread(
            target=self._check, args=(commit_id, gates, checks), name="quality-gates", daemon=True
        ).start()

    def _check(self, commit_id: UUID, gates: Sequence[Gate], checks: _Checks) -> None:
        try:
            self._run(commit_id, gates, checks)
        except (LedgerError, OSError) as error:
            checks.error = str(error)
            checks.restarts.failed()
            log.warning("quality_check_failed", commit_id=str(commit_id), error=str(error))
        finally:
            with self._lock:
                self._running = None

    def _run(self, commit_id: UUID, gates: Sequence[Gate], checks: _Checks) -> None:
        view = self._ledger.commits.get(commit_id)
        branch = self._ledger.branches.get_by_id(view.branch_id).name
        output, ending = self._output_of(commit_id, branch, gates)
        missing = {gate.plan.name: gate for gate in gates}
        errors: dict[str, str] = {}
        for outcome in _read(output, commit_id, branch):
            if isinstance(outcome, AuditView):
                self._ledger.audits.record(outcome)
                missing.pop(outcome.dataset, None)
            else:
                dataset, errors[dataset] = outcome
        if not missing:
            return
        checks.restarts.failed()
        checks.error = next(iter(errors.values()), ending)
        log.warning("quality_check_failed", commit_id=str(commit_id), error=checks.error)
        if ending == _TOO_LONG:
            # The histories before it are checked, and those after it have not begun.
            self._give_up(commit_id, branch, next(iter(missing.values())).plan, ending)
        elif checks.restarts.failures >= TRIES:
            for name, gate in missing.items():
                self._give_up(commit_id, branch, gate.plan, errors.get(name, ending))

    def _output_of(self, commit_id: UUID, branch: str, gates: Sequence[Gate]) -> tuple[str, str]:
        """Run the checks of histories; return what the process printed, and how it ended."""
        return _run_checks(
            {
                "commit_id": str(commit_id),
                "branch": branch,
                "data_context": str(self._expectations_dir),
                "datasets": [
                    {"plan": to_plain(gate.plan), "history_path": gate.history_path}
                    for gate in gates
                ],
            }
        )

    def _give_up(self, commit_id: UUID, branch: str, plan: DatasetPlan, error: str) -> None:
        self._ledger.audits.record(unchecked(commit_id, branch, plan, error))


_TOO_LONG = f"the check took more than {CHECKED_WITHIN_S:.0f} s"


def _run_checks(asked: Json) -> tuple[str, str]:
    process = ProcessGroup.start(
        [sys.executable, "-m", CHECKER],
        environment=_environment(),
        has_pipes=True,
    )
    try:
        output, _ = process.popen.communicate(json.dumps(asked).encode(), timeout=CHECKED_WITHIN_S)
    except subprocess.TimeoutExpired as late:
        return (late.output or b"").decode(), _TOO_LONG
    finally:
        ending = process.ending
        process.kill()
    return output.decode(), f"the check {ending}"


def _environment() -> dict[str, str]:
    """Return the environment without the platform's own secrets: authors write the patterns."""
    return {
        name: value
        for name, value in os.environ.items()
        if name == MARK or not name.startswith("NARTHEX_")
    }


def _read(output: str, commit_id: UUID, branch: str) -> Iterator[AuditView | tuple[str, str]]:
    """Yield the outcome of each line of the process, or a dataset with its error."""
    for line in output.splitlines():
        try:
            found: Json = json.loads(line)
        except ValueError:
            # The process was ended while it printed.
            continue
        match found:
            case {"dataset": str(dataset), "error": str(error)}:
                yield dataset, error
            case {
                "dataset": str(dataset),
                "success": bool(success),
                "is_critical": bool(is_critical),
                "result": dict(result),
                "examples": list(examples),
            }:
                yield AuditView(
                    audit_id=_id_of(commit_id, dataset),
                    commit_id=commit_id,
                    dataset=dataset,
                    branch=branch,
                    from_us=None,
                    to_us=None,
                    result=result,
                    success=success,
                    is_critical=is_critical,
                    examples=examples,
                )
            case _:
                continue


def unchecked(commit_id: UUID, branch: str, plan: DatasetPlan, error: str) -> AuditView:
    """Return the outcome of a gate that could not be checked: each expectation is broken."""
    return AuditView(
        audit_id=_id_of(commit_id, plan.name),
        commit_id=commit_id,
        dataset=plan.name,
        branch=branch,
        from_us=None,
        to_us=None,
        success=False,
        is_critical=any(one.severity is Severity.CRITICAL for one in plan.expectations),
        result={
            "dataset": plan.name,
            "version": plan.version,
            "rows": None,
            "success": False,
            "failed": len(plan.expectations),
            "expectations": [
                {
                    "kind": one.kind,
                    "arguments": json.loads(json.dumps(dict(one.arguments))),
                    "mostly": one.mostly,
                    "severity": one.severity.value,
                    "success": False,
                    "error": error,
                }
                for one in plan.expectations
            ],
        },
    )


def _id_of(commit_id: UUID, dataset: str) -> UUID:
    """Return the id of a gate's outcome: the same when it is checked again."""
    digest = hashlib.sha256(f"gate {commit_id} {dataset}".encode()).digest()
    return UUID(bytes=digest[:16], version=4)
