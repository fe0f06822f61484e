"""The part of the front door that the deployment core uses: a commit from request to end."""

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
    """Each method is one transaction and may be called again with the same arguments."""

    def accept(self, request: CommitRequest) -> Accepted | Replayed:
        """T0: queue a commit; the bundle is stored by content in the same transaction.

        Raises:
            IdempotencyKeyReused: The key came with another request before.
            NotFound: The branch is not an active one of the tenant.
        """
        digest = hashlib.sha256(request.bundle).digest()
        signature = self._attest(
            commit_statement(request.tenant, request.branch, request.commit_id, digest)
        )
        return self._run("accept", lambda c: commit_requests.accept(c, request, digest, signature))

    def claim(self, commit_id: UUID, owner: str) -> Fence:
        """Take a commit for 30 s, to drive it; `owner` names one life of one process.

        The fence grows when the owner changes; the same owner, while its lease lasts, gets the
        same fence again, so its threads may share it.

        Raises:
            LeaseHeld: Another owner's lease has not expired.
            WrongState: The commit has ended.
        """
        lease_s = self._rules.commit_lease_s
        return self._run("claim", lambda c: commit_requests.claim(c, commit_id, owner, lease_s))

    def renew(self, commit_id: UUID, fence: Fence) -> None:
        """Extend a claim, each 10 s or so; trust it until 25 s after the call *began*.

        Raises:
            Fenced: The lease expired or somebody took over; stop at once.
        """
        lease_s = self._rules.commit_lease_s
        self._run("renew", lambda c: commit_requests.renew(c, commit_id, fence, lease_s))

    def release(self, commit_id: UUID, fence: Fence) -> None:
        """Release a claim; with an old fence this changes nothing."""
        self._run("release", lambda c: on_commits.end_lease(c, commit_id, fence))

    def claimable(self, limit: int = 20) -> tuple[UUID, ...]:
        """List commits with work to do and nobody at it, the oldest first."""
        return self._run("claimable", lambda c: on_commits.free_commits(c, limit))

    def unended(self, limit: int = 100) -> tuple[UUID, ...]:
        """List commits that have not ended, held or not, the oldest first."""
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
        """T1: decide what is created and shared, and reserve it; QUEUED to PLANNED.

        `content` is kept in the manifest for readers. A second call gives the stored plan.

        Raises:
            CommitRejected: `stale_base`, `plan_changed`, `would_backfill`, `quarantined` or
                `branch_deleted`; nothing is reserved and the commit is REJECTED.
            CommitInProgress: The branch has another one in flight; this stays QUEUED.
            Fenced: Somebody took over.
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
        """Plan the request on the present head and change nothing: the same code, rolled back.

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
        """Ta: before each call of a store's `create`. Go, or nothing to do, or come again.

        Raises:
            Fenced: Somebody took over; make no call.
            WrongState: The asset can't be created from the state that it is in.
        """
        return self._run(
            "intend",
            lambda c: creation.intend(
                c, asset_id, commit_id, fence, call_timeout_s, checker=self._checker
            ),
        )

    def created(self, asset_id: int, commit_id: UUID, fence: Fence, *, external_id: str) -> None:
        """Td: only after a probe matched; `external_id` is the probe's.

        Raises:
            Fenced: Somebody took over.
            WrongState: There was no intent, or another commit creates it.
        """
        self._run("created", lambda c: creation.created(c, asset_id, commit_id, fence, external_id))

    def create_row_asset(self, asset_id: int, commit_id: UUID, fence: Fence) -> IntentOutcome:
        """Make an asset of `states.ROW_KINDS` in one transaction: AlreadyLive or Waiting.

        Jobs begin stopped, at generation 1.
        """
        return self._run(
            "create_row_asset",
            lambda c: creation.create_row_asset(c, asset_id, commit_id, fence, self._rules),
        )

    def create_failed(self, asset_id: int, commit_id: UUID, fence: Fence, *, error: Json) -> None:
        """Keep what a call or a probe said, for people; the intent stays."""
        self._run("create_failed", lambda c: creation.fail(c, asset_id, commit_id, fence, error))

    def quarantine(self, asset_id: int, commit_id: UUID, fence: Fence, *, difference: Json) -> None:
        """Set aside an asset whose probe said MISMATCH; then abort the commit."""
        self._run(
            "quarantine",
            lambda c: creation.quarantine(c, asset_id, commit_id, fence, difference),
        )

    def ready(self, commit_id: UUID, fence: Fence) -> None:
        """T_ready: all bound assets are live; APPLYING to READY.

        Raises:
            NotReady: Some are not; `detail` lists their ids.
        """
        self._run("ready", lambda c: creation.ready(c, commit_id, fence))

    def commit_point(self, commit_id: UUID, fence: Fence) -> int:
        """T_commit: the head moves and feeds start; gives the commit's number on the branch.

        After a lost answer it reads, under the row's lock, whether the change happened.

        Raises:
            CommitCancelled: A cancel came first; abort.
            OutcomeUnknown: The database could not be asked; call again, never abort unread.
        """
        return self._run("commit_point", lambda c: ending.commit(c, commit_id, fence, self._rules))

    def start_jobs(self, commit_id: UUID, fence: Fence) -> tuple[int, ...]:
        """After the backfill: run every unbounded job live; gives those that it started.

        Raises:
            NotReady: Some are not backfilled; `detail` lists their ids.
        """
        return self._run("start_jobs", lambda c: job_registry.start_jobs(c, commit_id, fence))

    def readiness(self, commit_id: UUID) -> Readiness:
        """Judge all jobs of a commit at one moment; return the evidence to `promote`."""
        return self._run("readiness", lambda c: promotion.readiness(c, commit_id, self._rules))

    def approve(self, commit_id: UUID, *, actor: str) -> None:
        """Let a commit with policy MANUAL be promoted."""
        self._run("approve", lambda c: promotion.approve(c, commit_id, actor))

    def promote(self, commit_id: UUID, fence: Fence, *, evidence: tuple[JobEvidence, ...]) -> int:
        """T_promote: readers flip to the commit; gives the number that they see.

        Raises:
            NotReady: A job is not ready, or is so for other reasons than the evidence says.
            WrongState: A later commit took over.
        """
        return self._run(
            "promote",
            lambda c: promotion.promote(c, commit_id, fence, evidence, self._rules),
        )

    def finalize(self, commit_id: UUID, fence: Fence) -> None:
        """COMMITTED to FINALIZED, after the promotion was done or superseded.

        Raises:
            NotReady: It is pending.
        """
        self._run("finalize", lambda c: ending.finalize(c, commit_id, fence))

    def cancel(self, commit_id: UUID, *, actor: str) -> CommitState:
        """Ask that a commit not happen; its executor aborts it. A QUEUED one is REJECTED now.

        Raises:
            AlreadyCommitted: The commit point came first.
        """
        return self._run("cancel", lambda c: commit_requests.cancel(c, commit_id, actor))

    def abort(self, commit_id: UUID, *, error: Json, actor: str) -> CommitState:
        """T_abort and T_unref: the commit does not happen; its assets are let go of.

        ABORTING, or REJECTED from QUEUED; an ended commit stays as it is. Then the collector
        destroys, and `aborted` closes it.

        Raises:
            AlreadyCommitted: The commit point came first.
        """
        return self._run("abort", lambda c: ending.abort(c, commit_id, error=error, actor=actor))

    def aborted(self, commit_id: UUID) -> CommitState:
        """T_aborted: ABORTED once no stray is left; ABORTING while one is."""
        return self._run("aborted", lambda c: ending.aborted(c, commit_id))
