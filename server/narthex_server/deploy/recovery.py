"""The recovery loop: every accepted commit ends, whether or not Airflow is running.

A commit is offered to Airflow. If its run is absent, or no step was taken for a while, this loop
takes the same steps; they are idempotent, so both may take them. It also ends aborted commits by
destroying what they created, and releases nothing else.
"""

import datetime as dt
import hashlib
import os
import sys
from uuid import UUID

import attrs
import structlog

from narthex._base import Backoff, Restarts
from narthex._processes import ProcessGroup
from narthex.settings import Settings, environment_of
from narthex_ledger import (
    ApprovalView,
    BranchRequest,
    CommitKind,
    CommitState,
    CommitView,
    Contended,
    Ledger,
    LedgerError,
    LedgerRefused,
    NotReady,
    PromotionState,
    QualityBroken,
)
from narthex_server.background_loop import BackgroundLoop
from narthex_server.deploy.airflow_client import Airflow
from narthex_server.deploy.airflow_runs import AirflowRuns
from narthex_server.deploy.auditor import Auditor
from narthex_server.deploy.commit_traces import tracing_commit
from narthex_server.deploy.driver_backfills import is_in_driver
from narthex_server.deploy.executor import Executor, StepDeferred, StepImpossible
from narthex_server.deploy.garbage_collector import Collector
from narthex_server.deploy.offline_files import delete_expired, delete_unnamed
from narthex_server.errors import Conflicting

log = structlog.get_logger()

LOOK_EVERY_S = 1.0
SWEEP_EVERY_S = 10.0
AUDIT_EVERY_S = 600.0
BACKFILLS = Backoff(first_s=20.0, greatest_s=300.0)
STOPS_S = 10.0
FORGET_EVERY_S = 3600.0
CALLS_KEPT = dt.timedelta(days=7)
"""How long the idempotency key of a webhook's call is remembered."""
EXAMPLES_KEPT = dt.timedelta(days=7)
"""How long the keys of rows that break an expectation are kept."""
SUMMARIES_KEPT = dt.timedelta(days=31)
"""How long summaries of features and results of drift are kept: as long as logged queries."""


@attrs.define
class _BackfillRuns:
    """The bounded runs of a commit that this process started, one at a time."""

    process: ProcessGroup | None = None
    restarts: Restarts = attrs.field(factory=lambda: Restarts(BACKFILLS))


class Recovery:
    """Watches all commits that have not ended."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        executor: Executor,
        collector: Collector,
        auditor: Auditor,
        airflow: Airflow,
        settings: Settings,
    ) -> None:
        """Prepare the loop; `start` begins the work."""
        self._ledger = ledger
        self._executor = executor
        self._collector = collector
        self._auditor = auditor
        self.runs = AirflowRuns(airflow)
        self._settings = settings
        self._noticed: set[UUID] = set()
        self._backfills: dict[UUID, _BackfillRuns] = {}
        self._swept = -SWEEP_EVERY_S
        self._forgot = collector.clock()
        self._rounds = BackgroundLoop(
            self.look,
            name="recovery",
            event="recovery_round_failed",
            pause_s=lambda: LOOK_EVERY_S,
        )
        self._audits = BackgroundLoop(
            self._audit, name="auditor", event="stores_not_audited", pause_s=lambda: AUDIT_EVERY_S
        )

    def start(self) -> None:
        """Run in threads of its own until `stop`: audits wait for stores, commits do not."""
        self._rounds.start()
        if self.runs.there:
            self.runs.start()
        self._audits.start()

    def stop(self) -> None:
        """Stop after the step that is being taken."""
        self._audits.ask_to_stop()
        self.runs.ask_to_stop()
        self._rounds.stop(within_s=STOPS_S)
        for runs in self._backfills.values():
            if runs.process is not None:
                runs.process.popen.poll()

    def notice(self, commit_id: UUID) -> None:
        """Note that a commit has work to do, and wake the loop."""
        self._noticed.add(commit_id)
        self._rounds.wake()

    def driven(self, commit_id: UUID) -> None:
        """Note that a step of the commit was taken just now."""
        self.runs.step_taken(commit_id)

    def roll_back(self, commit_id: UUID) -> str:
        """Undo and end a failed commit; a commit whose readers have flipped is left as it is.

        Raises:
            StepDeferred: An asset that the commit created is not destroyed yet.
        """
        view = self._ledger.commits.get(commit_id)
        if view.state in {CommitState.FINALIZED, CommitState.REJECTED, CommitState.ABORTED}:
            return view.state.value
        if view.state is CommitState.COMMITTED:
            return self._revert(view)
        state = self._executor.abort(commit_id, view.error or "the run failed")
        if state is CommitState.ABORTING:
            self._collector.collect(commit_id)
            state = self._ledger.commits.aborted(commit_id)
        if state is CommitState.ABORTING:
            raise StepDeferred(f"commit {commit_id} is being undone")
        return state.value

    def _revert(self, view: CommitView) -> str:
        """Redeploy the commit that readers read, if not flipped; release what this one created."""
        commit_id = view.commit_id
        digest = hashlib.sha256(f"withdraw {commit_id}".encode())
        branch = self._ledger.branches.get_by_id(view.branch_id)
        done = self._ledger.branches.revert(
            BranchRequest(
                commit_id=UUID(bytes=digest.digest()[:16], version=4),
                tenant=view.tenant_id,
                name=branch.name,
                idempotency_key=f"withdraw-{commit_id}",
                request_sha256=digest.digest(),
                actor="platform",
                message=f"withdraw {commit_id}: it did not reach its readers",
            ),
            commit_id,
        )
        if done is not None and not done.is_served:
            self.notice(done.commit_id)
        if self._ledger.commits.get(commit_id).promotion is PromotionState.SUPERSEDED:
            self._executor.promote(commit_id)
        return self._ledger.commits.get(commit_id).state.value

    def reject(self, view: CommitView, *, actor: str, reason: str) -> None:
        """Revert a commit that waits for an approval, because a person rejects it.

        Readers stay on what they read. Airflow's question, if it asks one, is answered so too.

        Raises:
            WrongState: The commit does not wait for an approval, or has one.
            CommitInProgress: Another commit is in flight on the branch.
        """
        commit_id = view.commit_id
        # One of this person with this reason can be repeated; any other finds it rejected.
        digest = hashlib.sha256(f"reject {commit_id}\n{actor}\n{reason}".encode())
        done = self._ledger.branches.reject(
            BranchRequest(
                commit_id=UUID(bytes=digest.digest()[:16], version=4),
                tenant=view.tenant_id,
                name=self._ledger.branches.get_by_id(view.branch_id).name,
                idempotency_key=f"reject-{digest.hexdigest()}",
                request_sha256=digest.digest(),
                actor=actor,
                message=f"reject {commit_id}" + (f": {reason}" if reason else ""),
            ),
            commit_id,
            reason=reason,
        )
        if self.runs.there and view.kind == CommitKind.DEPLOY:
            self.runs.rejected(view)
        if not done.is_served:
            self.notice(done.commit_id)
        self.notice(commit_id)

    def look(self) -> None:
        """Run one round: advance every commit, and collect unpinned assets."""
        try:
            self._sweep()
            # Commits begun by this process stay noticed: its own claim hides them from `claimable`.
            self._noticed.update(self._ledger.commits.claimable())
            # Iterate over a copy: other threads add commits meanwhile.
            unended = [self._ledger.commits.get(commit_id) for commit_id in tuple(self._noticed)]
            for finished in [v.commit_id for v in unended if v.finished_at is not None]:
                self._noticed.discard(finished)
                self.runs.ended(finished)
            self._collector.collect(None)
            self._forget()
        except LedgerError as error:
            log.warning("ledger_unreachable", error=str(error))
            return
        for view in sorted(unended, key=lambda v: (v.accepted_at, v.commit_id)):
            self._look_after(view)

    def _audit(self) -> None:
        self._auditor.audit()
        now, settings = dt.datetime.now(dt.UTC), self._settings
        delete_expired(settings.offline_dir, self._ledger, now=now)
        delete_unnamed(settings.training_sets_dir, self._ledger, now=now)
        self._collector.delete_snapshots()
        self._executor.environments.remove_unused(self._ledger, now=now)

    def _sweep(self) -> None:
        now = self._collector.clock()
        if now - self._swept >= SWEEP_EVERY_S:
            self._collector.sweep()
            self._swept = now

    def _forget(self) -> None:
        now = self._collector.clock()
        if now - self._forgot > FORGET_EVERY_S:
            self._ledger.webhook_calls.forget(older_than=CALLS_KEPT)
            self._ledger.audits.forget_examples(older_than=EXAMPLES_KEPT)
            self._ledger.value_diffs.forget_examples(older_than=EXAMPLES_KEPT)
            self._ledger.feature_summaries.forget(older_than=SUMMARIES_KEPT)
            self._forgot = now

    def look_after(self, commit_id: UUID) -> None:
        """Take the next steps of one commit now, if they are this loop's to take."""
        self._look_after(self._ledger.commits.get(commit_id))

    def _look_after(self, view: CommitView) -> None:
        if view.finished_at is not None:
            return
        try:
            with tracing_commit(self._executor.tracing, view):
                self._take_steps(view)
        except (Conflicting, StepImpossible, LedgerRefused, NotReady, Contended) as waiting:
            log.info("commit_blocked", commit_id=str(view.commit_id), why=str(waiting))
        except LedgerError as error:
            log.warning("commit_step_failed", commit_id=str(view.commit_id), error=str(error))
        except Exception:  # the other commits do not wait for this one
            log.exception("commit_step_failed", commit_id=str(view.commit_id))

    def _take_steps(self, view: CommitView) -> None:
        if _must_be_undone(view):
            self.roll_back(view.commit_id)
        elif view.promotion is PromotionState.SUPERSEDED:
            # Readers move to a later commit; there is nothing to sequence.
            self._executor.promote(view.commit_id)
        elif self._is_airflows(view, approval := self._ledger.promotions.approval(view.commit_id)):
            if approval.is_needed and approval.approved_by is not None:
                self._promote(view.commit_id)
        else:
            self._drive(view)

    def _is_airflows(self, view: CommitView, approval: ApprovalView) -> bool:
        """Return whether Airflow drives the commit; offer it if Airflow does not have it yet."""
        if not self.runs.there or view.kind != CommitKind.DEPLOY:
            return False
        if approval.is_needed and approval.approved_by is not None:
            # Airflow may still ask for an approval that a person has given elsewhere.
            self.runs.approved(view)
        elif approval.is_needed or view.state is CommitState.QUEUED:
            # A commit that needs approval is offered even if this loop took its steps so far.
            self.runs.offer(view)
        return self.runs.is_at(view)

    def _drive(self, view: CommitView) -> None:
        """Take the next steps of a commit that Airflow does not drive."""
        commit_id = view.commit_id
        executor = self._executor
        if view.state is CommitState.QUEUED:
            view = executor.plan(commit_id)
        if view.state in {CommitState.PLANNED, CommitState.APPLYING}:
            for asset in self._ledger.commits.get(commit_id).assets:
                executor.create(commit_id, asset.asset_id)
            executor.ready(commit_id)
        view = self._ledger.commits.get(commit_id)
        if view.state is CommitState.READY:
            executor.commit(commit_id)
            view = self._ledger.commits.get(commit_id)
        if view.promotion is PromotionState.SUPERSEDED:
            executor.promote(commit_id)
            return
        if executor.due_backfills(commit_id):
            self._backfill(commit_id)
        executor.backfilled(commit_id)
        self._promote(commit_id)

    def _promote(self, commit_id: UUID) -> None:
        """Let readers flip, or undo a commit whose history breaks a critical expectation."""
        try:
            self._executor.promote(commit_id)
        except QualityBroken as broken:
            log.warning("commit_broken", commit_id=str(commit_id), why=str(broken))
            self.roll_back(commit_id)

    def _backfill(self, commit_id: UUID) -> None:
        runs = self._backfills.setdefault(commit_id, _BackfillRuns())
        if runs.process is not None:
            if runs.process.is_running:
                raise StepDeferred("the backfill is running")
            runs.process = None
            runs.restarts.failed()
        if is_in_driver(commit_id, ledger=self._ledger, settings=self._settings):
            raise StepDeferred("a driver runs the backfill")
        if not runs.restarts.is_due:
            raise StepDeferred(
                f"the backfill failed {runs.restarts.failures} times; it will be retried"
            )
        given = self._settings.run_job
        program = [given] if given else ["-m", "narthex_spark_apps.jobs.bounded_run"]
        runs.process = ProcessGroup.start(
            [sys.executable, *program, "--commit", str(commit_id)],
            # The environment marks it as a process of the platform, which it must not outlive.
            environment={**os.environ, **environment_of(self._settings)},
        )
        raise StepDeferred("the backfill was started")


def _must_be_undone(view: CommitView) -> bool:
    """Return whether the commit can only be undone; never past the commit point."""
    if view.state is CommitState.COMMITTED:
        return False
    return (
        view.state is CommitState.ABORTING
        or view.cancel_requested_at is not None
        or view.past_deadline
    )
