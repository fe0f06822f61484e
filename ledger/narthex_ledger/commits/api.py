"""The part of the ledger's API for the deployment core: a commit from request to end."""

import hashlib
from uuid import UUID

from narthex._base import Json
from narthex._ir import Blueprint
from narthex_ledger.commits import creation, ending, planning, promotion
from narthex_ledger.commits.planning import NameOf, PlanRequest
from narthex_ledger.db.statements import commits as on_commits
from narthex_ledger.engines import job_registry
from narthex_ledger.errors import CommitRejected
from narthex_ledger.model.plans import CommitPlan
from narthex_ledger.model.states import CommitState
from narthex_ledger.model.views import (
    Accepted,
    CommitRequest,
    Fence,
    IntentOutcome,
    JobEvidence,
    Readiness,
    Replayed,
)
from narthex_ledger.requests import commit_requests
from narthex_ledger.session import LedgerDatabase
from narthex_ledger.signing.signatures import commit_statement


class CommitApi(LedgerDatabase):
    """The API of commits; each method is one transaction and may be repeated as it is."""

    def accept(self, request: CommitRequest) -> Accepted | Replayed:
        """T0: queue a commit; the bundle is stored by content in the same transaction.

        Raises:
            IdempotencyKeyReused: The key was used with another request before.
            NotFound: The tenant has no active branch of that id.
        """
        digest = hashlib.sha256(request.bundle).digest()
        signature = self._attest(
            commit_statement(request.tenant, request.branch, request.commit_id, digest)
        )
        return self._run("accept", lambda c: commit_requests.accept(c, request, digest, signature))

    def claim(self, commit_id: UUID, owner: str) -> Fence:
        """Lease a commit for 30 s, to execute it; `owner` names one run of one process.

        The fence grows when the owner changes. While its lease lasts, the same owner gets the same
        fence again, so its threads may share it.

        Raises:
            LeaseHeld: Another owner's lease has not expired.
            WrongState: The commit has ended.
        """
        lease_s = self._rules.commit_lease_s
        return self._run("claim", lambda c: commit_requests.claim(c, commit_id, owner, lease_s))

    def renew(self, commit_id: UUID, fence: Fence) -> None:
        """Extend a claim, every 10 s or so; trust it until 25 s after the call *began*.

        Raises:
            Fenced: The lease expired or another executor took over; stop at once.
        """
        lease_s = self._rules.commit_lease_s
        self._run("renew", lambda c: commit_requests.renew(c, commit_id, fence, lease_s))

    def release(self, commit_id: UUID, fence: Fence) -> None:
        """Release a claim; with an old fence this changes nothing."""
        self._run("release", lambda c: on_commits.end_lease(c, commit_id, fence))

    def claimable(self, limit: int = 20) -> tuple[UUID, ...]:
        """List commits with work to do and no live lease, the oldest first."""
        return self._run("claimable", lambda c: on_commits.free_commits(c, limit))

    def unended(self, limit: int = 100) -> tuple[UUID, ...]:
        """List commits that have not ended, leased or not, the oldest first."""
        return self._run("unended", lambda c: on_commits.unended_commits(c, limit))

    def plan(
        self,
        commit_id: UUID,
        fence: Fence,
        *,
        blueprint: Blueprint,
        name_of: NameOf,
        content: Json = None,
    ) -> CommitPlan:
        """T1: decide which assets to create and share, and reserve them; QUEUED to PLANNED.

        `content` is kept in the manifest for readers. A second call returns the stored plan.

        Raises:
            CommitRejected: `stale_base`, `plan_changed`, `would_backfill`, `quarantined` or
                `branch_deleted`; nothing is reserved and the commit is REJECTED.
            CommitInProgress: The branch has another commit in flight; this one stays QUEUED.
            Fenced: Another executor took over.
        """
        plan_request = PlanRequest(
            blueprint=blueprint, content=content, name_of=name_of, attest=self._attest
        )
        made = self._run("plan", lambda c: planning.plan(c, commit_id, fence, plan_request))
        if isinstance(made, CommitRejected):
            raise made
        return made

    def preview(
        self,
        request: CommitRequest,
        *,
        blueprint: Blueprint,
        name_of: NameOf,
        content: Json = None,
    ) -> CommitPlan:
        """Plan the request on the current head and change nothing: the same code, rolled back.

        Raises:
            CommitRejected: As `plan` would.
        """
        plan_request = PlanRequest(
            blueprint=blueprint, content=content, name_of=name_of, attest=self._attest
        )
        return self._transactions.dry_run(
            "preview", lambda c: planning.preview(c, request, plan_request)
        )

    def intend(
        self, asset_id: int, commit_id: UUID, fence: Fence, *, call_timeout_s: float
    ) -> IntentOutcome:
        """Ta: record the intent before each call of a store's `create`; return how to proceed.

        Raises:
            Fenced: Another executor took over; make no call.
            WrongState: The asset can't be created from its current state.
        """
        return self._run(
            "intend",
            lambda c: creation.intend(
                c, asset_id, commit_id, fence, call_timeout_s, checker=self._checker
            ),
        )

    def created(self, asset_id: int, commit_id: UUID, fence: Fence, *, external_id: str) -> None:
        """Td: record the creation, only after a probe matched; `external_id` is the probe's.

        Raises:
            Fenced: Another executor took over.
            WrongState: The asset has no intent, or another commit creates it.
        """
        self._run("created", lambda c: creation.created(c, asset_id, commit_id, fence, external_id))

    def create_row_asset(self, asset_id: int, commit_id: UUID, fence: Fence) -> IntentOutcome:
        """Create an asset of `states.ROW_KINDS` in one transaction: AlreadyLive or Waiting.

        Jobs begin stopped, at generation 1.
        """
        return self._run(
            "create_row_asset",
            lambda c: creation.create_row_asset(c, asset_id, commit_id, fence, self._rules),
        )

    def create_failed(self, asset_id: int, commit_id: UUID, fence: Fence, *, error: Json) -> None:
        """Store the error of a call or a probe, for people; the intent stays."""
        self._run("create_failed", lambda c: creation.fail(c, asset_id, commit_id, fence, error))

    def quarantine(self, asset_id: int, commit_id: UUID, fence: Fence, *, difference: Json) -> None:
        """Quarantine an asset whose probe returned a mismatch; then abort the commit."""
        self._run(
            "quarantine",
            lambda c: creation.quarantine(c, asset_id, commit_id, fence, difference),
        )

    def ready(self, commit_id: UUID, fence: Fence) -> None:
        """T_ready: all bound assets are live; APPLYING to READY.

        Raises:
            NotReady: Some assets are not live; `detail` lists their ids.
        """
        self._run("ready", lambda c: creation.ready(c, commit_id, fence))

    def commit_point(self, commit_id: UUID, fence: Fence) -> int:
        """T_commit: move the head and start feeds; return the commit's number on the branch.

        After a lost answer it reads, under the row's lock, whether the change happened.

        Raises:
            CommitCancelled: A cancel came first; abort.
            OutcomeUnknown: The database did not answer; call again, and don't abort before that.
        """
        return self._run("commit_point", lambda c: ending.commit(c, commit_id, fence, self._rules))

    def start_jobs(self, commit_id: UUID, fence: Fence) -> tuple[int, ...]:
        """Run every unbounded job live, after the backfill; return the started jobs.

        Raises:
            NotReady: Some jobs are not backfilled; `detail` lists their ids.
        """
        return self._run("start_jobs", lambda c: job_registry.start_jobs(c, commit_id, fence))

    def readiness(self, commit_id: UUID) -> Readiness:
        """Judge all jobs of a commit at one moment; return the evidence for `promote`."""
        return self._run("readiness", lambda c: promotion.readiness(c, commit_id, self._rules))

    def approve(self, commit_id: UUID, *, actor: str) -> None:
        """Approve the promotion of a commit with policy MANUAL."""
        self._run("approve", lambda c: promotion.approve(c, commit_id, actor))

    def promote(self, commit_id: UUID, fence: Fence, *, evidence: tuple[JobEvidence, ...]) -> int:
        """T_promote: flip readers to the commit; return the number that they see.

        Raises:
            NotReady: A job is not ready, or its current evidence differs from the given one.
            WrongState: A later commit took over.
        """
        return self._run(
            "promote",
            lambda c: promotion.promote(c, commit_id, fence, evidence, self._rules),
        )

    def finalize(self, commit_id: UUID, fence: Fence) -> None:
        """Move a commit from COMMITTED to FINALIZED, after the promotion is done or superseded.

        Raises:
            NotReady: The promotion is pending.
        """
        self._run("finalize", lambda c: ending.finalize(c, commit_id, fence))

    def cancel(self, commit_id: UUID, *, actor: str) -> CommitState:
        """Request the cancellation of a commit; its executor then aborts it.

        A commit that is still QUEUED is REJECTED at once.

        Raises:
            AlreadyCommitted: The commit point came first.
        """
        return self._run("cancel", lambda c: commit_requests.cancel(c, commit_id, actor))

    def abort(self, commit_id: UUID, *, error: Json, actor: str) -> CommitState:
        """T_abort and T_unref: abort the commit and release its assets.

        The commit becomes ABORTING, or REJECTED from QUEUED; an ended commit does not change. Then
        the collector destroys its assets, and `aborted` ends it.

        Raises:
            AlreadyCommitted: The commit point came first.
        """
        return self._run("abort", lambda c: ending.abort(c, commit_id, error=error, actor=actor))

    def aborted(self, commit_id: UUID) -> CommitState:
        """T_aborted: ABORTED once no asset of the commit is left; ABORTING until then."""
        return self._run("aborted", lambda c: ending.aborted(c, commit_id))
